"""What programs that run until they are stopped have in common: their log, signals, refusals and exit codes.

Everything such a program says is in its log, refusals to start included (ADR 0022, ADR 0028).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from vmafx.app.cli.exits import FAILED, USAGE
from vmafx.app.cli.kept_signals import ENDING, heard_signals
from vmafx.app.cli.program_signals import ProgramSignals
from vmafx.app.container.program import open_program_telemetry
from vmafx.app.settings.grammar import EnvironmentReader
from vmafx.app.settings.logs import LogSettings
from vmafx.app.settings.otel import OtelSettings
from vmafx.app.settings.pod import PodSettings
from vmafx.domain.errors import ConfigurationError, VmafxError
from vmafx.domain.version import __version__
from vmafx.ports.telemetry import Level, Telemetry

__all__ = ["Messages", "run_program"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """What a program says in its log.

    Attributes:
        starting: The first line.
        signalled: A signal came that something is done about.
        refused: It does not start; once for each thing at fault.
        died: A fault ended it.
    """

    starting: str
    signalled: str
    refused: str
    died: str


def run_program(
    messages: Messages,
    environment: Mapping[str, str],
    work: Callable[[Telemetry, ProgramSignals], None],
) -> int:
    """Do the work of a program that runs until it is stopped, and return the exit code; nothing is raised.

    Args:
        messages: What it says in its log.
        environment: The settings.
        work: Returns once the program was stopped.
    """
    with _log_of_start(environment) as telemetry:

        def told(number: signal.Signals) -> None:
            telemetry.event(Level.INFO, messages.signalled, {"signal": number.name})

        signals = ProgramSignals(told)
        try:
            with signals.listening():
                _tell_start(telemetry, messages.starting)
                work(telemetry, signals)
                return signals.exit_code
        except ConfigurationError as error:
            for problem in error.all:
                about = {"setting": problem.setting, "error": str(problem)}
                telemetry.event(Level.ERROR, messages.refused, about)
            return USAGE
        except VmafxError as error:
            telemetry.event(Level.ERROR, messages.refused, error=error)
            return FAILED
        except Exception as error:  # noqa: BLE001 - operators read the log, not tracebacks
            telemetry.event(Level.ERROR, messages.died, error=error)
            return FAILED


def _log_of_start(environment: Mapping[str, str]) -> AbstractContextManager[Telemetry]:
    """A log that is there before the settings are known to be right."""
    read = EnvironmentReader(environment)  # never finished: until it is, wrong values count as unset
    return open_program_telemetry(
        LogSettings.read(read),
        PodSettings.read(read),
        environment,
        traces=OtelSettings.read(read).exporting,
    )


def _tell_start(telemetry: Telemetry, message: str) -> None:
    ignored = [number.name for number in ENDING if number not in heard_signals()]
    told = {"ignored_signals": " ".join(ignored)} if ignored else {}
    telemetry.event(Level.INFO, message, {"version": __version__, **told})
