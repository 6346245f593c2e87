"""Which answers of a controller a node can work with: ids it can hold and repeat, a secret (ADR 0013)."""

from __future__ import annotations

from typing import Final

from vmafx.domain.job import ID_BYTES_MAX

__all__ = ["SESSION_TOKEN_BYTES_MAX", "can_be_listed", "registration_problem"]

SESSION_TOKEN_BYTES_MAX: Final = 4096
"""Longest secret of a session, in bytes of UTF-8; it goes out with every call."""


def registration_problem(node_id: str, session_token: str) -> str | None:
    """Return why this answer to a registration opens no session; None when it does."""
    if not node_id or not session_token:
        return "controller returned an empty node id or session token"
    if _bytes(node_id) > ID_BYTES_MAX:
        return f"controller returned a node id above {ID_BYTES_MAX} bytes"
    if _bytes(session_token) > SESSION_TOKEN_BYTES_MAX:
        return f"controller returned a session token above {SESSION_TOKEN_BYTES_MAX} bytes"
    return None


def can_be_listed(job_id: str) -> bool:
    """Return whether heartbeats can list a job of this id; one that cannot be listed must not be run."""
    return 0 < _bytes(job_id) <= ID_BYTES_MAX


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
