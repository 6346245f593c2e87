"""Namesakes: two nodes that live under one name, which nothing forbids and nobody means (ADR 0025)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, TypeVar

from vmafx.app.controller import events
from vmafx.domain.job import NodeName, SessionId, TenantId
from vmafx.domain.nodesession import NodeSession
from vmafx.ports.telemetry import Level, Telemetry

__all__ = ["Namesakes"]

_K = TypeVar("_K")

_KEPT: Final = 4096  # sessions, and names: enough for every node at once, and bounded


class Namesakes:
    """Notices a session that goes on although another process registered under its name later.

    A node that starts anew registers while its last session is live, so that two live sessions of one name
    say nothing. But a process that is gone does not beat.

    Args:
        telemetry: Is told, once for each session.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._sessions: OrderedDict[SessionId, NodeSession] = OrderedDict()
        self._newest: OrderedDict[tuple[TenantId, NodeName], NodeSession] = OrderedDict()

    def registered(self, session: NodeSession) -> None:
        """Remember a session; one without an instance cannot be told from others of its process."""
        if session.instance is None:
            return
        _keep(self._sessions, session.id, session)
        _keep(self._newest, (session.tenant, session.node), session)

    def beat(self, session_id: SessionId) -> None:
        """Notice that a session lives on."""
        session = self._sessions.get(session_id)
        if session is None:
            return
        newest = self._newest.get((session.tenant, session.node))
        if newest is None or newest.instance == session.instance:
            return
        del self._sessions[session_id]  # told once
        self._telemetry.event(
            Level.WARN,
            events.NAME_SHARED,
            {
                "tenant": events.shown_id(session.tenant),
                "node": events.shown_id(session.node),
                "node_id": events.shown_id(session.id),
                "other_node_id": events.shown_id(newest.id),
            },
        )


def _keep(kept: OrderedDict[_K, NodeSession], key: _K, session: NodeSession) -> None:
    kept[key] = session
    kept.move_to_end(key)
    if len(kept) > _KEPT:
        kept.popitem(last=False)
