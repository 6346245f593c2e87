"""Listener: a way in for calls from outside."""

from __future__ import annotations

from typing import Protocol

from vmafx.domain.address import HostPort

__all__ = ["Listener"]


class Listener(Protocol):
    """Takes calls at an address from `start` to `stop`."""

    @property
    def address(self) -> HostPort:
        """Where it listens: once started, with the port that was really bound."""
        ...

    async def start(self) -> None:
        """Take calls from now on.

        Raises:
            ConfigurationError: The address cannot be bound, or a certificate cannot be used: names the
                setting and the value. Nothing is left open then.
        """
        ...

    async def stop(self, *, grace_s: float) -> None:
        """Take no new calls, let those that run end, and cut off what still runs after the grace.

        Calls that wait for something to happen are answered at once. May be called again, and before `start`.

        Args:
            grace_s: How long calls may take to end, in seconds; 0 or less cuts them off at once.
        """
        ...
