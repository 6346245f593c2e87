"""Runs `vmafx-controller` in a process of its own, watches it, and calls it as a client does."""

from __future__ import annotations

import http.client
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc

from tests.e2e.logged import LoggedProcess
from tests.e2e.program import HANG_S, Program, eventually
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb

__all__ = ["CONTROLLER", "Client", "RealController", "controller_settings", "free_ports"]

Answer = TypeVar("Answer")

CONTROLLER: Final = Path(sys.executable).parent / "vmafx-controller"
_SERVICE: Final = "/vmafx.controller.v1.VmafxController"
_ENDED: Final = {pb.COMPLETED, pb.FAILED, pb.CANCELLED}


class Client:
    """Calls a controller; it waits for one that is away."""

    def __init__(self, address: str, *, token: str = "") -> None:
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
        options += [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)]
        self._channel = grpc.insecure_channel(address, options=options)

    def submit(
        self, reference: Path | str, distorted: Path | str, *, model: str = "", backend: str = ""
    ) -> str:
        """Hand in a job and return its id."""
        scoring = pb.ScoringParams(
            reference=str(reference), distorted=str(distorted), model=model, backend=backend
        )
        return self._call("SubmitJob", pb.SubmitJobRequest(scoring=scoring), pb.SubmitJobResponse).job_id

    def job(self, job_id: str) -> pb.Job:
        """Return a job as it is now."""
        return self._call("GetJob", pb.GetJobRequest(job_id=job_id), pb.Job)

    def jobs(self) -> list[pb.Job]:
        """Return all jobs, the oldest first."""
        return list(self.listing())

    def listing(self) -> Iterator[pb.Job]:
        """Iterate over all jobs, the oldest first; nothing is asked for faster than it is taken."""
        listing = self._channel.unary_stream(
            f"{_SERVICE}/StreamJobs",
            request_serializer=pb.StreamJobsRequest.SerializeToString,
            response_deserializer=pb.Job.FromString,
        )
        return listing(pb.StreamJobsRequest(), timeout=HANG_S, wait_for_ready=True)

    def cancel(self, job_id: str) -> pb.CancelJobResponse:
        """Cancel a job."""
        return self._call("CancelJob", pb.CancelJobRequest(job_id=job_id), pb.CancelJobResponse)

    def wait_ended(self, *job_ids: str) -> list[pb.Job]:
        """Return jobs once they have ended."""
        for job_id in job_ids:
            eventually(lambda job_id=job_id: self.job(job_id).status in _ENDED, what=f"{job_id} ends")
        return [self.job(job_id) for job_id in job_ids]

    def wait_status(self, job_id: str, status: int) -> pb.Job:
        """Return a job once it has a status."""
        eventually(lambda: self.job(job_id).status == status, what=f"{job_id} is {pb.JobStatus.Name(status)}")
        return self.job(job_id)

    def close(self) -> None:
        """Call no more."""
        self._channel.close()

    def _call(self, method: str, request: Any, kind: type[Answer]) -> Answer:
        call: Callable[..., Answer] = self._channel.unary_unary(
            f"{_SERVICE}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=kind.FromString,
        )
        return call(request, timeout=HANG_S, wait_for_ready=True, metadata=self._metadata)


class RealController(LoggedProcess):
    """A `vmafx-controller` on a database in the folder of the test; jobs may read that folder.

    One that is started on the ports and the database of an earlier one takes its place.
    """

    def __init__(
        self,
        program: Program,
        *,
        number: int = 0,
        ports: tuple[int, int] | None = None,
        command: tuple[str, ...] = (str(CONTROLLER),),
        **settings: str,
    ) -> None:
        self.ports = free_ports() if ports is None else ports
        self.address, self.http_address = (f"127.0.0.1:{port}" for port in self.ports)
        self.database = program.folder / "jobs.db"
        asked = controller_settings(program.folder, self.ports) | settings
        super().__init__(program, f"controller-{number}", command, asked)
        self.client = Client(self.address)

    def get(self, path: str) -> tuple[int, str]:
        """Return the status and the body of a page."""
        connection = http.client.HTTPConnection(self.http_address, timeout=HANG_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def wait_ready(self) -> None:
        """Return once it says that it is ready."""

        def ready() -> bool:
            assert self.process.poll() is None, self.text()
            try:
                return self.get("/readyz")[0] == 200
            except OSError:
                return False

        eventually(ready, what="the controller is ready")

    def end(self) -> None:
        """End it, however it is."""
        self.client.close()
        super().end()


def controller_settings(folder: Path, ports: tuple[int, int]) -> dict[str, str]:
    """The settings of a controller whose jobs may read a folder, in which its database lies too."""
    return {
        "VMAFX_AUTH_DISABLED": "true",
        "VMAFX_DB_PATH": str(folder / "jobs.db"),
        "VMAFX_GRPC_LISTEN": f"127.0.0.1:{ports[0]}",
        "VMAFX_HTTP_ADDR": f"127.0.0.1:{ports[1]}",
        "VMAFX_SCORING_ROOTS": str(folder),
    }


def free_ports() -> tuple[int, int]:
    """Two ports of this machine that nobody listens on."""
    with (
        socket.create_server(("127.0.0.1", 0)) as first,
        socket.create_server(("127.0.0.1", 0)) as second,
    ):
        return first.getsockname()[1], second.getsockname()[1]
