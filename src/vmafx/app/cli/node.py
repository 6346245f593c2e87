"""`vmafx node`: runs a node until it is told to stop, or checks what it would run with (ADR 0022)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from vmafx.app.cli.arguments import NodeArguments
from vmafx.app.cli.node_events import NODE_DIED, NODE_REFUSED, NODE_SIGNALLED, NODE_STARTING
from vmafx.app.cli.program import Messages, run_program
from vmafx.app.cli.program_signals import ProgramSignals
from vmafx.app.container.program import prepare_process
from vmafx.app.container.questionable import warn_of_settings
from vmafx.domain.errors import ConfigurationError, ScorerUnavailableError
from vmafx.ports.telemetry import Telemetry

if TYPE_CHECKING:
    from vmafx.app.settings.node import NodeSettings

__all__ = ["no_scorer", "node"]

_MESSAGES: Final = Messages(
    starting=NODE_STARTING, signalled=NODE_SIGNALLED, refused=NODE_REFUSED, died=NODE_DIED
)


def node(asked: NodeArguments, environment: Mapping[str, str], *, program: str = "vmafx") -> int:
    """Run a node until it is stopped, or check its configuration, and return the exit code.

    Everything a running node says is in its log, refusals to start included.

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
    tls13_only = prepare_process(os.environ)
    if asked.check:
        from vmafx.app.cli.node_check import check_node  # noqa: PLC0415 - a node starts fast

        return check_node(environment, tls13_only=tls13_only, program=program)

    def work(telemetry: Telemetry, signals: ProgramSignals) -> None:
        _run(environment, telemetry, signals, tls13_only=tls13_only)

    return run_program(_MESSAGES, environment, work)


def no_scorer(error: ScorerUnavailableError) -> ConfigurationError:
    """Return why a node that has a controller and no scorer does not start; blames what makes it unusable."""
    return ConfigurationError(
        error.setting,
        "VMAFX_CONTROLLER_ADDR is set but no vmaf scorer is available (check VMAFX_VMAF_BINARY): "
        f"a node that cannot score must not pull jobs: {error}",
        named=True,
    )


def _run(
    environment: Mapping[str, str], telemetry: Telemetry, signals: ProgramSignals, *, tls13_only: bool
) -> None:
    from vmafx.app.container.node import read_node_settings  # noqa: PLC0415 - the log is there first
    from vmafx.app.settings.shown import environment_warnings, start_warnings  # noqa: PLC0415 - the same

    warn_of_settings(
        telemetry, environment_warnings(environment)
    )  # what was misspelt explains many a refusal
    settings = read_node_settings(environment)
    warn_of_settings(telemetry, start_warnings(settings, environment))
    asyncio.run(_until_stopped(settings, environment, telemetry, signals, tls13_only=tls13_only))


async def _until_stopped(
    settings: NodeSettings,
    environment: Mapping[str, str],
    telemetry: Telemetry,
    signals: ProgramSignals,
    *,
    tls13_only: bool,
) -> None:
    from vmafx.app.container.node import open_node  # noqa: PLC0415 - the same

    async with open_node(
        settings, environment=environment, tls13_only=tls13_only, telemetry=telemetry
    ) as opened:
        with signals.stopping(opened):
            try:
                await opened.run()
            except ScorerUnavailableError as error:
                refusal: ConfigurationError = no_scorer(error)
                raise refusal from error
