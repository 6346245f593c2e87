"""Errors of file systems in our words, and whose fault they are: the machine's or the input's (ADR 0021)."""

from __future__ import annotations

from vmafx.domain.errors import SourceError
from vmafx.domain.faults import MACHINE_ERRNOS

__all__ = ["path_error"]


def path_error(error: OSError | ValueError, source: str, about: str = "") -> SourceError:
    """Return the error of a source whose path the system would not take.

    Args:
        error: What the system said.
        source: The source as it is shown.
        about: What the message begins with; empty leaves the system's reason alone.
    """
    if not isinstance(error, OSError):  # zero bytes, and characters that no file name has
        return SourceError(source, f"{about}not a path")
    reason = error.strerror or str(error)
    return SourceError(source, f"{about}{reason}", machine_fault=error.errno in MACHINE_ERRNOS)
