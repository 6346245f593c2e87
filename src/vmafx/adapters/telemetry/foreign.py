"""ForeignLines: how much of what libraries log is written, so that none of them fills the disk (ADR 0020)."""

from __future__ import annotations

from typing import Final

from vmafx.ports.clock import Clock

__all__ = ["LINES_MAX", "WINDOW_S", "ForeignLines"]

LINES_MAX: Final = 20
"""How many lines a logger that is not ours gets in a window."""
WINDOW_S: Final = 60.0
"""How long a window is, in seconds; it begins with a line."""
_LOGGERS_MAX: Final = 1000


class ForeignLines:
    """Says of each line of a library whether it is written; what some do without end is told now and then.

    Args:
        clock: Measures the windows.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._windows: dict[str, _Window] = {}

    def left_out(self, logger: str) -> int | None:
        """Return how many lines of a logger were left out before this one, which is written.

        Args:
            logger: Whose line.

        Returns:
            None: This one is left out as well.
        """
        now_s = self._clock.monotonic()
        window = self._windows.get(logger)
        if window is None or now_s - window.began_s >= WINDOW_S:
            missing = 0 if window is None else window.lines - LINES_MAX
            self._windows[logger] = _Window(now_s)
            if len(self._windows) > _LOGGERS_MAX:
                del self._windows[next(iter(self._windows))]
            return max(0, missing)
        window.lines += 1
        return None if window.lines > LINES_MAX else 0


class _Window:
    """The lines of one logger since an instant."""

    __slots__ = ("began_s", "lines")

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        self.lines = 1
