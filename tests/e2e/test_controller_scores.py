"""From a submission to its score through three processes, client, controller and node (ADR 0025)."""

from __future__ import annotations

import json

import pytest

from tests import clips
from tests.e2e.stored_history import stored_history
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb

PAIRS = {"plain": {}, "ten bits": {"sub": "422", "depth": 10}}


def test_jobs_get_the_scores_of_vmafx_score_to_the_last_bit(program, real_controllers, nodes, engine):
    controller = real_controllers()
    node = nodes(controller.address)
    jobs = {}
    for name, form in PAIRS.items():
        pair = [
            program.write(f"{name} {distorted}.y4m", clips.y4m(distorted=distorted, **form))
            for distorted in (False, True)
        ]
        jobs[controller.client.submit(*(program.folder / clip for clip in pair))] = pair
    ended = controller.client.wait_ended(*jobs)
    stored = stored_history(controller.database)
    for job, pair in zip(ended, jobs.values(), strict=True):
        shown = program.run("score", *pair, "--json", "--features")
        expected = json.loads(shown.stdout)
        assert (job.status, job.error, job.assigned_node) == (pb.COMPLETED, "", "node-0")
        assert job.final_score == expected["score"]
        assert stored.jobs[job.id].row["score"] == expected["score"]
        assert stored.jobs[job.id].features == expected["features"]
        assert stored.jobs[job.id].outcomes == ["completed"]
    assert ended[0].final_score == pytest.approx(clips.PLAIN_SCORE, abs=0.001)
    assert stored.problems() == []
    assert [node.stop(), controller.stop()] == [0, 0]
