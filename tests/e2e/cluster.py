"""A whole system in processes: one controller on a file, and nodes that work for it.

first = cluster.controller()
node = await cluster.node()                     # registered
job = await cluster.client.submit()
first.send(SIGKILL)
second = cluster.controller()                   # on the same file and ports
await cluster.client.ended(job)
history = await cluster.finish()                # all stopped, and nothing impossible is stored
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from signal import SIGKILL
from typing import Any, Final

import grpc

from tests import reports
from tests.e2e.controller_program import CONTROLLER, RealController, free_ports
from tests.e2e.node_program import NodeProcess
from tests.e2e.program import HANG_S, Program
from tests.e2e.quick_scorer import QuickScorer
from tests.e2e.stored_history import StoredHistory, counted, stored_history
from tests.grpc_clients import WireClient, refusal
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb

__all__ = ["CHANNEL", "FORGETFUL", "Cluster", "ClusterNode", "PatientClient", "so"]

FORGETFUL: Final = {"VMAFX_STORE_LEASE_TTL": "3s", "VMAFX_STORE_SESSION_TTL": "3s"}
"""A controller that thinks a node lost after three seconds."""
CHANNEL: Final = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
)
"""A channel that notices soon that its controller is back."""
_CONTROLLER: Final = {
    "VMAFX_STORE_SWEEP_INTERVAL": "500ms",
    "VMAFX_STORE_BACKOFF_BASE": "100ms",
    "VMAFX_PULL_WAIT": "1s",
}
_NODE: Final = {
    "VMAFX_CONTROLLER_HEARTBEAT_INTERVAL": "500ms",
    "VMAFX_CONTROLLER_POLL_INTERVAL": "50ms",
    "VMAFX_CONTROLLER_RPC_TIMEOUT": "3s",
}
_ENDED: Final = {pb.COMPLETED, pb.FAILED, pb.CANCELLED}


class PatientClient(WireClient):
    """A client that asks again while the controller is away, as a client should.

    A submission has a key, so that one whose answer was lost is not stored twice.

    Attributes:
        pair: The clips of its jobs.
        turned_away: How often nobody was there.
    """

    def __init__(self, address: str, folder: Path, *, name: str = "client") -> None:
        super().__init__(grpc.aio.insecure_channel(address, options=CHANNEL))
        self.pair = (str(folder / "ref.y4m"), str(folder / "dis.y4m"))
        self._keys = (f"{name}-{number}" for number in count())
        self.turned_away = 0

    async def plain(self, begin: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Make a call, again and again while nobody is there."""
        end = time.monotonic() + HANG_S
        while True:
            try:
                return await begin(*arguments, **options)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() > end:
                    raise
                self.turned_away += 1
            await asyncio.sleep(0.05)

    async def job(self, **fields: str) -> str:
        """Hand in a job about the plain pair and return its id."""
        return (await self.plain(self.submit, *self.pair, key=next(self._keys), **fields)).job_id

    async def refused(self) -> tuple[str, str]:
        """Hand in a job in vain; return the code and the words."""
        return await refusal(self.submit(*self.pair))

    async def outcome(self, call: Any) -> tuple[str, str]:
        """Return the code of a call, and its words when it failed."""
        try:
            await call
        except grpc.aio.AioRpcError as error:
            return error.code().name, error.details() or ""
        return "OK", ""

    async def seen(self, job_id: str) -> pb.Job:
        """Return a job as it is now."""
        return await self.plain(self.get, job_id)

    async def reaches(self, job_id: str, *statuses: int) -> pb.Job:
        """Return a job once it has one of these statuses."""
        end = time.monotonic() + HANG_S
        while (job := await self.seen(job_id)).status not in statuses:
            assert time.monotonic() < end, f"it stays as it is: {job}"
            await asyncio.sleep(0.02)
        return job

    async def ended(self, *job_ids: str) -> list[pb.Job]:
        """Return jobs once they have ended."""
        return [await self.reaches(job_id, *_ENDED) for job_id in job_ids]


class ClusterNode(NodeProcess):
    """A node with a scorer of its own."""

    def __init__(self, program: Program, address: str, scorer: QuickScorer, **more: Any) -> None:
        super().__init__(program, address, VMAFX_VMAF_BINARY=str(scorer.path), **more)
        self.scorer = scorer

    async def registered(self, times: int = 1) -> None:
        """Return once it has a session."""
        await asyncio.to_thread(self.wait_told, "registered with controller", times=times)


class Cluster:
    """A controller and nodes in a folder; whatever was started ends with it.

    Attributes:
        client: A client of whatever controller is there.
        controllers: The controllers so far; one at a time.
        nodes: The nodes so far.
    """

    def __init__(self, program: Program) -> None:
        self.program: Final = program
        self.ports: Final = free_ports()
        self.address: Final = f"127.0.0.1:{self.ports[0]}"
        self.database = program.folder / "jobs.db"
        self.controllers: Final[list[RealController]] = []
        self.nodes: Final[list[ClusterNode]] = []
        self.client: Final = PatientClient(self.address, program.folder)
        self._clients: Final = [self.client]

    @property
    def controller(self) -> RealController:
        """The controller that was started last."""
        return self.controllers[-1]

    async def start(self, *, ready: bool = True, command: tuple[str, ...] = (), **settings: str) -> None:
        """Start the controller, anew on the same file and ports when there was one."""
        asked = _CONTROLLER | {"VMAFX_DB_PATH": str(self.database)} | settings
        started = RealController(
            self.program,
            number=len(self.controllers),
            ports=self.ports,
            command=(*command, str(CONTROLLER)),
            **asked,
        )
        self.controllers.append(started)
        if ready:
            await asyncio.to_thread(started.wait_ready)

    async def kill(self) -> None:
        """End the controller as a crash does."""
        self.controller.send(SIGKILL)
        await asyncio.to_thread(self.controller.wait)

    async def node(
        self,
        name: str | None = None,
        *,
        address: str | None = None,
        score: float = reports.SCORE,
        prepare: Callable[[QuickScorer], None] = lambda _: None,
        **more: str,
    ) -> ClusterNode:
        """Start a node and return it once it has a session; one of a name that was there takes its place."""
        number = len(self.nodes)
        name = f"node-{number}" if name is None else name
        scorer = QuickScorer(self.program.folder / f"scorer-{number}", score)
        prepare(scorer)
        started = ClusterNode(
            self.program,
            self.address if address is None else address,
            scorer,
            number=number,
            **(_NODE | {"VMAFX_NODE_ID": name} | more),
        )
        self.nodes.append(started)
        await started.registered()
        return started

    def another_client(self, name: str) -> PatientClient:
        """Return a client with a connection of its own."""
        self._clients.append(PatientClient(self.address, self.program.folder, name=name))
        return self._clients[-1]

    def history(self) -> StoredHistory:
        """Return what is stored now; nothing impossible may be."""
        history = stored_history(self.database)
        problems = history.problems()
        assert not problems, "\n".join(problems)
        return history

    async def metric(self, name: str, **labels: str) -> float:
        """Return a metric of the controller."""
        status, page = await asyncio.to_thread(self.controller.get, "/metrics")
        assert status == 200
        return counted(page, name, **labels)

    def told(self, message: str, **fields: object) -> list[dict[str, Any]]:
        """What all controllers so far logged."""
        return [record for one in self.controllers for record in one.told(message, **fields)]

    def assert_untroubled(self, *but: str) -> None:
        """See that no controller complained of anything but its settings, and what is named."""
        for record in [record for one in self.controllers for record in one.records()]:
            expected = record["msg"] in {"authentication is disabled", "setting questionable", *but}
            assert expected or record["level"] in {"DEBUG", "INFO"}, record

    async def finish(self) -> StoredHistory:
        """Stop what runs, and return what is stored; no job may have ended twice."""
        for process in [*self.nodes, *self.controllers]:
            if process.process.poll() is None:
                assert await asyncio.to_thread(process.stop) == 0, process.text()
        for message in ("job completed", "job failed", "job cancelled"):
            ended = Counter(record["job_id"] for record in self.told(message))
            assert set(ended.values()) <= {1}, f"{message} twice: {ended}"
        return self.history()

    async def end(self) -> None:
        """End everything, however it is."""
        for client in self._clients:
            await client.channel.close()
        for process in [*self.nodes, *self.controllers]:
            process.end()


async def so(condition: Callable[[], bool], *, what: str) -> None:
    """Return once the condition holds; a test that waits for too long fails."""
    end = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < end, f"still not so: {what}"
        await asyncio.sleep(0.02)
