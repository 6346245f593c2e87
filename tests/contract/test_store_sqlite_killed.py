"""A controller killed in the middle: what was answered is there, and nothing is half there (ADR 0024)."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.store_sqlite_harness import desk_at, open_store
from vmafx.domain.job import JobStatus

WORKER = Path(__file__).with_name("store_sqlite_worker.py")
REACHED = {
    "submitted": set(JobStatus),
    "claimed": set(JobStatus) - {JobStatus.PENDING},
    "done": {JobStatus.COMPLETED},
}


@pytest.mark.parametrize("seed", range(4))
async def test_what_was_answered_before_a_kill_is_stored(tmp_path, seed):
    path = tmp_path / "jobs.db"
    told: list[tuple[str, str]] = []
    for life in range(3):
        told += killed(path, answers=random.Random(f"{seed} {life}").randrange(1, 250))
        async with open_store(path) as store:
            desk = desk_at(store)
            await desk.check()
            for word, job_id in told:
                assert await desk.status(job_id) in REACHED[word], (word, job_id)
            assert sorted(await desk.live()) == [f"s{number}" for number in range(life + 1)]


def killed(path: Path, *, answers: int) -> list[tuple[str, str]]:
    """Run a controller and kill it after so many answers; return all that it told before it died."""
    command = [sys.executable, str(WORKER), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(answers)]
        child.kill()
        lines += child.stdout.readlines()
    whole = [line.decode().split() for line in lines if line.endswith(b"\n")]
    assert len(whole) >= answers, "the child ended by itself"
    return [(word, job_id) for word, job_id in whole]
