"""The service `VmafxController`, in parts that stand over ports: so far the calls of nodes (ADR 0016).

A method that no part serves is answered `UNIMPLEMENTED` by grpc itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol, TypeAlias, TypeVar, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from vmafx.adapters.grpc import codec
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb
from vmafx.adapters.grpc.status import refusal_of, wire_code
from vmafx.domain.errors import SessionNotFoundError, StoreError, VmafxError
from vmafx.domain.job import NODE_NAME_BYTES_MAX, JobId
from vmafx.domain.lease import PULL_DEADLINE_DEFAULT_S
from vmafx.domain.nodesession import Capability
from vmafx.domain.retry import Call, StatusCode, controller_error
from vmafx.domain.session_state import Session
from vmafx.ports.controller import Assignment, Controller
from vmafx.ports.telemetry import Level, Telemetry

__all__ = [
    "CALL_FAILED",
    "CALL_TIMEOUT_MAX_S",
    "Handlers",
    "NodeCalls",
    "ServicePart",
    "add_controller_service",
]

CALL_TIMEOUT_MAX_S: Final = 3600.0
"""How long a call may take at most, in seconds, whatever deadline its caller gave."""
CALL_FAILED: Final = "call failed unexpectedly"
"""The log message of a call whose work raised what it must not."""

_RequestT = TypeVar("_RequestT", bound=Message)
Handlers: TypeAlias = Mapping[str, "grpc.RpcMethodHandler[bytes, bytes]"]
"""The handlers of methods by their names, as grpc takes them."""
_Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"

_DOING: Final[Mapping[Call, str]] = {
    Call.REGISTER: "register node",
    Call.HEARTBEAT: "heartbeat: look up cancelled jobs",
    Call.PULL: "pull work",
    Call.REPORT: "report result",
}


class ServicePart(Protocol):
    """Some methods of the service."""

    def handlers(self) -> Handlers:
        """Return their handlers by the names of the methods."""
        ...


def add_controller_service(server: grpc.aio.Server, *parts: ServicePart) -> None:
    """Serve the methods of `parts`; to be called before the server starts.

    Args:
        server: The server.
        parts: The parts, which have no method in common.

    Raises:
        ValueError: Two parts have a method in common; names it.
    """
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {}
    for part in parts:
        for name, handler in part.handlers().items():
            if name in handlers:
                raise ValueError(f"two parts serve {name}")
            handlers[name] = handler
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(codec.SERVICE, handlers),))


class NodeCalls:
    """The four calls of nodes, over a `Controller`.

    The controller is given the time that is left of a call. A caller that goes away, or whose deadline
    passes, cancels the controller's work. A server that is to stop in peace is told `end_pulls` first.

    Args:
        controller: Who answers.
        telemetry: Is told of errors that nobody foresaw; callers are told nothing of them.
    """

    def __init__(self, controller: Controller, *, telemetry: Telemetry) -> None:
        self._controller = controller
        self._telemetry = telemetry
        self._pulls: set[asyncio.Task[object]] = set()
        self._ended = asyncio.Event()

    def end_pulls(self) -> None:
        """Answer pulls that wait for a job, and all later ones, with none; what they wait for is cancelled.

        A server that stops otherwise waits for them until its grace is over, and then cuts them off.
        """
        self._ended.set()
        for task in self._pulls:
            task.cancel()

    def handlers(self) -> Handlers:
        """Return the handlers of the four calls."""
        return {
            Call.REGISTER.value: self._method(Call.REGISTER, pb.RegisterNodeRequest, self._register),
            Call.HEARTBEAT.value: self._method(Call.HEARTBEAT, pb.HeartbeatRequest, self._heartbeat),
            Call.PULL.value: self._method(Call.PULL, pb.PullWorkRequest, self._pull),
            Call.REPORT.value: self._method(Call.REPORT, pb.ReportResultRequest, self._report),
        }

    async def _register(self, request: pb.RegisterNodeRequest, context: _Context) -> Message:
        _check_name(request.name)
        registration = await self._controller.register(
            codec.identity_from(request, context.invocation_metadata() or ()),
            codec.capability_from(request.capability),
            timeout_s=_left_s(context),
        )
        return codec.register_response(registration)

    async def _heartbeat(self, request: pb.HeartbeatRequest, context: _Context) -> Message:
        session, heartbeat = codec.session_from(request), codec.heartbeat_from(request)
        answer = await self._controller.heartbeat(session, heartbeat, timeout_s=_left_s(context))
        return codec.heartbeat_response(answer)

    async def _pull(self, request: pb.PullWorkRequest, context: _Context) -> Message:
        session, capability = codec.session_from(request), codec.capability_from(request.capability)
        assignment = await self._pulled(session, capability, timeout_s=_left_s(context))
        context.set_trailing_metadata(codec.pull_metadata(assignment))
        return codec.pull_response(assignment)

    async def _pulled(
        self, session: Session, capability: Capability, *, timeout_s: float
    ) -> Assignment | None:
        task = asyncio.current_task()
        if self._ended.is_set() or task is None:
            return None
        self._pulls.add(task)
        try:
            return await self._controller.pull(session, capability, timeout_s=timeout_s)
        except asyncio.CancelledError:
            if self._ended.is_set() and not task.uncancel():  # else the caller has gone as well
                return None
            raise
        finally:
            self._pulls.discard(task)

    async def _report(self, request: pb.ReportResultRequest, context: _Context) -> Message:
        await self._controller.report(
            codec.session_from(request),
            JobId(request.job_id),
            codec.report_from(request, context.invocation_metadata() or ()),
            timeout_s=_left_s(context),
        )
        return codec.report_response()

    def _method(
        self,
        call: Call,
        request: type[_RequestT],
        work: Callable[[_RequestT, _Context], Awaitable[Message]],
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        """Return the handler that answers what `work` answers, or ends with the status of what it raises.

        Messages are read and written here: grpc would log what it cannot read, and call it `UNKNOWN`.
        """

        async def answer(content: bytes, context: _Context) -> bytes:
            try:
                message = await work(_read(request, content), context)
            except Exception as error:  # noqa: BLE001 - grpc would tell the caller whatever the error says
                if not isinstance(error, VmafxError):
                    self._telemetry.event(Level.ERROR, CALL_FAILED, {"call": call.value}, error=error)
                refusal = refusal_of(error, about=_about(call, error))
                await context.abort(wire_code(refusal.code), refusal.message)
            return message.SerializeToString()

        return grpc.unary_unary_rpc_method_handler(answer)


def _read(kind: type[_RequestT], content: bytes) -> _RequestT:
    try:
        return kind.FromString(content)
    except DecodeError as error:
        raise controller_error(StatusCode.INVALID_ARGUMENT, "the request cannot be read") from error


def _check_name(name: str) -> None:
    if not name:
        raise controller_error(StatusCode.INVALID_ARGUMENT, "node name is required")
    length = len(name.encode())
    if length > NODE_NAME_BYTES_MAX:
        problem = f"node name has {length} bytes, at most {NODE_NAME_BYTES_MAX} are accepted"
        raise controller_error(StatusCode.INVALID_ARGUMENT, problem)


def _left_s(context: _Context) -> float:
    left_s = cast("float | None", context.time_remaining())  # None when the caller gave no deadline
    return PULL_DEADLINE_DEFAULT_S if left_s is None else min(max(left_s, 0.0), CALL_TIMEOUT_MAX_S)


def _about(call: Call, error: Exception) -> str:
    """What the wire's messages begin with: only errors of a store, and not every one, say what was done."""
    if not isinstance(error, StoreError) or (call is Call.REPORT and isinstance(error, SessionNotFoundError)):
        return ""
    return _DOING[call]
