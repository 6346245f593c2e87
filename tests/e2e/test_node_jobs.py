"""`vmafx-node` with a controller in another process: jobs, cancels, sessions, tokens (ADR 0022)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import clips, reports
from tests.e2e.program import alive, eventually

JOBS = 40


@pytest.fixture
def at_work(program, fake, controller, nodes):
    """A node whose scorer never ends by itself, the id of its job, and the scorer's process."""
    node = nodes(controller.address)
    node.wait_told("registered with controller")
    fake.tell(mode="ignores_term")
    job = controller.submit(program.folder)
    eventually(Path(f"{fake.log}.ready").exists, what="the scorer is at work")
    return node, job, int(str(fake.runs()[-1]["pid"]))


def test_a_job_gets_the_score_of_vmafx_score_to_the_last_bit(program, controller, nodes, engine):
    node = nodes(controller.address)
    job = controller.submit(program.folder)
    done = controller.do("wait", job=job)
    shown = program.run("score", "ref.y4m", "dis.y4m", "--json", "--features")
    expected = json.loads(shown.stdout)
    assert done["status"] == "completed", done
    assert done["score"] == expected["score"]
    assert done["features"] == expected["features"]
    assert done["score"] == pytest.approx(clips.PLAIN_SCORE, abs=0.001)
    reported = node.wait_told("job result reported", job_id=job)
    assert reported[0]["score"] == expected["score"]
    assert node.stop() == 0


def test_a_cancel_kills_the_scorer_through_the_first_heartbeat_begun_after_it(controller, at_work):
    node, job, scorer = at_work
    assert alive(scorer)
    controller.do("wait_calls", call="Heartbeat", count=2)
    controller.do("cancel", job=job)
    begun = controller.calls("Heartbeat")
    node.wait_told("controller cancelled the job; stopping it", job_id=job)
    node.wait_told("job result reported", job_id=job)
    assert not alive(scorer)
    answered = controller.do("calls")["listed"]
    # Heartbeat number `begun` may have been answered before the cancel; the one after it had to tell.
    listed = [number for number, jobs in enumerate(answered) if job in jobs]
    assert listed[-1] <= begun + 1
    seen = controller.do("job", job=job)
    assert seen["status"] == "cancelled"
    text = node.told("job result reported", job_id=job)[0]["error"]
    assert text.startswith("cancelled by the controller: ")
    assert node.stop() == 0


@pytest.mark.parametrize("slots", ["1", "2"])
def test_a_job_outlives_the_session_that_it_was_pulled_in(program, fake, controller, nodes, slots):
    node = nodes(controller.address, VMAFX_NODE_SLOTS=slots)
    node.wait_told("registered with controller")
    before = len(fake.runs())
    go = program.folder / "go"
    fake.tell(mode="waits", until=str(go))
    job = controller.submit(program.folder)
    eventually(Path(f"{fake.log}.ready").exists, what="the scorer is at work")
    controller.do("end_sessions")
    second = node.wait_told("registered with controller", times=2)[1]["node_id"]
    go.touch()
    done = controller.do("wait", job=job)
    assert (done["status"], done["score"]) == ("completed", pytest.approx(reports.SCORE))
    assert len(fake.runs()) == before + 1
    assert [told["node_id"] for told in node.wait_told("job result reported", job_id=job)] == [second]
    assert node.stop() == 0


def test_all_slots_work_and_no_result_is_another_jobs(program, fake, controller, nodes):
    fake.tell(mode="ok")
    node = nodes(controller.address, VMAFX_NODE_SLOTS="64")
    (program.folder / "bad.y4m").write_bytes(b"not a video")
    jobs = [controller.submit(program.folder, distorted="dis.y4m") for _ in range(JOBS)]
    bad = [controller.submit(program.folder, distorted="bad.y4m") for _ in range(JOBS // 4)]
    away = [controller.submit(Path("/"), distorted="etc/passwd") for _ in range(JOBS // 4)]
    assert {controller.do("wait", job=job)["status"] for job in jobs} == {"completed"}
    for job in bad:
        assert "bad.y4m" in controller.do("wait", job=job)["error"]
    for job in away:
        assert "outside the tenant's scoring roots" in controller.do("wait", job=job)["error"]
    assert node.wait_told("controller client started")[0]["slots"] == 64
    assert {call["slot"] for call in node.told("job pulled")} >= {0, 1, 2}
    assert node.stop() == 0
    assert not node.told("job result not delivered")


def test_two_nodes_share_the_jobs_of_one_controller(program, fake, controller, nodes):
    both = [nodes(controller.address) for _ in range(2)]
    for node in both:
        node.wait_told("registered with controller")
    fake.tell(mode="stays")
    jobs = [controller.submit(program.folder) for _ in range(2)]
    seen = [controller.do("wait_status", job=job, status="running") for job in jobs]
    assert sorted(job["node"] for job in seen) == ["node-0", "node-1"]
    for job in jobs:
        controller.do("cancel", job=job)
    assert [node.wait_told("job result reported") != [] for node in both] == [True, True]
    assert [node.stop() for node in both] == [0, 0]


def test_a_token_file_is_read_again_for_every_call(program, fake, controllers, nodes, tmp_path):
    controller = controllers("--roots", str(tmp_path), "--token", "second-secret")
    token = tmp_path / "token"
    token.write_text("first-secret\n", encoding="utf-8")
    node = nodes(controller.address, VMAFX_CONTROLLER_TOKEN_FILE=str(token))
    refused = node.wait_told("RegisterNode failed; retrying")
    assert refused[0]["code"] == "UNAUTHENTICATED"
    token.write_text("second-secret\n", encoding="utf-8")
    assert controller.do("wait", job=controller.submit(program.folder))["status"] == "completed"
    token.write_text(" \n", encoding="utf-8")
    failed = node.wait_told("heartbeat failed")
    assert failed[0]["error"] == f"UNAUTHENTICATED: controller token file {token} is empty"
    assert node.stop() == 0
    assert "secret" not in node.text()
    warned = [record for record in node.records() if "plaintext" in record["msg"]]
    assert [record["level"] for record in warned] == ["WARN"]


def test_helpers_that_a_scorer_leaves_behind_are_gone(program, fake, controller, nodes):
    node = nodes(controller.address)
    node.wait_told("registered with controller")
    fake.tell(mode="grandchild", new_session=True)
    assert controller.do("wait", job=controller.submit(program.folder))["status"] == "completed"
    helper = int(Path(f"{fake.log}.grandchild").read_text(encoding="utf-8"))
    eventually(lambda: not Path(f"/proc/{helper}").exists(), what="the helper was killed and reaped")
    assert node.left() == []
    assert node.process.poll() is None


def test_a_controller_that_went_away_is_found_again(program, fake, controller, nodes):
    controller.do("away")
    node = nodes(controller.address)
    node.wait_told("RegisterNode failed; retrying", code="UNAVAILABLE")
    controller.do("back")
    assert controller.do("wait", job=controller.submit(program.folder))["status"] == "completed"
    assert node.stop() == 0


def test_a_proxy_of_the_environment_is_not_used(program, fake, controller, nodes):
    black_hole = "http://127.0.0.1:1"
    proxies = dict.fromkeys(
        ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "all_proxy"), black_hole
    )
    node = nodes(controller.address, **proxies)
    assert controller.do("wait", job=controller.submit(program.folder))["status"] == "completed"
    assert node.stop() == 0
    assert not node.told("RegisterNode failed; retrying")


def test_where_the_node_runs_is_on_every_line(fake, controller, nodes):
    node = nodes(controller.address, POD_NAME="vmafx-0", POD_NAMESPACE="video")
    node.wait_told("registered with controller")
    assert node.stop() == 0
    assert {(line["pod_name"], line["pod_namespace"]) for line in node.records()} == {("vmafx-0", "video")}
