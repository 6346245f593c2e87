"""A call as those see it who answer it: past the gate, its message still bytes (ADR 0016, 0026)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, TypeVar, cast

import grpc.aio
from google.protobuf.message import DecodeError, Message

from vmafx.adapters.grpc.fields import refuse
from vmafx.adapters.grpc.metadata import ReceivedMetadata
from vmafx.domain.callers import Principal
from vmafx.domain.lease import PULL_DEADLINE_DEFAULT_S
from vmafx.domain.retry import StatusCode

__all__ = [
    "CALL_TIMEOUT_MAX_S",
    "Context",
    "Incoming",
    "Method",
    "ServicePart",
    "Stream",
    "Unary",
    "read",
]

CALL_TIMEOUT_MAX_S: Final = 3600.0
"""How long a call may take at most, in seconds, whatever deadline its caller gave."""

Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"

_MessageT = TypeVar("_MessageT", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """One call that was let pass.

    Attributes:
        caller: Who calls.
        content: The request as it came; empty for a call that sends many.
        metadata: What came with it.
        context: What grpc knows of it.
    """

    caller: Principal
    content: bytes
    metadata: ReceivedMetadata
    context: Context

    def left_s(self, otherwise_s: float = PULL_DEADLINE_DEFAULT_S) -> float:
        """Return how much time is left, in seconds, an hour at most.

        Args:
            otherwise_s: The answer when the caller gave no deadline.
        """
        left_s = cast("float | None", self.context.time_remaining())
        return otherwise_s if left_s is None else min(max(left_s, 0.0), CALL_TIMEOUT_MAX_S)

    async def begin(self) -> None:
        """Tell the caller that the call is being answered, and find out whether there still is a caller.

        Raises:
            CancelledError: The caller is gone, as far as anybody can know here.
        """
        try:
            await self.context.send_initial_metadata(())
        except grpc.aio.BaseError as error:  # grpc's own cancellation of this task is on its way
            raise asyncio.CancelledError from error

    async def send(self, message: Message) -> None:
        """Send one of many answers; returns once the connection has room for the next.

        Raises:
            CancelledError: The caller is gone.
        """
        await self.send_written(message.SerializeToString())

    async def send_written(self, content: bytes) -> None:
        """Send one of many answers that is bytes already; returns once the connection has room for the next.

        Raises:
            CancelledError: The caller is gone.
        """
        try:
            await self.context.write(content)
        except grpc.aio.BaseError as error:
            raise asyncio.CancelledError from error


@dataclass(frozen=True, slots=True)
class Unary:
    """A method that is answered once.

    Attributes:
        work: Returns the answer, or raises what the call is refused with.
    """

    work: Callable[[Incoming], Awaitable[Message]]


@dataclass(frozen=True, slots=True)
class Stream:
    """A method that is answered any number of times.

    Attributes:
        work: Sends the answers and returns, or raises what the call ends with.
        reads: Whether requests come one after another as well; `work` then takes them from the context.
    """

    work: Callable[[Incoming], Awaitable[None]]
    reads: bool = False


Method: TypeAlias = Unary | Stream


class ServicePart(Protocol):
    """Some methods that a server serves together."""

    def methods(self) -> Mapping[str, Method]:
        """Return the methods by their paths, such as `/package.Service/Method`."""
        ...

    def end_waits(self) -> None:
        """End the calls that wait for something to happen, and every later one where it begins to wait."""
        ...

    async def drained(self) -> None:
        """Return when nothing is left to be done for calls that have ended."""
        ...


def read(kind: type[_MessageT], content: bytes) -> _MessageT:
    """Return the message that bytes hold; grpc would log what it cannot read, and call it `UNKNOWN`.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: they hold none, or text that is no UTF-8.
    """
    try:
        return kind.FromString(content)
    except DecodeError as error:
        refuse(
            StatusCode.INVALID_ARGUMENT,
            f"the request cannot be read: it is no {kind.DESCRIPTOR.full_name}",
            error,
        )
