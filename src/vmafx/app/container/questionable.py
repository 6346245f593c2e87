"""What is odd about settings, told to a log: by programs, and by a controller in a service (ADR 0019)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from vmafx.ports.telemetry import Fields, Level, Telemetry

__all__ = ["SETTING_QUESTIONABLE", "warn_of_settings"]

SETTING_QUESTIONABLE: Final = "setting questionable"
"""WARN; `setting` is probably not meant so, and `error` says why."""

_NAME: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")


def warn_of_settings(telemetry: Telemetry, lines: Iterable[str]) -> None:
    """Write what is odd about settings into the log.

    Args:
        telemetry: The log.
        lines: One for each; the first variable that it names is the one that it is about.
    """
    for line in lines:
        about = _NAME.search(line)
        fields: Fields = {"error": line} if about is None else {"setting": about[0], "error": line}
        telemetry.event(Level.WARN, SETTING_QUESTIONABLE, fields)
