"""What values made by hand must be; imports no pydantic, since `vmafx score` must start fast (ADR 0019)."""

from __future__ import annotations

import math
from collections.abc import Callable

from vmafx.domain.errors import ConfigurationError

__all__ = ["check_is", "check_seconds", "check_whole", "refused"]


def refused(name: str, problem: str, value: object) -> ConfigurationError:
    """Return why a variable cannot have a value, which is shown: never one of a secret."""
    return ConfigurationError(name, problem, value=value if isinstance(value, str) else repr(value))


def check_is(kind: type[object]) -> Callable[[str, object], None]:
    """Return what refuses values of another type with `ConfigurationError`."""

    def check(name: str, value: object) -> None:
        if not isinstance(value, kind):
            raise refused(name, f"is not a {kind.__name__}", value)

    return check


def check_whole(lowest: int, highest: int) -> Callable[[str, object], None]:
    """Return what refuses all but whole numbers from `lowest` to `highest` with `ConfigurationError`."""

    def check(name: str, value: object) -> None:
        if type(value) is not int or not lowest <= value <= highest:
            raise refused(name, f"must be an integer from {lowest} to {highest}", value)

    return check


def check_seconds(name: str, value: object) -> None:
    """Refuse all but a number of seconds, 0 or more.

    Raises:
        ConfigurationError: It is none.
    """
    problem = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        problem = "is not a number of seconds"
    elif not (value >= 0 and math.isfinite(value)):
        problem = "must be 0 or more seconds, and finite"
    if problem is not None:
        told: ConfigurationError = refused(name, problem, value)
        raise told
