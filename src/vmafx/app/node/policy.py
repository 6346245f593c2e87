"""What a node is set up with: plain numbers, no settings (ADR 0018)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from vmafx.domain.backoff import REPORT, BackoffPolicy
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.job import HEARTBEAT_JOBS_MAX
from vmafx.domain.nodesession import Capability
from vmafx.domain.scoring import Backend
from vmafx.domain.session_policy import POLL_INTERVAL_S, SHUTDOWN_TIMEOUT_S, SessionPolicy

__all__ = ["SELF_TEST", "NodePolicy"]

SELF_TEST: Final = BackoffPolicy(base_s=5.0, cap_s=300.0)
"""Between self-tests of a scorer that failed; without end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePolicy:
    """How a node works.

    Attributes:
        backend: What it scores on and advertises.
        slots: How many jobs it runs at once, 1 to 64.
        session: When it beats and when it gives a session up.
        poll_interval_s: From one pull that found nothing to the next, in seconds, above 0.
        shutdown_timeout_s: How long a stop may take, in seconds, 0 or more.
        report: The waits between tries to report.
        self_test: The waits between self-tests of a scorer that no longer works.

    Raises:
        ConfigurationError: A number is outside its range; names its setting.
    """

    backend: Backend = Backend.CPU
    slots: int = 1
    session: SessionPolicy = field(default_factory=SessionPolicy)
    poll_interval_s: float = POLL_INTERVAL_S
    shutdown_timeout_s: float = SHUTDOWN_TIMEOUT_S
    report: BackoffPolicy = REPORT
    self_test: BackoffPolicy = SELF_TEST

    def __post_init__(self) -> None:
        if not 1 <= self.slots <= HEARTBEAT_JOBS_MAX:
            problem = f"must be an integer from 1 to {HEARTBEAT_JOBS_MAX}"
            raise ConfigurationError("VMAFX_NODE_SLOTS", problem, value=str(self.slots))
        if not (math.isfinite(self.poll_interval_s) and self.poll_interval_s > 0):
            raise ConfigurationError(
                "VMAFX_CONTROLLER_POLL_INTERVAL", "must be positive", value=f"{self.poll_interval_s:g}s"
            )
        if not (math.isfinite(self.shutdown_timeout_s) and self.shutdown_timeout_s >= 0):
            raise ConfigurationError(
                "VMAFX_SHUTDOWN_TIMEOUT", "must not be negative", value=f"{self.shutdown_timeout_s:g}s"
            )

    @property
    def capability(self) -> Capability:
        """What the node tells of itself when it registers and pulls."""
        return Capability(
            backends=frozenset({self.backend}), gpu_vendor=self.backend.vendor, concurrency=self.slots
        )

    @property
    def reserve_s(self) -> float:
        """The end of a stop that is kept for the reports of interrupted jobs, in seconds."""
        return min(self.session.rpc_timeout_s, self.shutdown_timeout_s / 3)
