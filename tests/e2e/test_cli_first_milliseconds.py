"""Whatever ends `vmafx score` in the first milliseconds of its scorer, the scorer ends too (ADR 0007)."""

from __future__ import annotations

import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cli_scorer import endless_request
from tests.e2e.program import HANG_S, eventually, processes_about

RUNS, RUNS_LONG = 40, 400
AT_ONCE = 4
STEP_S = 0.0003
"""Runs are ended at ten moments this far apart, from the first sight of the child on."""


@pytest.fixture
def clips(program, engine):
    """A clip that takes for ever, under a name for each of the runs that go on side by side."""
    clip = Path(endless_request(program.folder).reference.path)
    names = [clip.with_name(f"clip{number}.y4m") for number in range(AT_ONCE)]
    for name in names:
        name.hardlink_to(clip)
    assert program.run("score", "ref.y4m", "dis.y4m").returncode == 0  # the self-test is remembered
    return names


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
@pytest.mark.parametrize("runs", [RUNS, pytest.param(RUNS_LONG, marks=pytest.mark.soak)])
def test_scorer_is_gone_with_a_program_ended_in_its_first_milliseconds(program, clips, number, runs):
    def work(worker: int) -> None:
        for run in range(runs // AT_ONCE):
            end_one(program, clips[worker], number, after_s=run % 10 * STEP_S)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(work, worker) for worker in range(AT_ONCE)]:
            done.result()
    assert program.leftovers() == []


def end_one(program, clip, number, *, after_s):
    process = program.start("score", str(clip), str(clip))
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        eventually(children.read_bytes, what="there is a child")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(after_s)
    finally:
        process.send_signal(number)
        out, err = process.communicate(timeout=HANG_S)
    assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number), out + err
    assert not out
    assert "Traceback" not in err
    eventually(lambda: not processes_about(clip), what="the scorer is gone")
