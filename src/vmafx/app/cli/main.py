"""Our programs: turns whatever happens into one exit code and, on failure, lines on stderr.

This module imports next to nothing, so that the program starts fast and Ctrl-C has little to interrupt before
somebody listens for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from vmafx.app.cli.exits import (
    FAILED,
    SIGNALLED,
    USAGE,
    InterruptedRunError,
    OutputError,
    ReaderGoneError,
)
from vmafx.app.cli.streams import prepare_standard_streams, say
from vmafx.app.container.platform import platform_problem
from vmafx.domain.errors import ConfigurationError, VmafxError

__all__ = ["main", "run"]


def main(program: str = "vmafx") -> None:
    """Run a program with the arguments, the environment and the streams of this process, and exit.

    Args:
        program: Its name.
    """
    prepare_standard_streams()
    sys.exit(run(sys.argv[1:], os.environ, platform=sys.platform, program=program))


def run(
    arguments: Sequence[str], environment: Mapping[str, str], *, platform: str, program: str = "vmafx"
) -> int:
    """Run one command and return its exit code; nothing is raised.

    Args:
        arguments: The command line without the program's name.
        environment: The settings.
        platform: The platform, as in `sys.platform`.
        program: The program's name.
    """
    problem = platform_problem(platform)
    if problem is not None:
        say(f"{program}: {problem}")
        return FAILED
    try:
        from vmafx.app.cli.commands import execute  # noqa: PLC0415 - Windows has not all that it imports

        return execute(arguments, environment, program=program)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - a user never sees a traceback
        for line in _lines(error):
            say(f"{program}: {line}")
        if environment.get("VMAFX_LOG_LEVEL", "").strip().lower() == "debug":
            _say_traceback(error)
        return _code(error)


def _code(error: BaseException) -> int:
    match error:
        case ConfigurationError():
            return USAGE
        case InterruptedRunError():
            return SIGNALLED + error.signal
        case KeyboardInterrupt():
            return SIGNALLED + 2
        case _:
            return FAILED


def _lines(error: BaseException) -> tuple[str, ...]:
    match error:
        case ReaderGoneError():
            return ()
        case ConfigurationError():
            return tuple(str(problem) for problem in error.all)
        case VmafxError():
            return (_without_silence(str(error)),)
        case OutputError() | InterruptedRunError():
            return (str(error),)
        case KeyboardInterrupt():
            return ("interrupted (SIGINT)",)
        case _:
            return (_unexpected(error),)


def _without_silence(message: str) -> str:
    """The message of a failed run without a last line that says that the scorer said nothing."""
    return "\n".join(line for line in message.splitlines() if line.strip() != "stderr:")


def _unexpected(error: BaseException) -> str:
    reason = " ".join(str(error).split())
    return (
        f"unexpected {type(error).__name__}{': ' if reason else ''}{reason}"
        " (VMAFX_LOG_LEVEL=debug shows where it happened)"
    )


def _say_traceback(error: BaseException) -> None:
    import traceback  # noqa: PLC0415 - needed in a debugging session only

    say("".join(traceback.format_exception(error)))
