"""SessionStore: which nodes are registered (ADR 0012).

What `vmafx.ports.jobstore` says of every method holds here too. Sessions are renewed by a heartbeat
(`AttemptStore.heartbeat`) and end in a sweep (`StoreUpkeep.sweep`), each together with the attempts that they
hold; both ports are therefore met by stores that share their transactions.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from vmafx.domain.job import TenantId
from vmafx.domain.nodesession import NodeSession, SessionKey

__all__ = ["SessionStore"]


class SessionStore(Protocol):
    """Sessions of nodes."""

    async def register(self, session: NodeSession, *, token_sha256: bytes) -> NodeSession:
        """Store a new session; older ones of the same name are left alone.

        Only the digest of its secret is kept. The same session once more, by its id and digest, is answered
        as stored. A node that registers again gets a second session, and the first runs out.

        Args:
            session: The session, under an id that no other has, registered at the instant of the call.
            token_sha256: The SHA-256 of its secret; 32 bytes.

        Returns:
            The session as stored: its `registered_at` is later than that of every session kept under the
            same tenant and node name, by `registration_instant`.

        Raises:
            ValueError: The digest has another length, or the id is another session's.
        """
        ...

    async def look_up(self, key: SessionKey, *, now: datetime) -> NodeSession:
        """Return the session that a node shows, without renewing it.

        The digest is compared in constant time, or by a query that cannot tell more than found and not found.

        Args:
            key: What the node shows.
            now: The instant to judge by.

        Raises:
            SessionNotFoundError: It is unknown, no longer live, another tenant's, or the secret is wrong.
        """
        ...

    async def live(self, tenant: TenantId, *, now: datetime) -> tuple[NodeSession, ...]:
        """Return a tenant's live sessions, the earliest registered first."""
        ...

    async def live_count(self, *, now: datetime) -> int:
        """Return how many sessions of all tenants are live."""
        ...
