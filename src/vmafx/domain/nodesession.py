"""A node's session as the controller keeps it; what the node keeps of it is another thing (ADR 0012)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NewType

from vmafx.domain.job import NodeName, SessionId, TenantId
from vmafx.domain.scoring import Backend

__all__ = ["Capability", "InstanceId", "NodeSession", "SessionKey", "registration_instant"]

InstanceId = NewType("InstanceId", str)
"""Names one process of a node: drawn anew at its start, told at each registration. Opaque."""

_DIGEST_BYTES: Final = 32
_TICK: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """What a node can run.

    Attributes:
        backends: The backends it runs; none means that it gets only jobs that ask for none.
        gpu_vendor: Whose hardware it has; for people.
        concurrency: How many jobs it runs at once; for people, it limits nothing.
    """

    backends: frozenset[Backend] = frozenset()
    gpu_vendor: str = ""
    concurrency: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKey:
    """What a node shows to prove that a session is its own.

    Attributes:
        tenant: The tenant that the caller's token proved.
        session: The session's id.
        token_sha256: The SHA-256 of the session's secret; 32 bytes.

    Raises:
        ValueError: The digest has another length.
    """

    tenant: TenantId
    session: SessionId
    token_sha256: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.token_sha256) != _DIGEST_BYTES:
            raise ValueError(f"token_sha256 must be {_DIGEST_BYTES} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSession:
    """What registering opened.

    Attributes:
        id: Its name.
        tenant: Whose node it is.
        node: The name that the node registered with.
        registered_at: When it was opened; differs between any two sessions of a tenant's node name, so that
            "earlier" is never in doubt (`registration_instant`).
        expires_at: The last instant at which it is live.
        last_heartbeat_at: When its last heartbeat was accepted; None before the first.
        instance: The process that registered; None when the node did not say.
        capability: What the node said it can run.

    Raises:
        ValueError: An id or the name is empty, or an instant is not aware.
    """

    id: SessionId
    tenant: TenantId
    node: NodeName
    registered_at: datetime
    expires_at: datetime
    last_heartbeat_at: datetime | None = None
    instance: InstanceId | None = None
    capability: Capability = field(default_factory=Capability)

    def __post_init__(self) -> None:
        if not (self.id and self.tenant and self.node):
            raise ValueError("a session needs an id, a tenant and a node name")
        if self.registered_at.tzinfo is None:
            raise ValueError(f"registered_at={self.registered_at} must name its time zone")

    def live(self, at: datetime) -> bool:
        """Return whether the session is live: at the instant `expires_at` it is, just after it is not."""
        return at <= self.expires_at

    def renewed(self, at: datetime, *, ttl_s: float) -> NodeSession:
        """Return the session after a heartbeat accepted at `at`.

        Args:
            at: The instant of the heartbeat.
            ttl_s: How long a session lives after a heartbeat, in seconds.
        """
        return replace(self, last_heartbeat_at=at, expires_at=at + timedelta(seconds=ttl_s))

    def extended(self, at: datetime, *, ttl_s: float) -> NodeSession:
        """Return the session with its whole life anew, as after a time when nobody could have renewed it.

        Args:
            at: The instant from which it counts.
            ttl_s: How long a session lives after a heartbeat, in seconds.
        """
        return replace(self, expires_at=at + timedelta(seconds=ttl_s))


def registration_instant(at: datetime, latest: datetime | None) -> datetime:
    """Return the `registered_at` of a session that registers at `at`.

    Args:
        at: The instant of the registration.
        latest: The `registered_at` of the newest session kept under the same tenant and node name; None when
            there is none.

    Returns:
        `at`, or just after `latest` when that would not be later: a clock that stands or steps back does not
        turn the order of sessions.
    """
    return at if latest is None else max(at, latest + _TICK)
