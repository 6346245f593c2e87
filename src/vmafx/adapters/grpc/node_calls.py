"""The calls of nodes, over a `Desk` (ADR 0016, 0026)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from google.protobuf.message import Message

from vmafx.adapters.grpc import codec
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb
from vmafx.adapters.grpc.calls import Incoming, Method, Unary, read
from vmafx.adapters.grpc.services import CALL_FAILED
from vmafx.adapters.grpc.waits import StoppingError, Waits
from vmafx.domain.callers import Principal
from vmafx.domain.nodesession import Capability
from vmafx.domain.retry import Call
from vmafx.domain.session_state import Session
from vmafx.ports.controller import Assignment, Desk
from vmafx.ports.telemetry import Level, Telemetry

if TYPE_CHECKING:
    from vmafx.adapters.grpc.calls import ServicePart

__all__ = ["NodeCalls"]

_PULL: Final = f"/{codec.SERVICE}/{Call.PULL.value}"


class NodeCalls:
    """The four calls of nodes.

    A desk is given the time that is left of a call. A pull whose caller is gone before its answer is on the
    way is taken back.

    Args:
        of: Returns the desk that answers a caller.
        telemetry: Is told of errors that nobody foresaw when an assignment was taken back.
    """

    def __init__(self, of: Callable[[Principal], Desk], *, telemetry: Telemetry) -> None:
        self._of = of
        self._telemetry = telemetry
        self._waits = Waits()
        self._undoing: set[asyncio.Task[None]] = set()

    def methods(self) -> Mapping[str, Method]:
        """Return the four calls."""
        return {
            f"/{codec.SERVICE}/{Call.REGISTER.value}": Unary(self._register),
            f"/{codec.SERVICE}/{Call.HEARTBEAT.value}": Unary(self._heartbeat),
            _PULL: Unary(self._pull),
            f"/{codec.SERVICE}/{Call.REPORT.value}": Unary(self._report),
        }

    def end_waits(self) -> None:
        """Answer pulls that wait for a job, and all later ones, with none; the wait is cancelled."""
        self._waits.end()

    async def drained(self) -> None:
        """Return when every assignment that has to be is taken back."""
        while self._undoing:
            await asyncio.wait(self._undoing)

    async def _register(self, call: Incoming) -> Message:
        request = read(pb.RegisterNodeRequest, call.content)
        identity = codec.identity_from(request, call.metadata)
        capability = codec.capability_from(request.capability)
        registration = await self._of(call.caller).register(identity, capability, timeout_s=call.left_s())
        return codec.register_response(registration)

    async def _heartbeat(self, call: Incoming) -> Message:
        request = read(pb.HeartbeatRequest, call.content)
        session, heartbeat = codec.session_from(request), codec.heartbeat_from(request)
        answer = await self._of(call.caller).heartbeat(session, heartbeat, timeout_s=call.left_s())
        return codec.heartbeat_response(answer)

    async def _report(self, call: Incoming) -> Message:
        request = read(pb.ReportResultRequest, call.content)
        session, report = codec.session_from(request), codec.report_from(request, call.metadata)
        job_id = codec.reported_job_from(request)
        await self._of(call.caller).report(session, job_id, report, timeout_s=call.left_s())
        return codec.report_response()

    async def _pull(self, call: Incoming) -> Message:
        request = read(pb.PullWorkRequest, call.content)
        session, capability = codec.session_from(request), codec.capability_from(request.capability)
        desk = self._of(call.caller)
        assignment = await self._pulled(desk, session, capability, timeout_s=call.left_s())
        if assignment is None:
            return codec.pull_response(None)
        try:
            answer = codec.pull_response(assignment)
            call.context.set_trailing_metadata(codec.pull_metadata(assignment))
            await call.begin()  # grpc does not tell whether an answer was sent, but this it does
        except BaseException:
            self._undo(desk, session, assignment)
            raise
        return answer

    async def _pulled(
        self, desk: Desk, session: Session, capability: Capability, *, timeout_s: float
    ) -> Assignment | None:
        try:
            with self._waits.one():
                return await desk.pull(session, capability, timeout_s=timeout_s)
        except StoppingError:
            return None

    def _undo(self, desk: Desk, session: Session, assignment: Assignment) -> None:
        """Take an assignment back in a task of its own, since the call's task is being cancelled."""
        work = self._take_back(desk, session, assignment)
        task = asyncio.create_task(work, name=f"take back {assignment.job_id!r}")
        self._undoing.add(task)
        task.add_done_callback(self._undoing.discard)

    async def _take_back(self, desk: Desk, session: Session, assignment: Assignment) -> None:
        try:
            await desk.take_back(session, assignment)
        except Exception as error:  # noqa: BLE001 - nobody waits for this task but the end of the server
            fields = {"call": _PULL, "job_id": assignment.job_id, "node_id": session.node_id}
            self._telemetry.event(Level.ERROR, CALL_FAILED, fields, error=error)


if TYPE_CHECKING:
    _part: type[ServicePart] = NodeCalls
