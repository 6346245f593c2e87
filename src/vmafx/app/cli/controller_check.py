"""`vmafx controller --check`: what a start would find, and the configuration that comes of it (ADR 0028)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from vmafx.app.cli.checked import level_alone, say_warnings, write_configuration
from vmafx.app.cli.exits import OK
from vmafx.app.cli.interrupts import until_signalled
from vmafx.app.cli.log import log_to_stderr
from vmafx.app.cli.streams import require_output
from vmafx.app.container.controller_check import check_controller_start
from vmafx.app.settings.controller import ControllerSettings
from vmafx.app.settings.grammar import EnvironmentReader
from vmafx.app.settings.shown import environment_warnings
from vmafx.app.settings.shown_controller import auth_warnings, controller_rows, controller_warnings

__all__ = ["check_controller"]


def check_controller(environment: Mapping[str, str], *, program: str) -> int:
    """Check everything, change nothing, show the configuration with secrets masked, and return OK.

    Args:
        environment: The settings.
        program: What the program is called.

    Raises:
        ConfigurationError: The controller would refuse to start; names every setting at fault.
        OutputError: The answer cannot be written.
        ReaderGoneError: Nobody reads the answer.
        InterruptedRunError: A signal ended the check.
    """
    require_output()
    say_warnings(environment_warnings(environment), program)  # what was misspelt explains many a refusal
    read = EnvironmentReader(environment)
    settings = ControllerSettings.drafted(read)
    warnings = (*controller_warnings(settings, environment), *auth_warnings(settings))
    names = tuple(problem.setting for problem in read.refused)
    odd = [line for line in warnings if not line.startswith(names)]  # else of a default that nobody asked for
    say_warnings(odd, program)
    with log_to_stderr(level_alone(environment), program):
        check = check_controller_start(settings, environment=environment, wrong=read.refused)
        found = asyncio.run(until_signalled(check))
    write_configuration(controller_rows(settings, environment), [("database", found.database)])
    return OK
