"""ControllerPolicy: what a controller is told about how to work (ADR 0025)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from vmafx.domain.lease import LeasePolicy
from vmafx.domain.roots import RootTemplates

__all__ = ["ControllerPolicy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerPolicy:
    """How a controller works.

    Attributes:
        lease: How long leases, sessions and waits after losses last; the same as its store's.
        roots: Below which places the inputs of a tenant must lie; none means nowhere.
        sweep_interval_s: How often lost attempts are looked for, in seconds, above 0.
        pull_wait_s: How long a pull that finds nothing waits for a job, in seconds; 0 answers at once.
        retention_s: How long jobs that have ended are kept, in seconds; 0 keeps them for ever.
        tenant_pending_max: How many pending jobs a tenant may have; None for any number.
        shutdown_s: How long calls may take to end when the controller stops, in seconds.

    Raises:
        ValueError: A number is out of its range, or not finite.
    """

    lease: LeasePolicy = field(default_factory=LeasePolicy)
    roots: RootTemplates = field(default_factory=RootTemplates)
    sweep_interval_s: float = 5.0
    pull_wait_s: float = 5.0
    retention_s: float = 0.0
    tenant_pending_max: int | None = None
    shutdown_s: float = 30.0

    def __post_init__(self) -> None:
        for name in ("pull_wait_s", "retention_s", "shutdown_s"):
            seconds: float = getattr(self, name)
            if not (math.isfinite(seconds) and seconds >= 0):
                raise ValueError(f"{name}={seconds} must be at least 0 seconds")
        if not (math.isfinite(self.sweep_interval_s) and self.sweep_interval_s > 0):
            raise ValueError(f"sweep_interval_s={self.sweep_interval_s} must be above 0 seconds")
        if self.tenant_pending_max is not None and self.tenant_pending_max < 1:
            raise ValueError(f"tenant_pending_max={self.tenant_pending_max} must be at least 1")
