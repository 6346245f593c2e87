"""StoreSettings: where a controller keeps its jobs, and for how long (ADR 0019, ADR 0028)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final

from pydantic import SecretStr

from vmafx.app.settings.forms import (
    ABSOLUTE_PATH,
    BYTES_MAX,
    DURATION,
    DURATION_OR_DEFAULT,
    SECRET,
    whole,
    word,
)
from vmafx.app.settings.parts import Part, Rule, optional, setting
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.lease import LeasePolicy
from vmafx.domain.session_policy import HEARTBEAT_INTERVAL_S, RPC_TIMEOUT_S

__all__ = ["BACKEND", "BEATS_S", "DATABASE", "StoreBackend", "StoreSettings", "default_database"]

DATABASE: Final = "VMAFX_DB_PATH"
"""The variable that names the database."""
BEATS_S: Final = 2 * HEARTBEAT_INTERVAL_S + RPC_TIMEOUT_S
"""How long a session must live so that one lost heartbeat does not cost it, in seconds."""
BACKEND: Final = "VMAFX_STORE_BACKEND"
_DSN: Final = "VMAFX_DB_DSN"
_LEASE: Final = "VMAFX_STORE_LEASE_TTL"
_SESSION: Final = "VMAFX_STORE_SESSION_TTL"
_BASE: Final = "VMAFX_STORE_BACKOFF_BASE"
_MAX: Final = "VMAFX_STORE_BACKOFF_MAX"
_POLICY: Final = LeasePolicy()
_SWEEP_S: Final = 5.0
"""How often lost attempts are looked for, in seconds, where nothing else is said."""


class StoreBackend(Enum):
    """What keeps the jobs."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"


def _duration(name: str, default_s: float) -> float:
    return setting(name, DURATION_OR_DEFAULT, default_s, zero_is_default=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings(Part):
    """Where jobs are kept, and for how long things last.

    Attributes:
        backend: What keeps them; PostgreSQL is refused.
        path: The database file; None means the default, see `default_database`.
        dsn: How PostgreSQL is reached.
        lease_ttl_s: How long a lease holds without a heartbeat, in seconds.
        session_ttl_s: How long a session does, in seconds.
        sweep_interval_s: How often lost attempts are looked for, in seconds.
        backoff_base_s: How long a job waits after its first lost attempt, in seconds.
        backoff_max_s: The longest such wait, in seconds.
        retention_s: How long jobs that have ended are kept, in seconds; 0 keeps them for ever.
        pending_max: How many pending jobs a tenant may have; 0 for any number.
    """

    backend: StoreBackend = setting(BACKEND, word(StoreBackend), StoreBackend.SQLITE)
    path: str | None = optional(DATABASE, ABSOLUTE_PATH)
    dsn: SecretStr | None = optional(_DSN, SECRET)
    lease_ttl_s: float = _duration(_LEASE, _POLICY.lease_ttl_s)
    session_ttl_s: float = _duration(_SESSION, _POLICY.session_ttl_s)
    sweep_interval_s: float = _duration("VMAFX_STORE_SWEEP_INTERVAL", _SWEEP_S)
    backoff_base_s: float = _duration(_BASE, _POLICY.backoff_base_s)
    backoff_max_s: float = _duration(_MAX, _POLICY.backoff_max_s)
    retention_s: float = setting("VMAFX_JOB_RETENTION", DURATION, 0.0)
    pending_max: int = setting("VMAFX_TENANT_PENDING_MAX", whole(0, BYTES_MAX), 0)

    @property
    def lease_policy(self) -> LeasePolicy:
        """How long things last."""
        return LeasePolicy(
            lease_ttl_s=self.lease_ttl_s,
            session_ttl_s=self.session_ttl_s,
            backoff_base_s=self.backoff_base_s,
            backoff_max_s=self.backoff_max_s,
        )

    def rules(self) -> tuple[Rule, ...]:
        """Return what the fields must be together."""
        return (Rule(fields=frozenset({"backend"}), broken=partial(_there_is_one, self)),)

    def warnings(self) -> Iterator[str]:
        """Look for what is dangerous or without effect.

        Yields:
            One line for each.
        """
        if self.dsn is not None:
            yield f"{_DSN} has no effect: {BACKEND} is {self.backend.value}"
        for name, seconds in ((_LEASE, self.lease_ttl_s), (_SESSION, self.session_ttl_s)):
            if seconds < BEATS_S:
                yield f"{name}={seconds:g}s {_short(seconds)}"
        if self.backoff_base_s > self.backoff_max_s:
            yield f"{_BASE}={self.backoff_base_s:g}s is above {_MAX}={self.backoff_max_s:g}s, which counts"


def _short(ttl_s: float) -> str:
    """Return what a time means in which no heartbeat may be lost, and what goes with it."""
    if ttl_s <= HEARTBEAT_INTERVAL_S:
        first = f"is over before the next heartbeat of a node, which comes every {HEARTBEAT_INTERVAL_S:g}s"
    else:
        first = "is too short for a node that loses one heartbeat"
    needed = (
        "it must be at least twice the nodes' VMAFX_CONTROLLER_HEARTBEAT_INTERVAL plus their "
        f"VMAFX_CONTROLLER_RPC_TIMEOUT, {BEATS_S:g}s where they are unset"
    )
    interval_s = (ttl_s - RPC_TIMEOUT_S) / 2
    if interval_s <= 0:
        return f"{first}: {needed}"
    return f"{first}: {needed}; an interval of at most {interval_s:g}s goes with it"


def default_database(environment: Mapping[str, str]) -> str:
    """Return the database where `VMAFX_DB_PATH` is unset: in the user's state folder.

    Args:
        environment: Names to values; a relative `XDG_STATE_HOME` counts as unset, as its rule has it.

    Raises:
        ConfigurationError: The environment names no such folder.
    """
    state = environment.get("XDG_STATE_HOME", "").strip()
    home = environment.get("HOME", "").strip()
    if not state.startswith("/"):
        if not home.startswith("/"):
            problem = "is unset, and without an absolute XDG_STATE_HOME or HOME there is no default: set it"
            raise ConfigurationError(DATABASE, problem)
        state = f"{home.rstrip('/')}/.local/state"
    return f"{state.rstrip('/')}/vmafx/vmafx-controller.db"


def _there_is_one(settings: StoreSettings) -> Iterator[ConfigurationError]:
    if settings.backend is not StoreBackend.SQLITE:
        problem = "cannot be honoured: this version has no PostgreSQL store; unset it, or set it to sqlite"
        yield ConfigurationError(BACKEND, problem, value=settings.backend.value)
