"""HttpSettings: the listener for metrics and probes (ADR 0019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from vmafx.app.settings.forms import BOOLEAN, BYTES_MAX, DURATION_OR_DEFAULT, LISTEN, Form, whole
from vmafx.app.settings.parts import Part, setting
from vmafx.domain.address import HostPort

__all__ = ["HttpSettings"]

_LIMIT: Final = Form(parse=whole(0, BYTES_MAX).parse, check=whole(1, BYTES_MAX).check)


def _deadline(name: str, default_s: float) -> float:
    return setting(name, DURATION_OR_DEFAULT, default_s, zero_is_default=True)


def _limit(name: str, default: int) -> int:
    return setting(name, _LIMIT, default, zero_is_default=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings(Part):
    """The listener for metrics and probes.

    Attributes:
        address: Where it listens.
        read_s: How long a request may take to arrive, in seconds.
        header_s: How long its headers may take, in seconds.
        write_s: How long an answer may take, in seconds.
        idle_s: How long a connection is kept without a request, in seconds.
        shutdown_s: How long requests may take to end when the listener stops, in seconds.
        header_bytes_max: The largest headers.
        body_bytes_max: The largest body.
        unlimited: Whether bodies have no limit.
    """

    address: HostPort = setting("VMAFX_HTTP_ADDR", LISTEN, HostPort(host="", port=9090))
    read_s: float = _deadline("VMAFX_HTTP_TIMEOUTS_READ", 30.0)
    header_s: float = _deadline("VMAFX_HTTP_TIMEOUTS_HEADER", 5.0)
    write_s: float = _deadline("VMAFX_HTTP_TIMEOUTS_WRITE", 60.0)
    idle_s: float = _deadline("VMAFX_HTTP_TIMEOUTS_IDLE", 120.0)
    shutdown_s: float = _deadline("VMAFX_HTTP_TIMEOUTS_SHUTDOWN", 30.0)
    header_bytes_max: int = _limit("VMAFX_HTTP_LIMITS_HEADER", 1_048_576)
    body_bytes_max: int = _limit("VMAFX_HTTP_LIMITS_BODY", 10_485_760)
    unlimited: bool = setting("VMAFX_HTTP_LIMITS_UNLIMITED", BOOLEAN, default=False)
