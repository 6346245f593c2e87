"""How `vmafx-controller` stops: by one signal, by two, by `kill -9`; its successor goes on (ADR 0028)."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys

import grpc
import pytest

from tests import reports
from tests.e2e.controller_program import CONTROLLER, controller_settings, free_ports
from tests.e2e.program import HANG_S, eventually
from tests.e2e.test_node_first_moments import CONTAINER, TELLS, catches, only_child
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb

MANY = 2000
"""So many jobs of the original that a listing of them does not fit between two processes."""
LONG = "x" * 3000


def test_a_signal_ends_waiting_calls_at_once_and_the_controller_in_order(
    program, fake, real_controllers, nodes
):
    controller = real_controllers(VMAFX_PULL_WAIT="50s")
    node = nodes(controller.address, VMAFX_CONTROLLER_RPC_TIMEOUT="45s")
    node.wait_told("registered with controller")  # and pulls from now on
    assert controller.stop(signal.SIGHUP) == 0
    assert controller.told("controller told to stop", signal="SIGHUP")
    odd = {record["msg"] for record in controller.records() if record["level"] in {"WARN", "ERROR"}}
    assert odd <= {"authentication is disabled", "setting questionable"}
    assert node.stop() == 0
    assert sorted(path.name for path in program.folder.glob("jobs.db*")) == ["jobs.db", "jobs.db.lock"]


def test_a_running_job_outlives_its_controller_and_ends_under_the_next_one(
    program, fake, real_controllers, nodes
):
    go = program.folder / "go"
    first = real_controllers()
    node = nodes(first.address)
    node.wait_told("registered with controller")
    fake.tell(mode="waits", until=str(go))
    running = first.client.submit(program.folder / "ref.y4m", program.folder / "dis.y4m")
    waiting = first.client.submit(program.folder / "ref.y4m", program.folder / "dis.y4m")
    eventually(lambda: first.client.job(running).status == pb.RUNNING, what="the job runs")
    assert first.stop() == 0
    second = real_controllers(ports=first.ports)
    second.wait_ready()
    assert second.client.job(running).status == pb.RUNNING
    go.touch()
    for job in second.client.wait_ended(running, waiting):
        assert (job.status, job.error) == (pb.COMPLETED, "")
        assert job.final_score == pytest.approx(reports.SCORE)
        assert job.assigned_node == "node-0"
    assert len(node.told("registered with controller")) == 1
    assert len(node.told("job pulled")) == 2
    assert node.stop() == 0
    assert second.stop() == 0


def original(path):
    """Write a database of the original platform with many jobs."""
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE TABLE jobs (id TEXT PRIMARY KEY, status TEXT, scoring TEXT, assigned_node TEXT, score REAL,"
        " features TEXT, error TEXT, tenant_id TEXT, created_at INT, updated_at INT)"
    )
    rows = [
        (f"0f8fad5b-d9cb-469f-a165-{n:012x}", f'{{"reference":"/{LONG}","distorted":"/d"}}')
        for n in range(MANY)
    ]
    connection.executemany(
        "INSERT INTO jobs VALUES (?, 'pending', ?, NULL, NULL, NULL, NULL, '', 1700000000, 1700000000)", rows
    )
    connection.commit()
    connection.close()


def test_a_second_signal_cuts_off_what_does_not_end(program, real_controllers):
    original(program.folder / "jobs.db")
    controller = real_controllers()
    (taken,) = controller.wait_told("jobs of the original platform taken over")
    assert (taken["jobs"], taken["requeued"], taken["left_out"]) == (MANY, 0, 0)
    controller.wait_ready()
    listing = controller.client.listing()
    assert next(listing).status == pb.PENDING  # and takes no more
    controller.send(signal.SIGTERM)
    controller.wait_told("controller told to stop")
    assert controller.process.poll() is None
    controller.send(signal.SIGINT)
    assert controller.wait() == 130
    assert len(controller.told("controller told to stop")) == 2
    with pytest.raises(grpc.RpcError):
        list(listing)


@pytest.mark.parametrize(("moment", "times"), [("click", 1), ("pydantic", 2), ("aiohttp", 1)])
def test_a_signal_during_an_import_ends_the_controller(program, moment, times):
    ended = subprocess.run(
        [sys.executable, "-c", TELLS, moment, str(int(signal.SIGTERM)), str(times), "vmafx-controller"],
        env=program.environment | controller_settings(program.folder, free_ports()),
        cwd=program.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ended.returncode == (0 if times == 1 else 143), ended.stderr
    if times == 1:
        assert ended.stderr.count("controller told to stop") == 1
        assert "ERROR" not in ended.stderr


def test_the_first_process_of_a_container_stops_in_order(program, real_controllers):
    if os.geteuid() != 0:
        pytest.skip("only root makes containers here")
    probe = subprocess.run([*CONTAINER, "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"no containers here: {probe.stderr.strip()}")
    controller = real_controllers(command=(*CONTAINER, str(CONTROLLER)))

    def pid() -> int | None:
        return only_child(controller.process.pid)

    eventually(lambda: catches(pid(), signal.SIGTERM), what="the controller has its handlers")
    os.kill(pid(), signal.SIGTERM)
    assert controller.wait() == 0, controller.text()
    assert len(controller.told("controller told to stop", signal="SIGTERM")) == 1
