"""Signals during a run: the scorer is gone when the program is, and the exit code says why."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.program import HANG_S, alive, eventually


@pytest.fixture
def running(program, fake):
    """A run whose scorer is at work and ignores requests to end."""
    assert program.run("score", "ref.y4m", "dis.y4m").returncode == 0  # the self-test is remembered
    before = len(fake.runs())
    fake.tell(mode="ignores_term")
    process = program.start("score", "ref.y4m", "dis.y4m", start_new_session=True)
    ready = Path(f"{fake.log}.ready")
    eventually(ready.exists, what="the scorer is at work")
    scorer = int(str(fake.runs()[before]["pid"]))
    assert alive(scorer)
    yield process, scorer
    process.kill()
    process.communicate()


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=str,
)
def test_a_signal_ends_the_run_and_its_scorer(program, running, number, code):
    process, scorer = running
    process.send_signal(number)
    out, err = process.communicate(timeout=HANG_S)
    assert process.returncode == code
    assert not alive(scorer)
    assert not out
    assert err == f"vmafx: interrupted ({number.name})\n"
    assert program.leftovers() == []


def test_ctrl_c_while_the_program_still_loads_shows_no_traceback():
    interrupt_a_load = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, path, target=None):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
sys.argv = ["vmafx", "score", "a", "b"]
from vmafx.app.cli.start import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", interrupt_a_load], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == -signal.SIGINT
    assert not done.stdout + done.stderr


def test_two_signals_in_a_row_still_clean_up(program, running):
    process, scorer = running
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=HANG_S)
    assert process.returncode in {143, 129}  # which of two pending signals is delivered first is the kernel's
    assert not alive(scorer)
    assert "Traceback" not in err
    assert program.leftovers() == []


def test_a_scorer_dies_with_a_program_that_is_killed(program, running):
    process, scorer = running
    process.kill()
    process.communicate(timeout=HANG_S)
    eventually(lambda: not alive(scorer), what="the scorer is gone")
    assert program.leftovers() == []


def test_a_process_that_the_scorer_left_is_gone_too(program, fake):
    assert program.run("score", "ref.y4m", "dis.y4m").returncode == 0
    fake.tell(mode="grandchild", new_session=True)
    done = program.run("score", "ref.y4m", "dis.y4m")
    assert done.returncode == 0, done.stderr
    assert not processes_with(str(fake.path))


def processes_with(word):
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if word in line]


def test_nohup_runs_on_when_the_terminal_goes(program, fake):
    assert program.run("score", "ref.y4m", "dis.y4m").returncode == 0
    fake.tell(mode="ignores_term")
    process = program.start(
        "score", "ref.y4m", "dis.y4m", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    )
    eventually(Path(f"{fake.log}.ready").exists, what="the scorer is at work")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=HANG_S)
    assert process.returncode == 143
