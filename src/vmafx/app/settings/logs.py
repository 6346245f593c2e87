"""LogSettings: how much is logged, and in which form (ADR 0019)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from vmafx.app.settings.forms import Form, word
from vmafx.app.settings.parts import Part, setting
from vmafx.domain.text import quoted
from vmafx.ports.telemetry import Level

__all__ = ["LogFormat", "LogSettings", "level_warning"]

_LEVEL: Final = "VMAFX_LOG_LEVEL"
_WORDS: Final = ", ".join(level.value for level in Level)


class LogFormat(Enum):
    """The form of log lines; `auto` means `tint` on a terminal, else `json`."""

    AUTO = "auto"
    TINT = "tint"
    JSON = "json"


def _level(_name: str, text: str) -> Level:
    """Read a level in any case; anything else counts as the default, and `level_warning` says so."""
    return next((level for level in Level if level.value == text.lower()), Level.INFO)


_LEVELS: Final = Form(parse=_level, check=word(Level).check, show=word(Level).show)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings(Part):
    """How much is logged, and in which form.

    Attributes:
        level: The least that is logged.
        format: The form of the lines.
    """

    level: Level = setting(_LEVEL, _LEVELS, Level.INFO)
    format: LogFormat = setting("VMAFX_LOG_FORMAT", word(LogFormat), LogFormat.AUTO)


def level_warning(environment: Mapping[str, str]) -> str | None:
    """Return what is wrong with the log level of an environment; None when nothing is.

    Args:
        environment: Names to values.
    """
    text = environment.get(_LEVEL, "").strip()
    if not text or any(level.value == text.lower() for level in Level):
        return None
    return f"{_LEVEL}={quoted(text)} is none of {_WORDS}; logging at {LogSettings().level.value}"
