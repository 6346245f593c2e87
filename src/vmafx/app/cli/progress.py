"""A progress bar on a terminal, and nothing anywhere else."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from vmafx.ports.scorer import Progress

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(stream: TextIO | None, environment: Mapping[str, str]) -> Generator[Progress | None]:
    """Show how far a run has come while the body runs; the bar is gone after it.

    Args:
        stream: Where the bar goes when that is a terminal; None where there is no stream.
        environment: Says in `TERM` what the terminal can.

    Yields:
        What moves the bar; None where none is shown.
    """
    if stream is None or not _is_terminal(stream) or environment.get("TERM", "dumb") == "dumb":
        yield None
        return
    shown = _Shown(stream)
    try:
        yield shown
    finally:
        shown.remove()


class _Shown:
    """A bar that appears with the first news; a terminal that takes no more does not end a run."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: Bar | None = None
        self._percent = -1

    def __call__(self, frames_done: int, frames_total: int) -> None:
        percent = 100 * frames_done // max(frames_total, 1)
        if percent == self._percent:
            return
        self._percent = percent
        with contextlib.suppress(OSError, ValueError):
            if self._bar is None:
                self._bar = _bar(self._stream)
                self._bar.add_task("scoring", total=None)
                self._bar.start()
            self._bar.update(self._bar.task_ids[0], completed=frames_done, total=frames_total)
            self._bar.refresh()

    def remove(self) -> None:
        """Take the bar away again."""
        if self._bar is not None:
            with contextlib.suppress(OSError, ValueError):
                self._bar.stop()


def _bar(stream: TextIO) -> Bar:
    from rich.console import Console  # noqa: PLC0415 - costs 60 ms, and only a terminal needs it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415 - the same

    # No thread of its own: the bar moves when the scorer speaks.
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        console=Console(file=stream),
        auto_refresh=False,
        redirect_stdout=False,
        transient=True,
    )


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False
