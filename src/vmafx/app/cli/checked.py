"""What the checks of programs have in common: warnings on standard error, the configuration as the answer."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence

from vmafx.app.cli.streams import say, write_out
from vmafx.app.cli.table import labelled
from vmafx.app.settings.logs import level_warning
from vmafx.app.settings.shown import Row

__all__ = ["level_alone", "say_warnings", "write_configuration"]


def say_warnings(lines: Iterable[str], program: str) -> None:
    """Tell what is odd and keeps no program from starting.

    Args:
        lines: One for each thing.
        program: What the program is called, as in its refusals.
    """
    for line in lines:
        say(f"{program}: warning: {line}")


def level_alone(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the level of the log where it is one: all else that is odd was told by then.

    Args:
        environment: The settings.
    """
    name = "VMAFX_LOG_LEVEL"
    return {} if level_warning(environment) is not None else {name: environment.get(name, "")}


def write_configuration(settings: Iterable[Row], found: Sequence[tuple[str, str]]) -> None:
    """Write the answer of a check to standard output.

    Args:
        settings: Every setting.
        found: What was found beside them: names and words.

    Raises:
        OutputError: It cannot be written.
        ReaderGoneError: Nobody reads it.
    """
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    table = [(row.name, f"{row.value}  ({row.origin})") for row in settings]
    write_out(labelled([*table, *found, ("would start", "yes")], width))
