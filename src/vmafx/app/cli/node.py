"""`vmafx node`: runs a node until it is told to stop, or checks what it would run with (ADR 0022)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from vmafx.app.cli.arguments import NodeArguments
from vmafx.app.cli.exits import FAILED, USAGE
from vmafx.app.cli.kept_signals import ENDING, heard_signals
from vmafx.app.cli.node_events import (
    NODE_DIED,
    NODE_REFUSED,
    NODE_SIGNALLED,
    NODE_STARTING,
    SETTING_QUESTIONABLE,
)
from vmafx.app.cli.node_signals import NodeSignals
from vmafx.app.container.program import open_program_telemetry, prepare_process
from vmafx.app.settings.grammar import EnvironmentReader
from vmafx.app.settings.logs import LogSettings
from vmafx.app.settings.node import PodSettings
from vmafx.app.settings.otel import OtelSettings
from vmafx.domain.errors import ConfigurationError, ScorerUnavailableError, VmafxError
from vmafx.domain.version import __version__
from vmafx.ports.telemetry import Level, Telemetry

if TYPE_CHECKING:
    from vmafx.app.settings.node import NodeSettings

__all__ = ["no_scorer", "node"]


def node(asked: NodeArguments, environment: Mapping[str, str]) -> int:
    """Run a node until it is stopped, or check its configuration, and return the exit code.

    Everything a running node says is in its log, refusals to start included.

    Args:
        asked: What to do.
        environment: The settings.

    Raises:
        VmafxError: What was to be checked is wrong.
        OutputError: The answer of a check could not be written.
        ReaderGoneError: Nobody reads it.
        InterruptedRunError: A signal ended the check.
    """
    tls13_only = prepare_process(os.environ)
    if asked.check:
        from vmafx.app.cli.node_check import check_node  # noqa: PLC0415 - a node starts fast

        return check_node(environment, tls13_only=tls13_only)
    with _log_of_start(environment) as telemetry:

        def told(number: signal.Signals) -> None:
            telemetry.event(Level.INFO, NODE_SIGNALLED, {"signal": number.name})

        signals = NodeSignals(told)
        try:
            with signals.listening():
                return _run(environment, telemetry, signals, tls13_only=tls13_only)
        except ConfigurationError as error:
            for problem in error.all:
                telemetry.event(
                    Level.ERROR, NODE_REFUSED, {"setting": problem.setting, "error": str(problem)}
                )
            return USAGE
        except VmafxError as error:
            telemetry.event(Level.ERROR, NODE_REFUSED, error=error)
            return FAILED
        except Exception as error:  # noqa: BLE001 - operators read the log, not tracebacks
            telemetry.event(Level.ERROR, NODE_DIED, error=error)
            return FAILED


def no_scorer(error: ScorerUnavailableError) -> ConfigurationError:
    """Return why a node that has a controller and no scorer does not start; blames what makes it unusable."""
    return ConfigurationError(
        error.setting,
        "VMAFX_CONTROLLER_ADDR is set but no vmaf scorer is available (check VMAFX_VMAF_BINARY): "
        f"a node that cannot score must not pull jobs: {error}",
        named=True,
    )


def _log_of_start(environment: Mapping[str, str]) -> AbstractContextManager[Telemetry]:
    """A log that is there before the settings are known to be right."""
    read = EnvironmentReader(environment)  # never finished: until it is, wrong values count as unset
    return open_program_telemetry(
        LogSettings.read(read),
        PodSettings.read(read),
        environment,
        traces=OtelSettings.read(read).exporting,
    )


def _run(
    environment: Mapping[str, str], telemetry: Telemetry, signals: NodeSignals, *, tls13_only: bool
) -> int:
    from vmafx.app.container.node import read_node_settings  # noqa: PLC0415 - the log is there first
    from vmafx.app.settings.shown import environment_warnings, start_warnings  # noqa: PLC0415 - the same

    def warn(lines: Iterable[str]) -> None:
        for line in lines:
            telemetry.event(Level.WARN, SETTING_QUESTIONABLE, {"error": line})

    ignored = [number.name for number in ENDING if number not in heard_signals()]
    told = {"ignored_signals": " ".join(ignored)} if ignored else {}
    telemetry.event(Level.INFO, NODE_STARTING, {"version": __version__, **told})
    warn(environment_warnings(environment))  # what was misspelt explains many a refusal
    settings = read_node_settings(environment)
    warn(start_warnings(settings, environment))
    asyncio.run(_until_stopped(settings, environment, telemetry, signals, tls13_only=tls13_only))
    return signals.exit_code


async def _until_stopped(
    settings: NodeSettings,
    environment: Mapping[str, str],
    telemetry: Telemetry,
    signals: NodeSignals,
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
