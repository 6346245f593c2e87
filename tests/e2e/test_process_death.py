"""Children die with the process that started them, and what falls to a subreaper is reaped (ADR 0007)."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack

import pytest

from tests.children import GUARD_S, alive, run_id, until
from vmafx.adapters.processes import Launcher

MOTHER = """
import asyncio, os, select, signal, sys
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.processes import Launcher, PosixProcesses
from vmafx.domain.process import Command

run, launcher, delays_us = sys.argv[1], Launcher(sys.argv[2]), sys.argv[3:]

async def parent(number, ready):
    processes = PosixProcesses(SystemClock(), launcher=launcher)
    command = Command(argv=("/bin/sleep", "300"), environment={}, run_id=f"{run}{number}")
    os.write(ready, b".")
    async with processes.running(command) as child:
        await child.wait()

for number, delay_us in enumerate(delays_us):
    heard, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(parent(number, ready))
        finally:
            os._exit(1)
    os.close(ready)
    os.read(heard, 1)
    os.close(heard)
    select.select([0], [], [], float(delay_us) / 1e6)
    os.kill(pid, signal.SIGKILL)
    if os.waitpid(pid, 0)[1] != signal.SIGKILL:
        sys.exit(f"parent {number} ended before it was killed")
"""
SUBREAPER = "from vmafx.adapters.processes import become_subreaper\nassert become_subreaper()\n"


def mother(runs: str, launcher: Launcher, delays_us: list[float], script: str = MOTHER):
    """Start a process that starts parents, one after the other, and kills each after its delay."""
    return subprocess.Popen(
        [sys.executable, "-c", script, runs, launcher.value, *map(str, delays_us)],
        stdin=subprocess.PIPE,
    )


@pytest.mark.parametrize("script", [MOTHER, SUBREAPER + MOTHER], ids=["", "under a subreaper"])
@pytest.mark.parametrize(("launcher", "span_us"), [(Launcher.SHELL, 4_000), (Launcher.PYTHON, 24_000)])
def test_child_dies_with_a_parent_killed_in_its_first_milliseconds(launcher, span_us, script):
    runs = run_id() + "-"
    delays_us = [number * span_us / 100 for number in range(100)]
    with ExitStack() as stack:
        mothers = [mother(f"{runs}{n}-", launcher, delays_us[n::4], script) for n in range(4)]
        for process in mothers:
            stack.enter_context(process)
        assert [process.wait(GUARD_S) for process in mothers] == [0, 0, 0, 0]
    until(lambda: alive(runs) == [])


@pytest.mark.parametrize("launcher", list(Launcher))
def test_child_lives_as_long_as_its_parent(launcher):
    runs = run_id() + "-"
    process = mother(runs, launcher, [GUARD_S * 1e6])
    until(lambda: alive(runs) != [])
    process.communicate(b"now", timeout=GUARD_S)
    assert process.returncode == 0
    until(lambda: alive(runs) == [])


REAPING = """
import asyncio, json, os, sys
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.processes import PosixProcesses, become_subreaper
from vmafx.domain.process import Command

LEAVES = '''
import os, time
for own_session in (True, False, True, False):
    if os.fork() == 0:
        if own_session:
            os.setsid()
        if os.fork() == 0:
            time.sleep(300)
        os.write(3, b".")
        time.sleep(300 * own_session)
        os._exit(0)
time.sleep(300)
'''

def children():
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            fields = open(f"/proc/{name}/stat").read().rpartition(") ")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.append(int(name))
    return found

async def main():
    processes = PosixProcesses(SystemClock())
    stranger = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, stranger, os.WEXITED | os.WNOWAIT)
    for number in range(5):
        heard = 0
        ready = asyncio.Event()
        def listen(data):
            nonlocal heard
            heard += len(data)
            if heard == 4:
                ready.set()
        command = Command(argv=(sys.executable, "-I", "-S", "-c", LEAVES), environment={},
                          run_id=f"{sys.argv[1]}{number}", listeners={3: listen})
        async with processes.running(command):
            await ready.wait()
    print(json.dumps({"left": children(), "stranger": [stranger]}))
    assert os.waitpid(stranger, 0)[1] == 0

if sys.argv[2] == "subreaper":
    assert become_subreaper()
asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["subreaper", "plain"])
def test_killed_descendants_are_reaped_and_nobody_elses_child(kind):
    runs = run_id() + "-"
    shown = subprocess.run(
        [sys.executable, "-c", REAPING, runs, kind], check=True, capture_output=True, timeout=GUARD_S
    )
    found = json.loads(shown.stdout)
    assert found["left"] == found["stranger"]
    assert alive(runs) == []


def test_nothing_becomes_a_subreaper_by_import():
    script = (
        "import ctypes\n"
        "import vmafx.adapters.processes as processes\n"
        "told = ctypes.c_int(7)\n"
        "for _ in range(2):\n"
        "    assert ctypes.CDLL(None).prctl(37, ctypes.byref(told), 0, 0, 0) == 0\n"
        "    print(told.value)\n"
        "    assert processes.become_subreaper()\n"
    )
    shown = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=GUARD_S)
    assert shown.stdout.split() == [b"0", b"1"]
