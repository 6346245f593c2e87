"""The named queries of the SQLite store; they stand in `sql/`, each with what must be known of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from typing import Final

__all__ = ["QUERIES", "named_queries"]

_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"--.*$", re.MULTILINE)


def named_queries(text: str) -> dict[str, str]:
    """Return the queries of a file by name, without their comments.

    Raises:
        ValueError: A name is given twice.
    """
    _, *parts = _NAME.split(text)
    names, bodies = parts[::2], parts[1::2]
    if len(set(names)) < len(names):
        raise ValueError(f"two queries of one name among {names}")
    return {name: _COMMENT.sub("", body).strip() for name, body in zip(names, bodies, strict=True)}


def _load() -> dict[str, str]:
    folder = resources.files("vmafx.adapters.store") / "sql"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda it: it.name)
    return named_queries("\n".join(file.read_text(encoding="utf-8") for file in files))


QUERIES: Final[Mapping[str, str]] = _load()
"""Every query by name."""
