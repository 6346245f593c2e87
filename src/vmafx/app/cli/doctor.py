"""`vmafx doctor`: what this machine can do, and what to do about each missing thing."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Mapping

from vmafx.app.cli.arguments import DoctorArguments
from vmafx.app.cli.exits import FAILED, OK
from vmafx.app.cli.interrupts import until_signalled
from vmafx.app.cli.log import log_to_stderr
from vmafx.app.cli.streams import require_output, write_out
from vmafx.app.cli.table import labelled
from vmafx.app.container.checkup import Check, Checkup
from vmafx.app.container.doctor import examine
from vmafx.app.settings.scorer import ScorerSettings
from vmafx.domain.version import __version__

__all__ = ["doctor"]


def doctor(asked: DoctorArguments, environment: Mapping[str, str]) -> int:
    """Look at this machine, write the answer to standard output and return the exit code.

    Args:
        asked: How to answer.
        environment: The settings.

    Raises:
        ConfigurationError: A setting cannot be understood.
        OutputError: The answer cannot be written.
        ReaderGoneError: Nobody reads the answer.
        InterruptedRunError: A signal ended the examination; nothing of it is left.
    """
    require_output()
    with log_to_stderr(environment):
        settings = ScorerSettings.from_environment(environment)
        checkup = asyncio.run(until_signalled(examine(settings, environment)))
    if asked.as_json:
        write_out(as_json(checkup))
    else:
        write_out(as_table(checkup, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))
    return OK if checkup.can_score else FAILED


def as_json(checkup: Checkup) -> str:
    """Return the checkup as one JSON object, as `docs/cli.md` describes it."""
    answer = {
        "vmafx": __version__,
        "can_score": checkup.can_score,
        "checks": [
            {
                "name": check.name,
                "ok": check.ok,
                "needed": check.needed,
                "found": check.found,
                "advice": check.advice,
                "command": None if check.command is None else list(check.command),
            }
            for check in checkup.checks
        ],
    }
    return json.dumps(answer, indent=2) + "\n"


def as_table(checkup: Checkup, width: int | None) -> str:
    """Return the checkup as a table for people.

    Args:
        checkup: What was found.
        width: Columns of the terminal; None where there is none.
    """
    rows: list[tuple[str, str]] = [("vmafx", __version__)]
    for check in checkup.checks:
        rows.append((check.name, f"{_mark(check)}  {check.found}"))
        if check.advice is not None:
            rows.append(("", f"{' ' * len(_mark(check))}  to do: {check.advice}"))
    verdict = "yes" if checkup.can_score else "no"
    return labelled([*rows, ("can score", verdict)], width)


def _mark(check: Check) -> str:
    if check.ok:
        return "ok    "
    return "NOT OK" if check.needed else "not ok"
