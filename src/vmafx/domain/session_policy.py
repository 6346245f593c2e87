"""The timing that a node's session keeps, and which timing can be kept at all (ADR 0013)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from vmafx.domain.backoff import REGISTER, BackoffPolicy
from vmafx.domain.errors import ConfigurationError

__all__ = [
    "HEARTBEAT_INTERVAL_S",
    "LOSS_WINDOW_S",
    "POLL_INTERVAL_S",
    "RPC_TIMEOUT_S",
    "SHUTDOWN_TIMEOUT_S",
    "SessionPolicy",
    "timing_problems",
    "timing_warning",
]

LOSS_WINDOW_S: Final = 60.0
"""How long a controller keeps a session without an accepted heartbeat, in seconds."""
HEARTBEAT_INTERVAL_S: Final = 10.0
"""From one heartbeat to the next, where nothing else is set, in seconds."""
RPC_TIMEOUT_S: Final = 10.0
"""The deadline of a call, where nothing else is set, in seconds."""
POLL_INTERVAL_S: Final = 2.0
"""From one pull that found nothing to the next, where nothing else is set, in seconds."""
SHUTDOWN_TIMEOUT_S: Final = 30.0
"""How long a stop may take, where nothing else is set, in seconds."""

_INTERVAL: Final = "VMAFX_CONTROLLER_HEARTBEAT_INTERVAL"
_TIMEOUT: Final = "VMAFX_CONTROLLER_RPC_TIMEOUT"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPolicy:
    """When a node beats, and when it gives a session up.

    Attributes:
        heartbeat_interval_s: From the sending of one heartbeat to the next, in seconds.
        rpc_timeout_s: The deadline of every call, in seconds.
        register: The waits between tries to register.

    Raises:
        ConfigurationError: No session can be kept with this timing; names the settings.
    """

    heartbeat_interval_s: float = HEARTBEAT_INTERVAL_S
    rpc_timeout_s: float = RPC_TIMEOUT_S
    register: BackoffPolicy = REGISTER

    def __post_init__(self) -> None:
        problems = timing_problems(self.heartbeat_interval_s, self.rpc_timeout_s)
        if problems:
            first, *others = problems
            raise ConfigurationError(first.setting, first.problem, value=first.value, others=tuple(others))


def timing_problems(heartbeat_interval_s: float, rpc_timeout_s: float) -> tuple[ConfigurationError, ...]:
    """Return why no session can be kept with this timing; nothing when one can.

    Args:
        heartbeat_interval_s: The interval of heartbeats, in seconds.
        rpc_timeout_s: The deadline of a call, in seconds.
    """
    each = (
        *_range_problem(_INTERVAL, heartbeat_interval_s),
        *_range_problem(_TIMEOUT, rpc_timeout_s),
    )
    if each or heartbeat_interval_s + rpc_timeout_s <= LOSS_WINDOW_S:
        return each
    problem = (
        f"and {_TIMEOUT}={rpc_timeout_s:g}s must be at most {LOSS_WINDOW_S:g}s together: the controller "
        "forgets a node that it has not heard for so long"
    )
    return (ConfigurationError(_INTERVAL, problem, value=f"{heartbeat_interval_s:g}s"),)


def timing_warning(heartbeat_interval_s: float, rpc_timeout_s: float) -> str | None:
    """Return a warning when one lost heartbeat costs the session; None when it does not.

    Args:
        heartbeat_interval_s: The interval of heartbeats, in seconds.
        rpc_timeout_s: The deadline of a call, in seconds.
    """
    if 2 * heartbeat_interval_s + rpc_timeout_s <= LOSS_WINDOW_S:
        return None
    return (
        f"one lost heartbeat costs the session: twice {_INTERVAL}={heartbeat_interval_s:g}s plus "
        f"{_TIMEOUT}={rpc_timeout_s:g}s is above {LOSS_WINDOW_S:g}s"
    )


def _range_problem(setting: str, seconds: float) -> tuple[ConfigurationError, ...]:
    if not (math.isfinite(seconds) and seconds > 0):
        return (ConfigurationError(setting, "must be positive", value=f"{seconds:g}s"),)
    if seconds >= LOSS_WINDOW_S:
        return (ConfigurationError(setting, f"must be below {LOSS_WINDOW_S:g}s", value=f"{seconds:g}s"),)
    return ()
