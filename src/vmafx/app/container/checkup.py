"""What was looked at on this machine, as values."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Check", "Checkup"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: What it is.
        ok: Whether it is as it should be.
        needed: Whether scoring needs it.
        found: What was found, in words; one line.
        advice: What to do about it; None when there is nothing to do.
        command: The program and the arguments that it is always started with; None where there is none.
    """

    name: str
    ok: bool
    needed: bool
    found: str
    advice: str | None = None
    command: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """What this machine can do.

    Attributes:
        checks: Everything that was looked at.
    """

    checks: tuple[Check, ...]

    @property
    def can_score(self) -> bool:
        """Whether everything that scoring needs is as it should be."""
        return all(check.ok for check in self.checks if check.needed)
