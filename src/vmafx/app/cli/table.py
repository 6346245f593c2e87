"""Tables of plain text that fit a terminal of any width."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from vmafx.domain.text import printable

__all__ = ["labelled"]

_GAP: Final = 2
_TEXT_COLUMNS_MIN: Final = 16
"""A text column narrower than this folds no text: what does not fit in it is put below its label instead."""


def labelled(rows: Sequence[tuple[str, str]], width: int | None) -> str:
    """Return the rows as lines: a column of labels, and beside it the texts, folded where they must be.

    Args:
        rows: Labels and texts; texts are made printable.
        width: Columns of the terminal; None folds nothing.
    """
    shown = [(label, printable(text)) for label, text in rows]
    if not shown:
        return ""
    if width is None:
        column = max(len(label) for label, _ in shown) + _GAP
        return "".join(f"{label:<{column}}{text}".rstrip() + "\n" for label, text in shown)
    return _folded(shown, width)


def _folded(rows: Sequence[tuple[str, str]], width: int) -> str:
    from rich.cells import cell_len  # noqa: PLC0415 - a terminal is there; nothing else needs it
    from rich.console import Console  # noqa: PLC0415 - the same
    from rich.table import Table  # noqa: PLC0415 - the same
    from rich.text import Text  # noqa: PLC0415 - the same

    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    column = max(cell_len(label) for label, _ in rows) + _GAP
    longest = max(cell_len(text) for _, text in rows)
    with console.capture() as captured:
        if width - column >= min(longest, _TEXT_COLUMNS_MIN):
            grid = Table.grid(padding=(0, _GAP, 0, 0))
            grid.add_column(no_wrap=True)
            grid.add_column(overflow="fold")
            for label, text in rows:
                grid.add_row(Text(label), Text(text))
            console.print(grid)
        else:
            for part in _stacked(rows, width, cell_len):
                console.print(Text(part, overflow="fold"))
    return "".join(line.rstrip() + "\n" for line in captured.get().splitlines())


def _stacked(rows: Sequence[tuple[str, str]], width: int, cell_len: Callable[[str], int]) -> Iterator[str]:
    """Put each text beside its label where both fit, in a column as far as that goes, else below it.

    Yields:
        Lines, and parts that are still to be folded.
    """
    beside = [label for label, text in rows if cell_len(label) + _GAP + cell_len(text) <= width]
    column = max(map(cell_len, beside), default=0) + _GAP
    for label, text in rows:
        gap = max(_GAP, min(column, width - cell_len(text)) - cell_len(label))
        if cell_len(label) + gap + cell_len(text) <= width:
            yield f"{label}{' ' * gap}{text}"
        else:
            yield label
            yield f"{' ' * min(column, max(0, width - cell_len(text)))}{text}"
