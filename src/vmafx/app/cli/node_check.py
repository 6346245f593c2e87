"""`vmafx node --check`: what a start would look at, and the configuration that comes of it (ADR 0022)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from vmafx.app.cli.checked import level_alone, say_warnings, write_configuration
from vmafx.app.cli.exits import OK
from vmafx.app.cli.interrupts import until_signalled
from vmafx.app.cli.log import log_to_stderr
from vmafx.app.cli.node import no_scorer
from vmafx.app.cli.streams import require_output
from vmafx.app.container.node import check_start, read_node_settings
from vmafx.app.container.platform import available_processors
from vmafx.app.settings.shown import environment_warnings, rows, start_warnings
from vmafx.domain.errors import ConfigurationError, ScorerUnavailableError

__all__ = ["check_node"]


def check_node(environment: Mapping[str, str], *, tls13_only: bool, program: str) -> int:
    """Check everything, run the self-test, show the configuration with secrets masked, and return OK.

    Args:
        environment: The settings.
        tls13_only: Whether grpc was kept from TLS below 1.3 before it was imported.
        program: What the program is called.

    Raises:
        ConfigurationError: The node would refuse to start; names every setting at fault.
        OutputError: The answer cannot be written.
        ReaderGoneError: Nobody reads the answer.
        InterruptedRunError: A signal ended the check; nothing of it is left.
    """
    require_output()
    say_warnings(environment_warnings(environment), program)  # what was misspelt explains many a refusal
    settings = read_node_settings(environment)
    say_warnings(start_warnings(settings, environment), program)
    with log_to_stderr(level_alone(environment), program):
        try:
            check = check_start(settings, environment=environment, tls13_only=tls13_only)
            found = asyncio.run(until_signalled(check))
        except ScorerUnavailableError as error:
            refusal: ConfigurationError = no_scorer(error)
            raise refusal from error
    say_warnings(found.warnings, program)
    shown = rows(settings, environment, processors=available_processors())
    write_configuration(shown, [("scorer", found.scorer)])
    return OK
