"""Which backend a run used: what its report vouches for, never what was asked (ADR 0004)."""

from __future__ import annotations

from vmafx.adapters.vmaf_cli.report import Report
from vmafx.domain.errors import BackendMismatchError
from vmafx.domain.scoring import Backend

__all__ = ["check_backend", "vouched_backend"]


def vouched_backend(report: Report) -> str | None:
    """Return the backend that a report vouches for, in its own words; None when it says nothing of it.

    What is said of the whole run decides; without it, every feature must have run on the same backend, and
    different ones come back joined by commas.
    """
    if report.backend_used is not None:
        return report.backend_used.lower()
    words = dict.fromkeys(word.lower() for word in report.feature_backends)
    return ",".join(words) if words else None


def check_backend(report: Report, backend: Backend, *, unverified: bool) -> Backend | None:
    """Check that a run used the backend asked for, and return it if the report vouches for it.

    Args:
        report: The run's report.
        backend: The backend asked for.
        unverified: Whether the operator vouches for it where the report says nothing.

    Raises:
        BackendMismatchError: The report names another backend, or names none where one other than `cpu` was
            asked for and nobody vouches for it.
    """
    used = vouched_backend(report)
    if used == backend.value:
        return backend
    if used is not None:
        raise BackendMismatchError(
            backend.value,
            used,
            f"asked for backend {backend.value}, but the report says that {used} was used",
        )
    if backend is not Backend.CPU and not unverified:
        raise BackendMismatchError(
            backend.value, "unknown", f"asked for backend {backend.value}, but the report does not name one"
        )
    return None
