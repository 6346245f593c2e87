"""What the kernel says of processes (ADR 0007)."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.children import gone, run_id, until
from vmafx.adapters.processes import strays
from vmafx.adapters.processes.strays import Run, Stat, parse_stat, sweep

LINE = b"77 (%s) %s 5 6 7 0 -1 4194560 10 20 30 40 50 60 70 80 20 0 1 0 123456 789 1\n"


@given(name=st.binary(max_size=15))
def test_name_of_a_process_may_hold_anything(name):
    assert parse_stat(LINE % (name, b"S")) == Stat(dead=False, parent=5, group=6, session=7, started=123456)


@pytest.mark.parametrize(("letter", "dead"), [(b"R", False), (b"D", False), (b"T", False), (b"Z", True)])
def test_only_the_dead_are_dead(letter, dead):
    assert parse_stat(LINE % (b"sh", letter)).dead is dead


def test_own_line_is_read_right():
    stat = parse_stat(Path("/proc/self/stat").read_bytes())
    assert (stat.parent, stat.group, stat.session) == (os.getppid(), os.getpgrp(), os.getsid(0))


def test_sweep_never_ends_the_process_that_sweeps():
    script = (
        "from vmafx.adapters.processes.strays import Run, sweep\n"
        "print(sweep(Run(run_id='own', leader=None), pidfds=True).left)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "VMAFX_RUN_ID": "own"},
        check=True,
        capture_output=True,
    )
    assert shown.stdout == b"()\n"


ME = "the process that sweeps"


@pytest.mark.parametrize(
    ("dead", "parent", "group", "session", "carries", "belongs"),
    [
        (False, 1, 50, 50, False, True),
        (False, 1, 60, 50, False, True),
        (False, 1, 60, 60, True, True),
        (False, ME, 60, 60, False, False),
        (True, ME, 60, 50, False, True),
        (True, 1, 50, 50, False, False),  # somebody else's to reap
        (True, ME, 60, 60, True, False),  # nothing says that it is of the run
    ],
)
def test_processes_of_the_session_and_those_alive_that_carry_the_name_belong(
    monkeypatch, dead, parent, group, session, carries, belongs
):
    monkeypatch.setattr(strays, "_carries", lambda _pid, _run_id: carries)
    number = os.getpid() if parent == ME else parent
    stat = Stat(dead=dead, parent=number, group=group, session=session, started=9)
    assert strays._belongs(77, stat, Run(run_id="a", leader=50)) is belongs
    assert strays._belongs(77, stat, Run(run_id="a", leader=None)) is (carries and not dead)


@pytest.mark.parametrize("pidfds", [True, False])
def test_process_that_took_over_a_number_is_left_alone(pidfds):
    run = Run(run_id=run_id(), leader=None)
    pid = os.posix_spawn("/bin/sleep", ["sleep", "300"], {"VMAFX_RUN_ID": run.run_id})
    ((_, stat),) = strays._scan(run)
    strays._end(run, {pid: replace(stat, started=stat.started - 1)}, pidfds=pidfds)
    assert not gone(pid)
    strays._end(run, {pid: stat}, pidfds=pidfds)
    until(lambda: gone(pid))
    with suppress(ChildProcessError):  # a sweep reaps what is its own
        os.waitpid(pid, 0)


@pytest.mark.parametrize("pidfds", [True, False])
def test_sweep_gives_up_on_what_does_not_end(monkeypatch, pidfds):
    monkeypatch.setattr(strays, "_kill", lambda _pid, _descriptor: None)
    monkeypatch.setattr(strays, "_DEATH_WAIT_MS", 1)
    monkeypatch.setattr(strays, "_PAUSE_MS", 0)
    run = run_id()
    pid = os.posix_spawn("/bin/sleep", ["sleep", "300"], {"VMAFX_RUN_ID": run})
    try:
        assert sweep(Run(run_id=run, leader=None), pidfds=pidfds).left == (pid,)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def test_sweep_says_when_it_could_not_look(monkeypatch):
    def listdir(_path):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "listdir", listdir)
    swept = sweep(Run(run_id=run_id(), leader=None), pidfds=True)
    assert swept.problem == "[Errno 24] Too many open files"


def test_sweep_looks_again_when_processes_were_started_meanwhile(monkeypatch):
    newest = iter([b"1", b"2", b"2", b"2"])
    scans = []
    monkeypatch.setattr(strays, "_newest", lambda: next(newest))
    monkeypatch.setattr(strays, "_scan", lambda run: scans.append(run) or [])
    assert sweep(Run(run_id="a", leader=None), pidfds=True).left == ()
    assert len(scans) == 2


def test_sweep_does_not_look_for_ever_on_a_busy_machine(monkeypatch):
    numbers = iter(range(1000))
    scans = []
    monkeypatch.setattr(strays, "_newest", lambda: b"%d" % next(numbers))
    monkeypatch.setattr(strays, "_scan", lambda run: scans.append(run) or [])
    sweep(Run(run_id="a", leader=None), pidfds=True)
    assert len(scans) == 2
