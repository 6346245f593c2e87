"""`vmafx node --check`: what a start would look at, and the configuration that comes of it (ADR 0022)."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Iterable, Mapping

from vmafx.app.cli.exits import OK
from vmafx.app.cli.interrupts import until_signalled
from vmafx.app.cli.log import log_to_stderr
from vmafx.app.cli.node import no_scorer
from vmafx.app.cli.streams import require_output, say, write_out
from vmafx.app.cli.table import labelled
from vmafx.app.container.node import check_start, read_node_settings
from vmafx.app.container.platform import available_processors
from vmafx.app.settings.logs import level_warning
from vmafx.app.settings.shown import environment_warnings, rows, start_warnings
from vmafx.domain.errors import ConfigurationError, ScorerUnavailableError

__all__ = ["check_node"]


def check_node(environment: Mapping[str, str], *, tls13_only: bool) -> int:
    """Check everything, run the self-test, show the configuration with secrets masked, and return OK.

    Args:
        environment: The settings.
        tls13_only: Whether grpc was kept from TLS below 1.3 before it was imported.

    Raises:
        ConfigurationError: The node would refuse to start; names every setting at fault.
        OutputError: The answer cannot be written.
        ReaderGoneError: Nobody reads the answer.
        InterruptedRunError: A signal ended the check; nothing of it is left.
    """
    require_output()
    _warn(environment_warnings(environment))  # what was misspelt explains many a refusal
    settings = read_node_settings(environment)
    _warn(start_warnings(settings, environment))
    with log_to_stderr(_level_alone(environment)):
        try:
            check = check_start(settings, environment=environment, tls13_only=tls13_only)
            found = asyncio.run(until_signalled(check))
        except ScorerUnavailableError as error:
            refusal: ConfigurationError = no_scorer(error)
            raise refusal from error
    _warn(found.warnings)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    shown = rows(settings, environment, processors=available_processors())
    table = [(row.name, f"{row.value}  ({row.origin})") for row in shown]
    write_out(labelled([*table, ("scorer", found.scorer), ("would start", "yes")], width))
    return OK


def _warn(lines: Iterable[str]) -> None:
    for line in lines:
        say(f"vmafx: warning: {line}")


def _level_alone(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The level of the log where it is one: all else that is odd was told by then."""
    name = "VMAFX_LOG_LEVEL"
    return {} if level_warning(environment) is not None else {name: environment.get(name, "")}
