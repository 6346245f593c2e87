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
    with _bar(stream) as bar:
        yield _Shown(bar)


class _Shown:
    """Moves a bar; a terminal that takes no more is no reason to end a run."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._task = None if bar.disable else bar.add_task("scoring", total=None)
        self._percent = -1

    def __call__(self, frames_done: int, frames_total: int) -> None:
        percent = 100 * frames_done // max(frames_total, 1)
        if self._task is None or percent == self._percent:
            return
        self._percent = percent
        with contextlib.suppress(OSError, ValueError):
            self._bar.update(self._task, completed=frames_done, total=frames_total)
            self._bar.refresh()


@contextmanager
def _bar(stream: TextIO) -> Generator[Bar]:
    from rich.console import Console  # noqa: PLC0415 - costs 60 ms, and only a terminal needs it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415 - the same

    # No thread of its own: the bar moves when the scorer speaks.
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        console=Console(file=stream),
        auto_refresh=False,
        redirect_stdout=False,
        transient=True,
    )
    try:
        with contextlib.suppress(OSError, ValueError):
            bar.start()
        yield bar
    finally:
        with contextlib.suppress(OSError, ValueError):
            bar.stop()


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False
