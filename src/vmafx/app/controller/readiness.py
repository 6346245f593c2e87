"""Readiness: whether a controller does its work now, and why not (ADR 0025)."""

from __future__ import annotations

from enum import Enum

from vmafx.domain import refusals

__all__ = ["Phase", "Readiness"]


class Phase(Enum):
    """How far a controller has come; the values are what a probe is told."""

    STARTING = "the controller is starting"
    WORKING = "the controller works"
    STOPPING = refusals.STOPPING


class Readiness:
    """What those who know tell about a controller's state, for those who ask.

    It stands apart from the controller since the listener that answers for it is a part of the controller.
    """

    def __init__(self) -> None:
        self.phase: Phase = Phase.STARTING
        """How far the controller has come."""
        self.store_problem: str | None = None
        """Why the store does not work; None when it does."""

    def problem(self) -> str | None:
        """Return why the controller is not ready, in words; None when it is."""
        if self.phase is not Phase.WORKING:
            return str(self.phase.value)
        if self.store_problem is not None:
            return f"the store fails: {self.store_problem}"
        return None
