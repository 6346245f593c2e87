"""Writes docs/api.md: every public name with the first sentence of its documentation."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
from pathlib import Path
from typing import Final, NewType

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
    thing = getattr(vmafx, name)
    text = below(name) if isinstance(thing, NewType) else inspect.getdoc(thing) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def below(name: str) -> str:
    """The text under a name's definition: all that a `NewType` has for documentation."""
    home = importlib.import_module(vmafx._HOME_OF[name])  # noqa: SLF001 - a tool of the same project
    body = ast.parse(inspect.getsource(home)).body
    for statement, after in itertools.pairwise(body):
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name:
            match after:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    return inspect.cleandoc(text)
    raise LookupError(f"{name} has no description")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
