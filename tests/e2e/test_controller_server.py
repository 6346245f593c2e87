"""The controller that end-to-end tests speak to does in another process what it is told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb

ROOT = Path(__file__).parents[2]
HANG_S = 20


class Server:
    """The program, and a node's calls to it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.address = self._line()
        self.channel = grpc.insecure_channel(self.address)

    def do(self, do: str, **words: object) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **words}) + "\n")
        self.process.stdin.flush()
        return json.loads(self._line())

    def call(self, method: str, request, answer):
        ask = self.channel.unary_unary(
            f"/vmafx.controller.v1.VmafxController/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return ask(request, timeout=HANG_S, metadata=(("x-told", "this"),))

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture
def server() -> Iterator[Server]:
    command = [sys.executable, "-m", "tests.controller_server", "--roots", "/clips", "--pull-wait", "0"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        server = Server(process)
        yield server
        server.channel.close()
        if process.poll() is None:
            assert server.do("stop") == {"ok": True}
        assert process.wait(HANG_S) == 0


def test_a_job_goes_its_way_in_another_process(server: Server) -> None:
    told = server.do(
        "submit",
        reference="/r",
        distorted="/d",
        roots=["/a", "/b"],
        backend="cpu",
        model="vmaf_4k",
        id="mine",
    )
    assert told == {"ok": True, "job": "mine"}
    capability = pb.NodeCapability(backends=["cpu"])
    session = server.call("RegisterNode", pb.RegisterNodeRequest(name="n"), pb.RegisterNodeResponse)
    shown = {"node_id": session.node_id, "session_token": session.session_token}
    pulled = server.call("PullWork", pb.PullWorkRequest(**shown, capability=capability), pb.PullWorkResponse)
    assert list(pulled.job.scoring_roots) == ["/a", "/b"]
    assert (pulled.job.scoring.backend, pulled.job.scoring.model) == ("cpu", "vmaf_4k")
    assert server.do("wait_status", job="mine", status="running")["node"] == "n"
    beat = pb.HeartbeatRequest(**shown, jobs_running=1, running_job_ids=["mine"])
    server.call("Heartbeat", beat, pb.HeartbeatResponse)
    report = pb.ReportResultRequest(**shown, job_id="mine", final=True, score=91.5, features={"vmaf": 91.5})
    server.call("ReportResult", report, pb.ReportResultResponse)
    assert server.do("wait", job="mine") == {
        "ok": True,
        "status": "completed",
        "score": 91.5,
        "features": {"vmaf": 91.5},
        "error": None,
        "attempt": 1,
        "node": "n",
    }
    calls = server.do("wait_calls", call="ReportResult", count=1)
    assert calls["received"] == {"RegisterNode": 1, "PullWork": 1, "Heartbeat": 1, "ReportResult": 1}
    assert calls["listed"] == [["mine"]]
    assert ["x-told", "this"] in server.do("metadata", call="Heartbeat")["metadata"][0]
    assert server.do("violations") == {"ok": True, "violations": []}


def test_cancels_and_faults_come_on_command(server: Server) -> None:
    job = server.do("submit", reference="/r", distorted="/d")["job"]
    assert server.do("cancel", job=job) == {"ok": True, "changed": True}
    assert server.do("cancel", job=job) == {"ok": True, "changed": False}
    assert server.do("job", job=job)["status"] == "cancelled"
    server.do("fail", call="RegisterNode", code="ABORTED", message="not now")
    request = pb.RegisterNodeRequest(name="n")
    with pytest.raises(grpc.RpcError, match="not now"):
        server.call("RegisterNode", request, pb.RegisterNodeResponse)
    server.do("away")
    with pytest.raises(grpc.RpcError, match="controller is away"):
        server.call("RegisterNode", request, pb.RegisterNodeResponse)
    server.do("back")
    session = server.call("RegisterNode", request, pb.RegisterNodeResponse)
    server.do("end_sessions")
    beat = pb.HeartbeatRequest(node_id=session.node_id, session_token=session.session_token)
    assert not server.call("Heartbeat", beat, pb.HeartbeatResponse).ok


def test_a_command_that_is_none_is_answered_and_the_next_one_served(server: Server) -> None:
    refused = server.do("dance")
    assert not refused["ok"]
    told, _, listed = refused["error"].partition("; there are ")
    assert told == "ValueError: no such command: 'dance'"
    assert {"submit", "wait_status", "end_sessions", "stop"} <= set(listed.split(", "))
    assert server.do("job", job="nobody")["ok"] is False
    assert server.do("violations")["ok"] is True


def test_the_end_of_its_input_ends_it(server: Server) -> None:
    assert server.process.stdin is not None
    server.process.stdin.close()
    assert server.process.wait(HANG_S) == 0
