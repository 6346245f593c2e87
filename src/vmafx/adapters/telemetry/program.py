"""The log of a program of ours: its events, and what libraries log, as lines in one form (ADR 0020)."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Final, TextIO

from vmafx.adapters.telemetry.fitting import (
    Scalar,
    error_text,
    fit_fields,
    fit_text,
    traceback_text,
)
from vmafx.adapters.telemetry.foreign import ForeignLines
from vmafx.adapters.telemetry.lines import Record, json_line, tint_line
from vmafx.adapters.telemetry.scope import in_scope, scope_fields
from vmafx.adapters.telemetry.writer import LineWriter
from vmafx.ports.clock import Clock
from vmafx.ports.telemetry import Fields, Labels, Level

if TYPE_CHECKING:
    from vmafx.ports.telemetry import Telemetry

__all__ = ["LINES_DROPPED", "LineTelemetry", "LogForm", "form_for", "open_log"]

LINES_DROPPED: Final = "log lines dropped"
"""The line that says how many `lines` are missing before it."""


class LogForm(Enum):
    """What lines look like."""

    JSON = "json"
    TINT = "tint"
    PLAIN = "plain"
    """Like `tint`, without colours."""


def form_for(descriptor: int | None, environment: Mapping[str, str]) -> LogForm:
    """Return the form that suits whoever reads: people at a terminal, else programs.

    Args:
        descriptor: Where the log goes to; None when this process has none.
        environment: The environment of this process; `NO_COLOR` and a dumb terminal get no colours.
    """
    if descriptor is None or not os.isatty(descriptor):
        return LogForm.JSON
    plain = environment.get("NO_COLOR") or environment.get("TERM") == "dumb"
    return LogForm.PLAIN if plain else LogForm.TINT


@contextmanager
def open_log(
    descriptor: int | None,
    *,
    clock: Clock,
    form: LogForm = LogForm.JSON,
    level: Level = Level.INFO,
    static_fields: Mapping[str, str] | None = None,
) -> Generator[LineTelemetry]:
    """Write the log of this process to `descriptor` while the body runs.

    What goes through `logging` is written too, as lines of the same form: records of `vmafx` from `level` on,
    those of other libraries from `WARN` on, since what they say below that may hold secrets, and Python's
    warnings; of these so many a minute. Everything about `logging` is afterwards as it was before.

    Args:
        descriptor: Where to, usually 2; None when this process has none. It is copied.
        clock: The time of the lines.
        form: What lines look like.
        level: From which level on events are written.
        static_fields: What every line ends with: where this process runs.

    Yields:
        The telemetry to tell events to.
    """
    writer = LineWriter(descriptor)
    log = LineTelemetry(writer, clock=clock, form=form, level=level, static_fields=static_fields)
    try:
        with _bridged(log, level, ForeignLines(clock)):
            yield log
    finally:
        log.close()


class LineTelemetry:
    """A `Telemetry` whose events are lines; spans lend their ids to the lines inside, numbers are ignored.

    Args:
        writer: Takes the lines.
        clock: The time of the lines.
        form: What lines look like.
        level: From which level on events are written.
        static_fields: What every line ends with.
    """

    def __init__(
        self,
        writer: LineWriter,
        *,
        clock: Clock,
        form: LogForm = LogForm.JSON,
        level: Level = Level.INFO,
        static_fields: Mapping[str, str] | None = None,
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._form = form
        self._rank = _RANKS[level]
        self._static = fit_fields(static_fields)

    def event(
        self, level: Level, message: str, fields: Fields | None = None, *, error: BaseException | None = None
    ) -> None:
        """Write one line, or drop it when it cannot be written."""
        self.line(level, message, fields, error=error)

    def line(
        self,
        level: Level,
        message: object,
        fields: Mapping[str, object] | None,
        *,
        error: BaseException | None = None,
    ) -> None:
        """Write one line like `event`, of whatever values; never raises.

        Args:
            level: How much it matters.
            message: The text.
            fields: The values.
            error: What went wrong; with its traceback when this log shows `DEBUG`.
        """
        try:
            if _RANKS[level] >= self._rank:
                self._tell_dropped()
                self._write(level, message, self._fields(fields, error))
        except Exception:  # noqa: BLE001 - a log never harms what it is about
            self._writer.drop()

    def count(self, family: str, labels: Labels | None = None, *, by: float = 1.0) -> None:
        """Ignore it."""

    def gauge(self, family: str, value: float, labels: Labels | None = None) -> None:
        """Ignore it."""

    def observe(self, family: str, value: float, labels: Labels | None = None) -> None:
        """Ignore it."""

    def span(self, name: str, fields: Fields | None = None) -> AbstractContextManager[None]:  # noqa: ARG002 - no line tells of spans
        """Put the ids among the fields on every line that is written inside."""
        return in_scope(fit_fields(fields))

    def close(self) -> None:
        """Say how many lines were dropped, if that can be written, and write no more. May be called again."""
        try:
            self._tell_dropped()
        except Exception:  # noqa: BLE001 - a log never harms what it is about
            self._writer.drop()
        self._writer.close()

    def _tell_dropped(self) -> None:
        if self._writer.dropped and self._writer.ready():
            dropped = self._writer.take_dropped()
            if not self._write(Level.WARN, LINES_DROPPED, [("lines", dropped)]):
                self._writer.drop(dropped - 1)

    def _write(self, level: Level, message: object, fields: list[tuple[str, Scalar]]) -> bool:
        record = Record(
            at=self._clock.now(),
            level=level,
            message=fit_text(message),
            fields=(*fields, *self._static.items()),
        )
        if self._form is LogForm.JSON:
            return self._writer.write(json_line(record))
        return self._writer.write(tint_line(record, colour=self._form is LogForm.TINT))

    def _fields(
        self, fields: Mapping[str, object] | None, error: BaseException | None
    ) -> list[tuple[str, Scalar]]:
        fit = fit_fields(fields)
        said = list(fit.items())
        if error is not None:
            said.append(("error", error_text(error)))
        said += [(name, value) for name, value in scope_fields().items() if name not in fit]
        if error is not None and self._rank == _RANKS[Level.DEBUG]:
            said.append(("traceback", traceback_text(error)))
        return said


class _Bridge(logging.Handler):
    def __init__(self, log: LineTelemetry, foreign: ForeignLines) -> None:
        super().__init__()
        self._log = log
        self._foreign = foreign

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record of `logging` as a line, its further attributes as fields."""
        ours = _is_ours(record.name)
        if not ours and record.levelno < logging.WARNING:
            return
        fields = {name: value for name, value in vars(record).items() if name not in _ORDINARY}
        if not ours:
            left_out = _left_out(self._foreign, record.name)
            if left_out is None:
                return
            fields = {"logger": record.name, **fields, **_missing(left_out)}
        error = record.exc_info[1] if record.exc_info else None
        self._log.line(_level(record.levelno), _message(record), fields, error=error)


def _left_out(foreign: ForeignLines, logger: str) -> int | None:
    try:
        return foreign.left_out(logger)
    except Exception:  # noqa: BLE001 - a log never harms what it is about
        return None


def _missing(left_out: int) -> dict[str, int]:
    return {"left_out": left_out} if left_out else {}


def _is_ours(name: str) -> bool:
    return name == "vmafx" or name.startswith("vmafx.")


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - the message and its arguments do not go together
        return fit_text(record.msg)


def _level(number: int) -> Level:
    return next((level for level, from_number in _FROM.items() if number >= from_number), Level.DEBUG)


@contextmanager
def _bridged(log: LineTelemetry, level: Level, foreign: ForeignLines) -> Generator[None]:
    bridge, root, ours = _Bridge(log, foreign), logging.getLogger(), logging.getLogger("vmafx")
    before = [(logger, logger.level, logger.propagate, logger.disabled) for logger in (root, ours)]
    ours.setLevel(_NUMBERS[level])
    ours.propagate, ours.disabled = True, False
    root.setLevel(max(logging.WARNING, _NUMBERS[level]))
    root.addHandler(bridge)
    try:
        with _warnings_as_lines(log, foreign):
            yield
    finally:
        root.removeHandler(bridge)
        for logger, number, propagate, disabled in before:
            logger.setLevel(number)
            logger.propagate, logger.disabled = propagate, disabled


@contextmanager
def _warnings_as_lines(log: LineTelemetry, foreign: ForeignLines) -> Generator[None]:
    def show(  # noqa: PLR0913, PLR0917 - the form that Python asks for
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,  # noqa: ARG001 - Python asks for it
        line: str | None = None,  # noqa: ARG001 - the same
    ) -> None:
        left_out = _left_out(foreign, _WARNINGS)
        if left_out is None:
            return
        where = {"logger": _WARNINGS, "category": category.__name__, "at": f"{filename}:{lineno}"}
        log.line(Level.WARN, message, {**where, **_missing(left_out)})

    before, warnings.showwarning = warnings.showwarning, show
    try:
        yield
    finally:
        warnings.showwarning = before


_WARNINGS: Final = "py.warnings"
_RANKS: Final[Mapping[Level, int]] = {level: rank for rank, level in enumerate(Level)}
_NUMBERS: Final[Mapping[Level, int]] = {
    Level.DEBUG: logging.DEBUG,
    Level.INFO: logging.INFO,
    Level.WARN: logging.WARNING,
    Level.ERROR: logging.ERROR,
}
_FROM: Final[Mapping[Level, int]] = {level: _NUMBERS[level] for level in reversed(Level)}
_ORDINARY: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

if TYPE_CHECKING:
    _port: type[Telemetry] = LineTelemetry
