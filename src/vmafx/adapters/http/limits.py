"""HttpLimits: what a client of the HTTP listener may take up (ADR 0027)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["CONNECTIONS_MAX", "HttpLimits"]

CONNECTIONS_MAX: Final = 1000
"""Most connections at a time; one more is closed at once, so that descriptors remain for everything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """How long each part of a call may take, and how large it may be.

    Attributes:
        header_s: How long the headers of a request may take to arrive, in seconds: from the connection on,
            or from the first byte where another request went before.
        read_s: How long a body may take to arrive, in seconds; headers may not take longer either.
        write_s: How long an answer may take from the headers of its request until its client has taken it,
            in seconds.
        idle_s: How long a connection is kept without a request, in seconds.
        header_bytes_max: The largest headers.
        body_bytes_max: The largest body; None for no limit.
    """

    header_s: float = 5.0
    read_s: float = 30.0
    write_s: float = 60.0
    idle_s: float = 120.0
    header_bytes_max: int = 1_048_576
    body_bytes_max: int | None = 10_485_760
