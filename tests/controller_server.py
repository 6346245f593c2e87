"""A controller behind real gRPC: in this process (`serve`), or as a program on its own.

    python -m tests.controller_server [--roots DIR]... [--original] [--pull-wait SECONDS]
                                      [--port PORT] [--token TOKEN]

The program serves a FakeController on the machine's time. Its first line on stdout is its address. It then
takes one JSON object per line on stdin and answers each with one on stdout, `{"ok": true, ...}` or
`{"ok": false, "error": "..."}`:

    {"do": "submit", "reference": R, "distorted": D, "roots": [...], "backend": B, "model": M, "id": ID}
                                        only the clips are needed; roots are those of this job
    {"do": "cancel", "job": ID}         "changed": whether it had not ended yet
    {"do": "job", "job": ID}            "status", "score", "features", "error", "attempt", "node"
    {"do": "wait", "job": ID}           the same, once it has ended
    {"do": "wait_status", "job": ID, "status": S}  the same, once it has that status
    {"do": "calls"}                     "received": counts by method, "listed": the jobs of each heartbeat
    {"do": "wait_calls", "call": METHOD, "count": N}  the same, once as many were received
    {"do": "metadata", "call": METHOD}  "metadata": what came with each call of it
    {"do": "fail", "call": METHOD, "code": C, "message": M}  the next such call fails
    {"do": "away"}, {"do": "back"}      every call fails; no more
    {"do": "end_sessions"}              as a restart does
    {"do": "violations"}                "violations"
    {"do": "reset", "roots": [...]}     forgets everything; the next jobs have these roots
    {"do": "stop"}                      ends it, as the end of stdin does
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import grpc
import grpc.aio

from vmafx.adapters.auth.disabled import EveryoneVerifier
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.controller import PULL_WAIT_S, ControllerMode, FakeController
from vmafx.adapters.fakes.controller_calls import HeartbeatCall
from vmafx.adapters.fakes.controller_faults import Fail
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.adapters.grpc.gate import Gate
from vmafx.adapters.grpc.node_calls import NodeCalls
from vmafx.adapters.grpc.roles import CONTROLLER_ROLES
from vmafx.adapters.grpc.services import Services
from vmafx.domain.callers import RoleTable
from vmafx.domain.job import JobId, JobSpec
from vmafx.domain.nodesession import Capability
from vmafx.domain.retry import Call, StatusCode
from vmafx.domain.scoring import Backend
from vmafx.domain.session_state import Session
from vmafx.ports.controller import Assignment, Desk

STEP_S = 0.02
WAIT_MAX_S = 60.0
END_GRACE_S = 0.5


# -------------------------------------------------------------------- in this process


@dataclass(frozen=True)
class Received:
    """One call, as it reached the server, served or not."""

    method: str
    metadata: tuple[tuple[str, str], ...]

    def values(self, key: str) -> tuple[str, ...]:
        return tuple(value for name, value in self.metadata if name == key)


@dataclass
class Recorder(grpc.aio.ServerInterceptor):
    """Writes down what comes with each call, and refuses calls without the token, where one is required."""

    token: str | None = None
    calls: list[Received] = field(default_factory=list)

    def of(self, method: str) -> list[Received]:
        return [call for call in self.calls if call.method == method]

    async def intercept_service(self, continuation, handler_call_details):
        metadata = tuple(
            (key, value) for key, value in handler_call_details.invocation_metadata if isinstance(value, str)
        )
        call = Received(method=handler_call_details.method.rpartition("/")[2], metadata=metadata)
        self.calls.append(call)
        if self.token is not None and call.values("authorization") != (f"Bearer {self.token}",):
            return grpc.unary_unary_rpc_method_handler(_unauthenticated)
        return await continuation(handler_call_details)


async def _unauthenticated(_request, context):
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, "invalid or missing token")


@asynccontextmanager
async def serve(
    controller: Desk,
    *,
    credentials: grpc.ServerCredentials | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    recorder: Recorder | None = None,
    telemetry: RecordingTelemetry | None = None,
    options: tuple[tuple[str, Any], ...] = (),
) -> AsyncIterator[str]:
    """Serve the calls of nodes for the body, and hand out the address as `host:port`.

    `port` 0 means a free one. At the end pulls that wait are answered with no job, and other calls have
    `END_GRACE_S` to end before they are cut off.
    """
    interceptors = [] if recorder is None else [recorder]
    server = grpc.aio.server(interceptors=interceptors, options=(("grpc.so_reuseport", 0), *options))
    telemetry = telemetry or RecordingTelemetry()
    calls = NodeCalls(lambda _caller: controller, telemetry=telemetry)
    gate = Gate(EveryoneVerifier(), RoleTable(CONTROLLER_ROLES), telemetry)
    server.add_generic_rpc_handlers((Services(gate, calls, telemetry=telemetry),))
    shown = f"[{host}]" if ":" in host else host
    if credentials is None:
        bound = server.add_insecure_port(f"{shown}:{port}")
    else:
        bound = server.add_secure_port(f"{shown}:{port}", credentials)
    await server.start()
    try:
        yield f"{shown}:{bound}"
    finally:
        calls.end_waits()
        await server.stop(grace=END_GRACE_S)
        await calls.drained()


# -------------------------------------------------------------------- on its own


class RootsByJob:
    """A `FakeController` whose jobs may have roots of their own."""

    def __init__(self, controller: FakeController) -> None:
        self.roots: dict[JobId, tuple[str, ...]] = {}
        self.serve(controller)

    def serve(self, controller: FakeController) -> None:
        """Serve this one from now on."""
        self._controller = controller
        self.register = controller.register
        self.heartbeat = controller.heartbeat
        self.report = controller.report
        self.take_back = controller.take_back
        self.roots.clear()

    async def pull(self, session: Session, capability: Capability, *, timeout_s: float) -> Assignment | None:
        assignment = await self._controller.pull(session, capability, timeout_s=timeout_s)
        if assignment is None or assignment.job_id not in self.roots:
            return assignment
        return replace(assignment, scoring_roots=self.roots[assignment.job_id])


class Program:
    """What the commands do."""

    def __init__(self, new: Callable[[tuple[str, ...]], FakeController], roots: tuple[str, ...]) -> None:
        self.new = new
        self.controller = new(roots)
        self.served = RootsByJob(self.controller)
        self.recorder = Recorder()

    async def do(self, command: dict[str, Any]) -> dict[str, Any]:
        words = dict(command)
        name = words.pop("do", None)
        if name not in COMMANDS:
            raise ValueError(f"no such command: {name!r}; there are {', '.join(COMMANDS)}")
        method = getattr(self, f"do_{name}")
        return await method(**words) or {}

    async def do_submit(self, reference, distorted, roots=None, backend=None, model=None, id=None):  # noqa: A002 -- the word of the commands
        spec = JobSpec(
            reference=reference,
            distorted=distorted,
            model=model or None,
            backend=Backend(backend) if backend else None,
        )
        job_id = self.controller.submit(spec, job_id=id)
        if roots is not None:
            self.served.roots[job_id] = tuple(roots)
        return {"job": job_id}

    async def do_cancel(self, job):
        return {"changed": self.controller.cancel(JobId(job))}

    async def do_job(self, job):
        seen = self.controller.job(JobId(job))
        return {
            "status": seen.status.value,
            "score": None if seen.result is None else seen.result.score,
            "features": None if seen.result is None else dict(seen.result.features),
            "error": seen.error,
            "attempt": seen.attempt,
            "node": seen.assigned_node,
        }

    async def do_wait(self, job):
        await self._until(lambda: self.controller.job(JobId(job)).status.terminal)
        return await self.do_job(job)

    async def do_wait_status(self, job, status):
        await self._until(lambda: self.controller.job(JobId(job)).status.value == status)
        return await self.do_job(job)

    async def do_calls(self):
        wire = self.controller.wire
        return {
            "received": Counter(call.method for call in self.recorder.calls),
            "listed": [list(call.heartbeat.listed) for call in wire.received_as(HeartbeatCall)],
        }

    async def do_wait_calls(self, call, count):
        await self._until(lambda: len(self.recorder.of(call)) >= count)
        return await self.do_calls()

    async def do_metadata(self, call):
        return {"metadata": [list(map(list, received.metadata)) for received in self.recorder.of(call)]}

    async def do_fail(self, call, code="UNAVAILABLE", message="fault on cue"):
        self.controller.wire.cue(Call(call), Fail(code=StatusCode(code), message=message))

    async def do_away(self):
        self.controller.wire.break_down()

    async def do_back(self):
        self.controller.wire.heal()

    async def do_end_sessions(self):
        self.controller.end_sessions()

    async def do_violations(self):
        return {"violations": list(self.controller.violations())}

    async def do_reset(self, roots):
        self.controller = self.new(tuple(roots))
        self.served.serve(self.controller)
        self.recorder.calls.clear()

    @staticmethod
    async def _until(true: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_MAX_S):
            while not true():
                await asyncio.sleep(STEP_S)


COMMANDS = sorted(["stop", *(name.removeprefix("do_") for name in vars(Program) if name.startswith("do_"))])


async def run(arguments: argparse.Namespace) -> None:
    mode = ControllerMode.ORIGINAL if arguments.original else ControllerMode.CURRENT
    clock = SystemClock()

    def new(roots: tuple[str, ...]) -> FakeController:
        return FakeController(clock, mode=mode, pull_wait_s=arguments.pull_wait, roots=roots)

    program = Program(new, tuple(arguments.roots or ("/",)))
    program.recorder.token = arguments.token
    async with serve(program.served, recorder=program.recorder, port=arguments.port) as address:
        say(address)
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                command = json.loads(line)
                if command.get("do") == "stop":
                    say(json.dumps({"ok": True}))
                    return
                answer = {"ok": True, **await program.do(command)}
            except Exception as error:  # noqa: BLE001 -- whatever it is, the test that asked must hear of it
                answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
            say(json.dumps(answer))


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 -- stdout is how it speaks


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.controller_server",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--roots",
        action="append",
        metavar="DIR",
        help="prefix that the clips of jobs must lie under; may be given again (default: /)",
    )
    parser.add_argument(
        "--original",
        action="store_true",
        help="be like the original controller: pulls answer at once, attempts have no numbers",
    )
    parser.add_argument(
        "--pull-wait",
        type=float,
        default=PULL_WAIT_S,
        metavar="SECONDS",
        help="how long a pull that finds nothing waits for a job (default: %(default)s)",
    )
    parser.add_argument(
        "--port", type=int, default=0, help="port on 127.0.0.1 to listen at (default: a free one)"
    )
    parser.add_argument("--token", help="token that every call must bear (default: none is asked for)")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
