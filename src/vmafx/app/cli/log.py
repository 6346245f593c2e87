"""Log lines of a command: on standard error, from the level that the user asked for."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from vmafx.app.cli.streams import say
from vmafx.app.settings.names import name_warnings
from vmafx.domain.text import printable, quoted

__all__ = ["log_to_stderr"]

_log: Final = logging.getLogger("vmafx.settings")
_LEVELS: Final[Mapping[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}


@contextmanager
def log_to_stderr(environment: Mapping[str, str], program: str = "vmafx") -> Generator[None]:
    """Show what vmafx logs while the body runs: warnings, or what `VMAFX_LOG_LEVEL` says.

    What is odd about the names and the level in the environment comes first, as warnings.

    Args:
        environment: The settings.
        program: What lines begin with.
    """
    asked = environment.get("VMAFX_LOG_LEVEL", "").strip()
    level = _LEVELS.get(asked.lower(), logging.WARNING)
    logger, handler = logging.getLogger("vmafx"), _Lines(program)
    before, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
    try:
        if asked and asked.lower() not in _LEVELS:
            words = ", ".join(_LEVELS)
            _log.warning("VMAFX_LOG_LEVEL=%s is none of %s; showing warnings", quoted(asked), words)
        for line in name_warnings(environment):
            _log.warning("%s", line)
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        logger.propagate = propagate


class _Lines(logging.Handler):
    """One line for each record, its further fields behind the message."""

    def __init__(self, program: str) -> None:
        super().__init__()
        self._program = program

    def emit(self, record: logging.LogRecord) -> None:
        fields = {key: value for key, value in vars(record).items() if key not in _ORDINARY}
        words = [f"{key}={value}" for key, value in fields.items() if value is not None]
        message = printable(" ".join([record.getMessage(), *words]))
        say(f"{self._program}: {record.levelname.lower()}: {message}")


_ORDINARY: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
