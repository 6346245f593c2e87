"""GrpcController: the node's view of a controller at the other end of a wire (ADR 0017)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from vmafx.adapters.grpc import codec
from vmafx.adapters.grpc._generated.vmafx.controller.v1.controller_pb2 import (
    HeartbeatResponse,
    PullWorkResponse,
    RegisterNodeResponse,
    ReportResultResponse,
)
from vmafx.adapters.grpc.channel import ChannelLimits, Secured, new_channel
from vmafx.adapters.grpc.credentials import TlsOptions, trusted_roots
from vmafx.adapters.grpc.handshake import Tls13Proof
from vmafx.adapters.grpc.hints import hinted, unanswered
from vmafx.adapters.grpc.status import error_of
from vmafx.domain.address import HostPort
from vmafx.domain.errors import ControllerError, TokenError
from vmafx.domain.job import JobId
from vmafx.domain.lease import Heartbeat
from vmafx.domain.nodesession import Capability
from vmafx.domain.report import Report
from vmafx.domain.retry import Call, StatusCode, controller_error
from vmafx.domain.session_state import Session
from vmafx.ports.clock import Clock
from vmafx.ports.controller import Assignment, HeartbeatAnswer, NodeIdentity, Registration
from vmafx.ports.telemetry import Level, Telemetry
from vmafx.ports.tokens import TokenSource

if TYPE_CHECKING:
    from vmafx.ports.controller import Controller

__all__ = ["PLAINTEXT_WARNING", "GrpcController", "open_controller"]

PLAINTEXT_WARNING: Final = "the bearer token is sent in plaintext: VMAFX_CONTROLLER_TLS is off"
"""The warning of a controller without TLS, given once, before the first call that shows a token."""
_CLOSED: Final = "the connection to the controller is closed"
_CONNECTED: Final = grpc.ChannelConnectivity.READY

_Method: TypeAlias = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
_MessageT = TypeVar("_MessageT", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What came back, unread."""

    content: bytes
    trailing: codec.ReceivedMetadata


@asynccontextmanager
async def open_controller(  # noqa: PLR0913 -- one argument per thing that the container wires
    address: HostPort,
    *,
    tls: TlsOptions | None,
    tokens: TokenSource,
    clock: Clock,
    telemetry: Telemetry,
    limits: ChannelLimits | None = None,
) -> AsyncGenerator[GrpcController, None]:
    """Open a controller for the body, and close it after it.

    Nothing is dialled before the first call, so that a controller that is away keeps nobody from starting.

    Args:
        address: Where it listens.
        tls: How TLS is spoken; None speaks plaintext.
        tokens: Says which bearer token a call shows.
        clock: Whose time deadlines of this side go by.
        telemetry: Is told when a token goes out in plaintext.
        limits: The limits of the channel; None means the usual ones.

    Yields:
        The controller.

    Raises:
        ConfigurationError: The certificates to trust cannot be had.
    """
    secured = None
    proof = None
    if tls is not None:
        secured = Secured(roots=trusted_roots(tls.ca_file), server_name=tls.server_name)
        if not tls.refused_below_13:
            proof = Tls13Proof(address, roots=secured.roots, server_name=secured.server_name, clock=clock)
    channel = new_channel(address, secured, limits or ChannelLimits())
    controller = GrpcController(
        channel,
        name=str(address),
        tls=secured is not None,
        proof=proof,
        tokens=tokens,
        clock=clock,
        telemetry=telemetry,
    )
    try:
        yield controller
    finally:
        await controller.close()


class GrpcController:
    """A `Controller` behind a channel of grpc.

    A call that the peer cancels fails as `UNAVAILABLE`, whatever the peer calls it: servers do that when they
    stop. `CANCELLED` says that this side was closed.

    Args:
        channel: The channel; closed by `close`.
        name: What the controller is called in warnings.
        tls: Whether the channel speaks TLS.
        proof: What has to be shown before a connection is made; None when nothing has to.
        tokens: Says which bearer token a call shows.
        clock: Whose time deadlines of this side go by.
        telemetry: Is told when a token goes out in plaintext.
    """

    def __init__(  # noqa: PLR0913 -- one argument per thing that calls need
        self,
        channel: grpc.aio.Channel,
        *,
        name: str,
        tls: bool,
        proof: Tls13Proof | None,
        tokens: TokenSource,
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        self._channel = channel
        self._methods: dict[Call, _Method] = {
            call: channel.unary_unary(f"/{codec.SERVICE}/{call.value}") for call in Call
        }
        self._name = name
        self._tls = tls
        self._proof = proof
        self._tokens = tokens
        self._clock = clock
        self._telemetry = telemetry
        self._warned = tls
        self._closed = False

    # ---------------------------------------------------------------- the port

    async def register(
        self, identity: NodeIdentity, capability: Capability, *, timeout_s: float
    ) -> Registration:
        """Open a session with `RegisterNode`.

        Raises:
            ControllerError: The call failed.
        """
        request = codec.register_request(identity, capability)
        told = codec.register_metadata(identity)
        answer = await self._call(Call.REGISTER, request, told, timeout_s)
        return codec.registration_from(_read(RegisterNodeResponse, answer))

    async def heartbeat(self, session: Session, heartbeat: Heartbeat, *, timeout_s: float) -> HeartbeatAnswer:
        """Keep the session with `Heartbeat`.

        Raises:
            ControllerError: The call failed.
        """
        request = codec.heartbeat_request(session, heartbeat)
        answer = await self._call(Call.HEARTBEAT, request, (), timeout_s)
        return codec.heartbeat_answer_from(_read(HeartbeatResponse, answer))

    async def pull(self, session: Session, capability: Capability, *, timeout_s: float) -> Assignment | None:
        """Ask for a job with `PullWork`.

        Raises:
            ControllerError: The call failed.
        """
        request = codec.pull_request(session, capability)
        answer = await self._call(Call.PULL, request, (), timeout_s)
        return codec.assignment_from(_read(PullWorkResponse, answer), answer.trailing)

    async def report(self, session: Session, job_id: JobId, report: Report, *, timeout_s: float) -> None:
        """Tell how a job ended with `ReportResult`.

        Raises:
            ControllerError: The call failed; an answer with `ok=false` is `FAILED_PRECONDITION`.
        """
        request = codec.report_request(session, job_id, report)
        answer = await self._call(Call.REPORT, request, codec.report_metadata(report), timeout_s)
        if not _read(ReportResultResponse, answer).ok:
            refused: ControllerError = controller_error(
                StatusCode.FAILED_PRECONDITION, "the controller answered ok=false"
            )
            raise refused

    async def close(self) -> None:
        """Close the connection; calls that are under way, and later ones, fail as `CANCELLED`."""
        self._closed = True
        await self._channel.close()

    # ---------------------------------------------------------------- one call

    async def _call(self, call: Call, request: Message, told: codec.Metadata, timeout_s: float) -> _Answer:
        if self._closed:
            raise self._not_sent(call)
        began_s = self._clock.monotonic()
        token = await self._prepared(call, timeout_s)
        left_s = timeout_s - (self._clock.monotonic() - began_s)
        if left_s <= 0:  # grpc takes 0 for no deadline
            raise _too_late(call, timeout_s)
        metadata = told if token is None else (*told, ("authorization", f"Bearer {token}"))
        try:
            return await self._sent(call, request.SerializeToString(), metadata, left_s)
        except grpc.aio.AioRpcError as error:
            # The cause says in its own words what the peer said, and that may be what it was shown.
            shown_back = token is not None and token in str(error)
            raise self._failure(error, token) from (None if shown_back else error)
        except grpc.aio.BaseError as error:
            raise self._not_sent(call) from error

    async def _prepared(self, call: Call, timeout_s: float) -> str | None:
        # Returns the token to show, once there may be a connection.
        try:
            async with self._clock.timeout(timeout_s):
                token = await self._tokens.token()
                if self._proof is not None and self._channel.get_state() is not _CONNECTED:
                    await self._proof.give()
        except TokenError as error:
            raise controller_error(StatusCode.UNAUTHENTICATED, str(error)) from error
        except TimeoutError as error:
            raise _too_late(call, timeout_s) from error
        except ControllerError as error:
            raise controller_error(StatusCode.UNAVAILABLE, hinted(error.message, tls=self._tls)) from error
        if token is not None and not self._warned:
            self._warned = True
            self._telemetry.event(Level.WARN, PLAINTEXT_WARNING, {"controller": self._name})
        return token

    async def _sent(self, call: Call, content: bytes, metadata: codec.Metadata, timeout_s: float) -> _Answer:
        rpc = self._methods[call](content, timeout=timeout_s, metadata=metadata)
        try:
            answer = await rpc
            return _Answer(content=answer, trailing=tuple(await rpc.trailing_metadata() or ()))
        except asyncio.CancelledError as error:
            # grpc raises this also for calls that closing the channel ended, although nobody cancelled us.
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():
                raise controller_error(StatusCode.CANCELLED, _CLOSED) from error
            raise

    def _not_sent(self, call: Call) -> ControllerError:
        """Return the error of a call that did not come about."""
        if self._closed:
            return controller_error(StatusCode.CANCELLED, _CLOSED)
        return controller_error(StatusCode.INTERNAL, f"{call.value} could not be sent")

    def _failure(self, error: grpc.aio.AioRpcError, token: str | None) -> ControllerError:
        """Return the error of a call that the peer refused or that was never answered."""
        details = error.details() or ""
        if token is not None:  # a peer may repeat what it was shown
            details = details.replace(token, "[token]")
        match error.code():
            case grpc.StatusCode.CANCELLED:
                return error_of(grpc.StatusCode.UNAVAILABLE, f"the controller cancelled the call: {details}")
            case grpc.StatusCode.UNAVAILABLE:
                return error_of(grpc.StatusCode.UNAVAILABLE, hinted(details, tls=self._tls))
            case grpc.StatusCode.DEADLINE_EXCEEDED if self._channel.get_state() is not _CONNECTED:
                return error_of(grpc.StatusCode.DEADLINE_EXCEEDED, unanswered(details))
            case code:
                return error_of(code, details)


def _read(kind: type[_MessageT], answer: _Answer) -> _MessageT:
    try:
        return kind.FromString(answer.content)
    except DecodeError as error:
        problem = f"the answer is no {kind.DESCRIPTOR.name}"
        raise controller_error(StatusCode.INTERNAL, problem) from error


def _too_late(call: Call, timeout_s: float) -> ControllerError:
    return controller_error(StatusCode.DEADLINE_EXCEEDED, f"{call.value} was not sent within {timeout_s:g} s")


if TYPE_CHECKING:
    _port: type[Controller] = GrpcController
