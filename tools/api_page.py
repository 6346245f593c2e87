"""Writes docs/api.md: every public name with the first sentence of its documentation."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Final

import vmafx

PAGE: Final = Path(__file__).parents[1] / "docs" / "api.md"
HEAD: Final = """# The public API

The names in `vmafx.__all__`; nothing else is public. `from vmafx import NAME` loads what the name needs. More
than the first sentence is in `help(vmafx.NAME)`. Written by `tools/api_page.py`.

| name | what it is |
| --- | --- |
"""
ALIASES: Final = {"Clip": "`ClipFile` or `ClipDescriptor`."}


def page() -> str:
    """The whole page."""
    return HEAD + "".join(
        f"| `{name}` | {sentence(name)} |\n" for name in vmafx.__all__ if name != "__version__"
    )


def sentence(name: str) -> str:
    """The first sentence of a name's documentation, in one line."""
    if name in ALIASES:
        return ALIASES[name]
    text = inspect.getdoc(getattr(vmafx, name)) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
