"""The ids of what a task is at work on, for every line that is written meanwhile (ADR 0020)."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from vmafx.adapters.telemetry.fitting import Scalar

__all__ = ["SCOPE_FIELDS", "ScopeFilter", "in_scope", "scope_fields"]

SCOPE_FIELDS: Final = ("job_id", "node_id")
"""The fields of a span that every line inside of it carries."""


@contextmanager
def in_scope(fields: Mapping[str, Scalar]) -> Generator[None]:
    """Put the ids among `fields` on every line that this task, or one it starts, writes in the body.

    Args:
        fields: The fields of a span.

    Yields:
        Nothing.
    """
    ids = {name: fields[name] for name in SCOPE_FIELDS if fields.get(name) is not None}
    _SCOPES.set((*_SCOPES.get(), ids))
    try:
        yield
    finally:  # by identity, and no token: bodies may end out of order, or in a context they did not begin in
        _SCOPES.set(tuple(scope for scope in _SCOPES.get() if scope is not ids))


def scope_fields() -> dict[str, Scalar]:
    """Return the ids of the bodies that this task is in; the innermost counts."""
    return {name: value for scope in _SCOPES.get() for name, value in scope.items()}


class ScopeFilter(logging.Filter):
    """Adds the ids to the records of `logging`, for handlers of an embedding service; lets every one pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the ids that the record has not."""
        for name, value in scope_fields().items():
            vars(record).setdefault(name, value)
        return True


_SCOPES: Final[ContextVar[tuple[Mapping[str, Scalar], ...]]] = ContextVar("vmafx_scopes", default=())
