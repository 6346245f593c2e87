"""What a controller does over gRPC, next to a server that only answers; both under one load, in turns."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc.aio
from bench_store import FEATURES, alternate, seed
from google.protobuf.message import Message

from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb

__all__ = ["IN_FLIGHT", "Rates", "rates", "start_latencies"]

IN_FLIGHT: Final = (1, 8, 64)
WINDOW_S: Final = 1.5
"""How long one turn lasts."""
JOBS: Final = 100_000
"""How many jobs wait when the cycles begin; more than they can claim."""
STARTS: Final = 100
"""How many jobs are sent to the idle system."""
TIMEOUT_S: Final = 30.0
SERVICE: Final = "vmafx.controller.v1.VmafxController"
CLIPS: Final = pb.ScoringParams(reference="/clips/reference.y4m", distorted="/clips/distorted.y4m")
CPU: Final = pb.NodeCapability(gpu_vendor="cpu", backends=["cpu"], concurrency=1)
CONTROLLER: Final = Path(sys.executable).parent / "vmafx-controller"
Works: TypeAlias = Sequence[Callable[[], Awaitable[object]]]
ECHO: Final = Path(__file__).with_name("bench_echo.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Calls, or pulls with their reports, per second at so many in flight.

    Attributes:
        controller: Of the controller.
        echo: Of the server that only answers.
    """

    controller: float
    echo: float


class Caller:
    """Makes calls over one connection.

    Args:
        channel: The connection.
    """

    def __init__(self, channel: grpc.aio.Channel) -> None:
        def ask(name: str, answer: type[Message]) -> Callable[..., Awaitable[Any]]:
            def serialize(message: Message) -> bytes:
                return message.SerializeToString()

            call: Callable[..., Awaitable[Any]] = channel.unary_unary(
                f"/{SERVICE}/{name}", request_serializer=serialize, response_deserializer=answer.FromString
            )
            return call

        self.submit_job = ask("SubmitJob", pb.SubmitJobResponse)
        self.register_node = ask("RegisterNode", pb.RegisterNodeResponse)
        self.pull_work = ask("PullWork", pb.PullWorkResponse)
        self.report_result = ask("ReportResult", pb.ReportResultResponse)

    async def submit(self) -> str:
        """Submit a job; returns its id."""
        answer = await self.submit_job(pb.SubmitJobRequest(scoring=CLIPS), timeout=TIMEOUT_S)
        return str(answer.job_id)

    async def register(self, number: int) -> Node:
        request = pb.RegisterNodeRequest(name=f"node-{number}", capability=CPU)
        answer = await self.register_node(request, timeout=TIMEOUT_S)
        return Node(self, answer.node_id, answer.session_token)


class Node:
    """A session.

    Args:
        caller: What makes its calls.
        node_id: Its name.
        token: Its secret.
    """

    def __init__(self, caller: Caller, node_id: str, token: str) -> None:
        self._caller = caller
        self._id = node_id
        self._token = token

    async def pull(self) -> str:
        """Return the id of the job that was assigned; empty when there is none."""
        request = pb.PullWorkRequest(node_id=self._id, session_token=self._token, capability=CPU)
        answer = await self._caller.pull_work(request, timeout=TIMEOUT_S)
        return str(answer.job.id)

    async def report(self, job_id: str) -> None:
        request = pb.ReportResultRequest(
            node_id=self._id,
            session_token=self._token,
            job_id=job_id,
            final=True,
            score=95.0,
            features=FEATURES,
        )
        await self._caller.report_result(request, timeout=TIMEOUT_S)

    async def cycle(self) -> None:
        """Pull a job and report it."""
        job_id = await self.pull()
        if not job_id:
            sys.exit("bench: the controller has no job left")
        await self.report(job_id)


# ---------------------------------------------------------------- what is measured


def rates(folder: Path) -> Mapping[str, Mapping[int, Rates]]:
    """Submissions, and pulls with their reports, per second at each number of calls in flight."""
    seed(folder / "jobs.db", JOBS)
    with controller(folder / "jobs.db") as ours, echo() as raw:
        return asyncio.run(_rates(ours, raw))


async def _rates(address: str, echo_address: str) -> dict[str, dict[int, Rates]]:
    async with (
        grpc.aio.insecure_channel(address) as to_controller,
        grpc.aio.insecure_channel(echo_address) as to_echo,
    ):
        callers = Caller(to_controller), Caller(to_echo)
        nodes = [[await caller.register(number) for number in range(max(IN_FLIGHT))] for caller in callers]

        cycles = [[node.cycle for node in registered] for registered in nodes]
        submits = [[caller.submit] * max(IN_FLIGHT) for caller in callers]
        return {
            name: {in_flight: await _compared(ours, raw, in_flight=in_flight) for in_flight in IN_FLIGHT}
            for name, (ours, raw) in (("claim and report", cycles), ("submit", submits))
        }


async def _compared(ours: Works, raw: Works, *, in_flight: int) -> Rates:
    controller, echo = await alternate(
        lambda: _rate(ours[:in_flight]),
        lambda: _rate(raw[:in_flight]),
    )
    return Rates(controller=controller, echo=echo)


async def _rate(works: Works) -> float:
    """How often per second all of them together can be done, each one again and again."""
    done, begin = 0, time.perf_counter()

    async def again(work: Callable[[], Awaitable[object]]) -> None:
        nonlocal done
        while time.perf_counter() - begin < WINDOW_S:
            await work()
            done += 1

    async with asyncio.TaskGroup() as group:
        for number, work in enumerate(works):
            group.create_task(again(work), name=f"load {number}")
    return done / (time.perf_counter() - begin)


def start_latencies(folder: Path) -> list[float]:
    """Seconds from sending a job to an idle system until its one node, which waits, has it; ascending."""
    with controller(folder / "idle.db") as address:
        return asyncio.run(_start_latencies(address))


async def _start_latencies(address: str) -> list[float]:
    taken: list[float] = []
    async with grpc.aio.insecure_channel(address) as to_client, grpc.aio.insecure_channel(address) as to_node:
        client, node = Caller(to_client), await Caller(to_node).register(0)
        for _ in range(STARTS):
            pull = asyncio.create_task(node.pull(), name="pull")
            await asyncio.sleep(0.05)  # it waits now
            begin = time.perf_counter()
            submit = asyncio.create_task(client.submit(), name="submit")
            job_id = await pull
            taken.append(time.perf_counter() - begin)
            await submit
            await node.report(job_id)
    return sorted(taken)


# ---------------------------------------------------------------- the programs


@contextmanager
def controller(database: Path) -> Generator[str]:
    """A controller with a database, told nothing else; its address."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VMAFX_")}
    environment |= {
        "VMAFX_AUTH_DISABLED": "true",
        "VMAFX_DB_PATH": str(database),
        "VMAFX_GRPC_LISTEN": "127.0.0.1:0",
        "VMAFX_HTTP_ADDR": "127.0.0.1:0",
        "VMAFX_SCORING_ROOTS": "/clips",
    }
    log = database.with_suffix(".log")
    with (
        log.open("w") as out,
        subprocess.Popen([CONTROLLER], env=environment, stderr=out, stdout=out) as program,
    ):
        try:
            yield _address(program, log)
        finally:
            program.terminate()
            program.wait(TIMEOUT_S)


def _address(program: subprocess.Popen[bytes], log: Path) -> str:
    """Where a controller takes calls, as its log says."""
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until and program.poll() is None:
        for line in log.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.startswith("{") and line.endswith("}\n") and (address := json.loads(line).get("grpc")):
                return str(address)
        time.sleep(0.02)
    sys.exit(f"bench: the controller did not start: {log.read_text(encoding='utf-8')}")


@contextmanager
def echo() -> Generator[str]:
    """A server that only answers; its address."""
    with subprocess.Popen([sys.executable, str(ECHO)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"127.0.0.1:{server.stdout.readline().strip()}"
        finally:
            server.kill()
