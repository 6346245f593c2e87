"""`vmafx score` for a long time: no death of it leaves a scorer, and no number of runs leaves anything."""

from __future__ import annotations

import random
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli_scorer import descriptors, endless_request, plain_request
from tests.e2e.program import eventually, processes_about
from vmafx import open_scorer

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("engine")]

KILLS = 300
SCORES = 200
LATEST_S = 1.0
"""The latest moment to kill at: a scorer is at work by then."""


def test_no_kill_at_any_moment_leaves_a_scorer(program):
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    clip = Path(endless_request(program.folder).reference.path)
    seen = 0
    for number in range(KILLS):
        process = program.start("score", str(clip), str(clip))
        try:
            process.wait(chance.uniform(0, LATEST_S))
        except subprocess.TimeoutExpired:
            seen += len(processes_about(clip)) > 1
        process.kill()
        out, err = process.communicate()
        told = f"kill {number} of seed {seed}: {out}{err}"
        assert process.returncode == -signal.SIGKILL, told
        eventually(lambda: not processes_about(clip), what=told)
    assert seen > KILLS / 10, "hardly a scorer was at work when its program was killed"
    assert program.leftovers() == []


async def test_scores_leave_no_descriptor_no_process_and_no_file(program, monkeypatch):
    for name, value in program.environment.items():
        monkeypatch.setenv(name, value)
    request = plain_request(program.folder)
    async with open_scorer() as scorer:
        first = await scorer.score(request)
        before = descriptors()
        for _ in range(SCORES):
            assert (await scorer.score(request)).score == first.score
        assert descriptors() == before
    assert processes_about(program.folder) == []
    assert program.leftovers() == []
