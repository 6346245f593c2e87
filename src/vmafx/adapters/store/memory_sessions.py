"""Sessions in memory, and the orders in which they are asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from itertools import islice, takewhile

from vmafx.adapters.store.ordered import Grouped, Ordered
from vmafx.adapters.store.transaction import KeptSession
from vmafx.domain.job import NodeName, SessionId, TenantId
from vmafx.domain.nodesession import NodeSession

__all__ = ["SessionTable"]


class SessionTable:
    """The part of `vmafx.adapters.store.transaction.Transaction` that is about sessions."""

    def __init__(self) -> None:
        self._kept: dict[SessionId, KeptSession] = {}
        self._ids = Ordered[SessionId]()
        self._ends = Ordered[tuple[datetime, SessionId]]()  # as they run out
        self._opened = Grouped[TenantId, tuple[datetime, SessionId]]()  # as they registered
        self._named = Grouped[tuple[TenantId, NodeName], tuple[datetime, SessionId]]()  # likewise

    def session(self, session_id: SessionId) -> KeptSession | None:
        """Return a session of any tenant."""
        return self._kept.get(session_id)

    def sessions(self, *, after: SessionId, limit: int) -> tuple[NodeSession, ...]:
        """Return sessions by id."""
        return tuple(self._kept[session_id].session for session_id in islice(self._ids.above(after), limit))

    def live_sessions(self, tenant: TenantId, *, at: datetime) -> tuple[NodeSession, ...]:
        """Return a tenant's live sessions as they registered."""
        opened = (self._kept[session_id].session for _, session_id in self._opened.of(tenant).above())
        return tuple(session for session in opened if session.live(at))

    def live_count(self, *, at: datetime) -> int:
        """Return how many sessions are live."""
        return len(self._ends) - sum(1 for _ in self._over(at))

    def newest_registration(self, tenant: TenantId, node: NodeName) -> datetime | None:
        """Return the latest registration kept under a node name."""
        newest = self._named.of((tenant, node)).last()
        return None if newest is None else newest[0]

    def sessions_over(self, *, at: datetime, limit: int) -> tuple[NodeSession, ...]:
        """Return sessions that ran out before an instant."""
        return tuple(self._kept[session_id].session for _, session_id in islice(self._over(at), limit))

    def add_session(self, kept: KeptSession) -> None:
        """Store a session."""
        session = kept.session
        self._kept[session.id] = kept
        self._ids.add(session.id)
        self._ends.add((session.expires_at, session.id))
        self._opened.add(session.tenant, (session.registered_at, session.id))
        self._named.add((session.tenant, session.node), (session.registered_at, session.id))

    def write_session(self, session: NodeSession) -> None:
        """Store how far a kept session lives and when its last heartbeat was."""
        kept = self._kept[session.id]
        self._ends.remove((kept.session.expires_at, session.id))
        self._ends.add((session.expires_at, session.id))
        self._kept[session.id] = replace(kept, session=session)

    def remove_session(self, session_id: SessionId) -> None:
        """Remove a session."""
        session = self._kept.pop(session_id).session
        self._ids.remove(session_id)
        self._ends.remove((session.expires_at, session.id))
        self._opened.remove(session.tenant, (session.registered_at, session.id))
        self._named.remove((session.tenant, session.node), (session.registered_at, session.id))

    def try_writing(self) -> None:
        """Do nothing: memory takes every write."""

    def _over(self, at: datetime) -> Iterable[tuple[datetime, SessionId]]:
        return takewhile(lambda end: end[0] < at, self._ends.above())
