"""`vmafx controller`: runs a controller until it is told to stop, or checks what a start finds (ADR 0028)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from vmafx.app.cli.arguments import ControllerArguments
from vmafx.app.cli.controller_events import (
    CONTROLLER_DIED,
    CONTROLLER_REFUSED,
    CONTROLLER_SIGNALLED,
    CONTROLLER_STARTING,
)
from vmafx.app.cli.program import Messages, run_program
from vmafx.app.cli.program_signals import ProgramSignals
from vmafx.app.container.program import prepare_process
from vmafx.app.container.questionable import warn_of_settings
from vmafx.ports.telemetry import Telemetry

if TYPE_CHECKING:
    from vmafx.app.settings.controller import ControllerSettings

__all__ = ["controller"]

_MESSAGES: Final = Messages(
    starting=CONTROLLER_STARTING,
    signalled=CONTROLLER_SIGNALLED,
    refused=CONTROLLER_REFUSED,
    died=CONTROLLER_DIED,
)


def controller(asked: ControllerArguments, environment: Mapping[str, str], *, program: str = "vmafx") -> int:
    """Run a controller until it is stopped, or check its configuration, and return the exit code.

    Everything a running controller says is in its log, refusals to start included.

    Args:
        asked: What to do.
        environment: The settings.
        program: What the program is called.

    Raises:
        VmafxError: What was to be checked is wrong.
        OutputError: The answer of a check could not be written.
        ReaderGoneError: Nobody reads it.
        InterruptedRunError: A signal ended the check.
    """
    tls13_only = prepare_process(os.environ, children=False)
    if asked.check:
        from vmafx.app.cli.controller_check import check_controller  # noqa: PLC0415 - it starts fast

        return check_controller(environment, program=program)

    def work(telemetry: Telemetry, signals: ProgramSignals) -> None:
        _run(environment, telemetry, signals, tls13_only=tls13_only)

    return run_program(_MESSAGES, environment, work)


def _run(
    environment: Mapping[str, str], telemetry: Telemetry, signals: ProgramSignals, *, tls13_only: bool
) -> None:
    from vmafx.app.container.controller import read_controller_settings  # noqa: PLC0415 - the log is there first
    from vmafx.app.settings.shown import environment_warnings  # noqa: PLC0415 - the same

    warn_of_settings(
        telemetry, environment_warnings(environment)
    )  # what was misspelt explains many a refusal
    settings = read_controller_settings(environment)
    asyncio.run(_until_stopped(settings, environment, telemetry, signals, tls13_only=tls13_only))


async def _until_stopped(
    settings: ControllerSettings,
    environment: Mapping[str, str],
    telemetry: Telemetry,
    signals: ProgramSignals,
    *,
    tls13_only: bool,
) -> None:
    from vmafx.app.container.controller import open_reference_controller  # noqa: PLC0415 - the same

    async with open_reference_controller(
        settings, environment=environment, tls13_only=tls13_only, telemetry=telemetry
    ) as opened:
        with signals.stopping(opened):
            await opened.run()
