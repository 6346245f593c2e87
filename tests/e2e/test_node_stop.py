"""How `vmafx-node` stops: by one signal, by two, at every stage of its life, and by `kill -9` (ADR 0022)."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests import reports
from tests.cli_scorer import endless_request
from tests.e2e.program import HANG_S, alive, eventually

INTERRUPTED = "node shutting down, job interrupted: "
ENDS = 4
STEP_S = 0.002
"""Nodes are ended at moments this far apart, from the first sight of a scorer's process on."""
STARTS_S = (0.0, 0.2, 0.3, 0.4, 0.5)
"""How long after its start a node is told to stop; it registers after some 0.4 s."""
QUICK = {"VMAFX_SHUTDOWN_TIMEOUT": "900ms", "VMAFX_CONTROLLER_RPC_TIMEOUT": "5s"}


@pytest.fixture
def go(program):
    """The file that lets a scorer end."""
    return program.folder / "go"


def set_to_work(program, fake, controller, node, **ways):
    """Let the node's scorer begin a job that does not end by itself; the id of the job and the scorer's."""
    node.wait_told("registered with controller")
    before = len(fake.runs())
    fake.tell(**{"mode": "ignores_term", **ways})
    job = controller.submit(program.folder)
    eventually(lambda: len(fake.runs()) > before, what="the scorer is at work")
    eventually(Path(f"{fake.log}.ready").exists, what="the scorer ignores signals")
    return job, int(str(fake.runs()[before]["pid"]))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda n: n.name)
def test_a_stop_without_time_interrupts_the_job_and_reports_it(program, fake, controller, nodes, number):
    node = nodes(controller.address, **QUICK)
    job, scorer = set_to_work(program, fake, controller, node)
    assert node.stop(number) == 0
    assert not alive(scorer)
    assert node.told("node told to stop", signal=number.name)
    assert node.told("stop deadline reached with jobs running; cancelling them", running=1)
    reported = node.told("job result reported", job_id=job)
    assert reported[0]["error"].startswith(INTERRUPTED)
    assert node.records()[-1]["msg"] == "controller client stopped"
    seen = controller.do("job", job=job)
    assert seen["status"] in {"pending", "failed"}  # handed out again, or at its last attempt
    retryable = [
        value
        for key, value in controller.do("metadata", call="ReportResult")["metadata"][-1]
        if key == "vmafx-retryable"
    ]
    assert retryable == ["shutdown"]


def test_a_stop_with_time_lets_the_job_end_and_reports_its_score(program, fake, controller, nodes, go):
    node = nodes(controller.address, VMAFX_SHUTDOWN_TIMEOUT="50s")
    job, _ = set_to_work(program, fake, controller, node, mode="waits", until=str(go))
    node.send(signal.SIGTERM)
    node.wait_told("node told to stop")
    pulls = controller.calls("PullWork")
    beats = controller.calls("Heartbeat")
    controller.do("wait_calls", call="Heartbeat", count=beats + 2)  # heartbeats go on
    second = controller.submit(program.folder)
    go.touch()
    done = controller.do("wait", job=job)
    assert (done["status"], done["score"]) == ("completed", pytest.approx(reports.SCORE))
    assert node.wait() == 0
    assert node.left() == []
    assert controller.calls("PullWork") == pulls
    assert controller.do("job", job=second)["status"] == "pending"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_second_signal_ends_the_node_and_its_scorer(program, fake, controller, nodes, number):
    node = nodes(controller.address, VMAFX_SHUTDOWN_TIMEOUT="50s")
    job, scorer = set_to_work(program, fake, controller, node)
    node.send(signal.SIGTERM)
    node.wait_told("node told to stop", signal="SIGTERM")
    assert node.stop(number) == 128 + number
    assert not alive(scorer)
    lost = node.told("job result not delivered: node stopped", job_id=job)
    assert [record["level"] for record in lost] == ["ERROR"]


def test_a_stop_ends_the_waiting_for_a_controller_that_is_away(program, fake, controller, nodes):
    controller.do("away")
    node = nodes(controller.address, VMAFX_SHUTDOWN_TIMEOUT="50s")
    node.wait_told("RegisterNode failed; retrying", times=2)
    assert node.stop() == 0


def test_a_stop_while_nothing_listens_at_the_address(program, fake, nodes):
    node = nodes("127.0.0.1:1", VMAFX_SHUTDOWN_TIMEOUT="50s")
    refused = node.wait_told("RegisterNode failed; retrying")
    assert refused[0]["code"] == "UNAVAILABLE"
    assert node.stop() == 0


def test_a_stop_ends_the_self_test(program, fake, controller, nodes):
    fake.tell(mode="ignores_term")
    node = nodes(controller.address, VMAFX_SHUTDOWN_TIMEOUT="50s")
    eventually(Path(f"{fake.log}.ready").exists, what="the self-test runs")
    assert node.stop() == 0
    assert controller.calls("RegisterNode") == 0
    assert not node.told("node refuses to start")


def test_a_stop_soon_after_the_start_leaves_nothing(program, fake, controller, nodes):
    for delay_s in STARTS_S:
        node = nodes(controller.address)
        time.sleep(delay_s)  # whatever it does then
        code = node.stop()
        # Python itself takes a while to start, and nobody listens to signals before that.
        assert code == 0 or (code == -signal.SIGTERM and node.records() == []), node.text()
        assert not [record for record in node.records() if record["level"] in {"WARN", "ERROR"}]


def test_kill_9_leaves_no_scorer(program, fake, controller, nodes):
    node = nodes(controller.address)
    _, scorer = set_to_work(program, fake, controller, node)
    node.send(signal.SIGKILL)
    assert node.wait() == -signal.SIGKILL
    eventually(lambda: not alive(scorer), what="the scorer died with the node")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda n: n.name)
def test_no_scorer_outlives_a_node_ended_in_its_first_milliseconds(
    program, controllers, nodes, engine, number, tmp_path
):
    controller = controllers("--roots", str(tmp_path))
    endless = Path(endless_request(program.folder).reference.path).name
    for run in range(ENDS):
        node = nodes(controller.address, VMAFX_SHUTDOWN_TIMEOUT="100ms")
        node.wait_told("registered with controller")
        children = Path(f"/proc/{node.process.pid}/task/{node.process.pid}/children")
        job = controller.submit(program.folder, endless, endless)
        end = time.monotonic() + HANG_S
        while not children.read_bytes():
            assert time.monotonic() < end, node.text()
        time.sleep(run * STEP_S)
        node.send(number)
        assert node.wait() == (0 if number == signal.SIGTERM else -number), node.text()
        eventually(
            lambda node=node: not [p for p in node.descendants() if alive(p)], what="the scorer is gone"
        )
        controller.do("cancel", job=job)


def test_a_node_whose_controller_dies_stops_in_time(program, fake, controllers, nodes, tmp_path):
    controller = controllers("--roots", str(tmp_path))
    node = nodes(controller.address, **QUICK)
    job, scorer = set_to_work(program, fake, controller, node)
    controller.end()
    node.wait_told("heartbeat failed")
    assert node.stop() == 0
    assert not alive(scorer)
    lost = node.told("job result not delivered: node stopped", job_id=job)
    assert lost[0]["failure"].startswith(INTERRUPTED)
