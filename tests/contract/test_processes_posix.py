"""What only the real adapter of the port Processes can show (ADR 0007)."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.children import (
    GUARD_S,
    Heard,
    alive,
    children,
    descriptors,
    gone,
    nothing_left,
    program,
    python,
    shell,
    state,
    until,
)
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.processes import Launcher, PosixProcesses, child, posix
from vmafx.adapters.processes.launch import find_tools
from vmafx.adapters.processes.strays import Swept
from vmafx.domain.errors import ConfigurationError, ScorerError
from vmafx.domain.process import Command, Exit

LAUNCHERS = list(Launcher)
PIDFDS = pytest.mark.parametrize("pidfds", [True, False], ids=["pidfd", "thread"])


async def run(processes: PosixProcesses, command: Command) -> Exit:
    async with asyncio.timeout(GUARD_S), processes.running(command) as started:
        return await started.wait()


async def runs(processes: PosixProcesses) -> bool:
    """Return whether a plain program runs, is limited and gets its environment unchanged."""
    script = "import os; os.write(2, open('/proc/self/environ', 'rb').read())"
    command = python(script, environment={"A": "b"})
    end = await run(processes, command)
    return sorted(end.stderr.split(b"\0")) == sorted([b"", b"A=b", f"VMAFX_RUN_ID={command.run_id}".encode()])


# ---------------------------------------------------------------- the launchers


@pytest.mark.parametrize("launcher", LAUNCHERS)
@given(
    words=st.lists(st.binary(max_size=40).filter(lambda word: b"\0" not in word), max_size=5),
    environment=st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_characters="=\0"), min_size=1, max_size=8)
        | st.sampled_from(["PATH", "HOME", "IFS", "PS1", "OPTIND", "LC_ALL", "LC_CTYPE", "LANG"]),
        st.binary(max_size=20).filter(lambda value: b"\0" not in value).map(os.fsdecode),
        max_size=4,
    ),
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_words_and_environment_arrive_byte_for_byte(launcher, words, environment):
    heard = {3: Heard(), 4: Heard()}
    script = (
        "import os\n"
        "for number, name in ((3, 'cmdline'), (4, 'environ')):\n"
        "    os.write(number, open('/proc/self/' + name, 'rb').read())"
    )
    command = python(script, *map(os.fsdecode, words), environment=environment, listeners=dict(heard))
    end = asyncio.run(run(PosixProcesses(SystemClock(), launcher=launcher), command))
    assert end.status == 0
    assert heard[3].data.split(b"\0")[5:-1] == words
    assert sorted(heard[4].data.split(b"\0")[:-1]) == sorted(
        os.fsencode(f"{name}={value}")
        for name, value in {**environment, "VMAFX_RUN_ID": command.run_id}.items()
    )


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_descriptors_are_placed_exactly(data):
    sources = [os.memfd_create(f"source {number}") for number in range(4)]
    for number, source in enumerate(sources):
        os.write(source, b"%d" % number)
    numbers = st.sampled_from([*range(3, 9), *sources])
    places = data.draw(st.lists(numbers, min_size=4, max_size=5, unique=True))
    given_ones = dict(zip(places[1:], data.draw(st.permutations(sources)), strict=False))
    heard = Heard()
    command = python(
        "import os, sys\nfor n in sys.argv[2:]: os.write(int(sys.argv[1]), os.pread(int(n), 9, 0))",
        *map(str, places),
        descriptors=given_ones,
        listeners={places[0]: heard},
    )
    with nothing_left():
        end = asyncio.run(run(PosixProcesses(SystemClock(), launcher=Launcher.SHELL), command))
    assert end.status == 0, end
    assert heard.data == b"".join(b"%d" % sources.index(source) for source in given_ones.values())
    for source in sources:
        os.close(source)


@pytest.mark.parametrize("launcher", LAUNCHERS)
async def test_signals_are_as_a_program_expects_them(launcher):
    processes = PosixProcesses(SystemClock(), launcher=launcher)
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM})
    try:
        async with asyncio.timeout(GUARD_S), processes.running(program("/bin/sleep", "300")) as started:
            until(lambda: Path(f"/proc/{started.pid}/comm").read_text() == "sleep\n")
            status = Path(f"/proc/{started.pid}/status").read_text()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGUSR2, before)
    lines = dict(line.split(":\t", 1) for line in status.splitlines())
    of_libc = 1 << 31 | 1 << 32  # two signals that glibc keeps to itself
    assert [int(lines[name], 16) & ~of_libc for name in ("SigBlk", "SigIgn", "SigCgt")] == [0, 0, 0]


@pytest.mark.parametrize("launcher", LAUNCHERS)
async def test_program_that_exits_like_a_shell_was_started_all_the_same(launcher):
    processes = PosixProcesses(SystemClock(), launcher=launcher)
    end = await run(processes, shell("echo 'sh: 1: exec: /x: not found' >&2; exit 127"))
    assert end == Exit(status=127, stderr=b"sh: 1: exec: /x: not found\n")


NO_PROGRAMS = {
    "a folder": (lambda path: path.mkdir(), "a directory"),
    "a pipe": (os.mkfifo, "not a regular file"),
    "not executable": (lambda path: write(path, b"#!/bin/sh\n", 0o644), "Permission denied"),
    "empty": (lambda path: write(path, b""), "Exec format error"),
    "text": (lambda path: write(path, b"touch made-by-shell; exit 0\n"), "Exec format error"),
    "half a download": (lambda path: write(path, Path("/bin/true").read_bytes()[:200]), "Exec format error"),
    "of another machine": (lambda path: write(path, foreign()), "Exec format error"),
    "a script of nothing": (lambda path: write(path, b"#!\ntouch made-by-shell\n"), "Exec format error"),
    "a script of a missing program": (lambda path: write(path, b"#!/nowhere/sh\n"), "No such file"),
    "a script of a text": (lambda path: write(path, b"#!" + os.fsencode(text(path)) + b"\n"), "Exec format"),
    "a script of a folder": (lambda path: write(path, b"#!/tmp\n"), "Permission denied"),
}


def write(path: Path, content: bytes, mode: int = 0o755) -> None:
    path.write_bytes(content)
    path.chmod(mode)


def text(path: Path) -> Path:
    other = path.with_name("text")
    write(other, b"touch made-by-shell; exit 0\n")
    return other


def foreign() -> bytes:
    content = bytearray(Path("/bin/true").read_bytes())
    content[18:20] = b"\x16\x00"  # S390
    return bytes(content)


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("kind", NO_PROGRAMS)
async def test_what_is_no_program_is_never_run_by_a_shell(tmp_path, monkeypatch, launcher, kind):
    monkeypatch.chdir(tmp_path)
    make, reason = NO_PROGRAMS[kind]
    make(tmp_path / "vmaf")
    processes = PosixProcesses(SystemClock(), launcher=launcher)
    with (
        nothing_left(),
        pytest.raises(ScorerError, match=f".*{reason}") as caught,
    ):
        await run(processes, program(str(tmp_path / "vmaf")))
    assert caught.value.machine_fault
    assert str(tmp_path / "vmaf") in str(caught.value)
    assert not (tmp_path / "made-by-shell").exists()


async def test_program_that_vanishes_before_exec_is_told_from_one_that_ran(tmp_path, monkeypatch):
    path = tmp_path / "vmaf"
    shutil.copy("/bin/true", path)
    start = posix.spawn

    def spawn(*args):
        path.unlink()
        return start(*args)

    monkeypatch.setattr(posix, "spawn", spawn)
    processes = PosixProcesses(SystemClock(), launcher=Launcher.SHELL, stderr_bytes_max=1)
    with pytest.raises(ScorerError, match=r"/vmaf: not found") as caught:
        await run(processes, program(str(path)))
    assert caught.value.machine_fault


# ---------------------------------------------------------------- which launcher


async def test_shell_is_used_where_it_was_seen_to_work():
    processes = PosixProcesses(SystemClock())
    assert await runs(processes)
    assert processes._launcher is (Launcher.SHELL if find_tools(("/usr/bin", "/bin")) else Launcher.PYTHON)


TOOLS = {
    "no setpriv": {},
    "a setpriv without parent-death signal": {"setpriv": "echo 'unrecognized option: pdeathsig' >&2; exit 1"},
    "a setpriv that does nothing": {"setpriv": "exit 0"},
    "a setpriv that says more": {"setpriv": 'echo careful >&2; shift 2; exec "$@"'},
    "a setpriv that hangs": {"setpriv": "exec sleep 300"},
    "a shell that sets variables": {"setpriv": 'shift 2; exec "$@"', "sh": 'export A=1; exec /bin/sh "$@"'},
    "a shell that sets what is missing": {
        "setpriv": 'shift 2; exec "$@"',
        "sh": 'PATH=${PATH-/bin}; export PATH; exec /bin/sh "$@"',
    },
    "a shell that is none": {"setpriv": 'shift 2; exec "$@"', "sh": "exit 0"},
}


@pytest.mark.parametrize("tools", TOOLS.values(), ids=TOOLS)
async def test_machine_without_a_shell_that_will_do_uses_our_script(tmp_path, tools):
    for name, script in tools.items():
        write(tmp_path / name, f"#!/bin/sh\n{script}\n".encode())
    if "sh" not in tools:
        (tmp_path / "sh").symlink_to("/bin/sh")
    processes = PosixProcesses(HastyClock(), tool_folders=(str(tmp_path),))
    with nothing_left():
        assert await runs(processes)
        assert processes._launcher is Launcher.PYTHON


class HastyClock(SystemClock):
    @asynccontextmanager
    async def timeout(self, seconds):
        async with asyncio.timeout(min(seconds, 1.0)):
            yield


async def test_short_supply_at_the_first_run_does_not_decide_the_launcher():
    processes = PosixProcesses(SystemClock())
    with few_descriptors(0), pytest.raises(ScorerError, match="Too many open files"):
        await run(processes, program("/bin/true"))
    assert processes._launcher is None
    assert (await run(processes, program("/bin/true"))).status == 0


# ---------------------------------------------------------------- what this process lacks or breaks


@contextmanager
def few_descriptors(more: int):
    """Leave this process `more` descriptors."""
    probe = os.dup(0)
    os.close(probe)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@PIDFDS
async def test_short_of_descriptors_nothing_is_left_behind(pidfds):
    processes = PosixProcesses(SystemClock(), launcher=Launcher.SHELL, pidfds=pidfds)
    outcomes = []
    for more in range(18):
        command = shell("sleep 300 & exit 9", listeners={3: print, 5: print}, descriptors={7: 0, 4: 1})
        with nothing_left():
            try:
                with few_descriptors(more):
                    outcomes.append((await run(processes, command)).status)
            except ScorerError as error:
                outcomes.append(str(error) if error.machine_fault else None)
        for pid in alive(command.run_id):  # those that one could not look for
            os.kill(pid, signal.SIGKILL)
    assert outcomes[0] == '"/bin/sh": Too many open files'
    assert outcomes[-1] == 9


async def test_descriptor_above_the_limit_is_no_hindrance():
    number = fcntl.fcntl(0, fcntl.F_DUPFD, 400)
    processes = PosixProcesses(SystemClock(), launcher=Launcher.SHELL)
    with few_descriptors(100):
        assert (await run(processes, program("/bin/true"))).status == 0
    os.close(number)


async def test_short_of_descriptors_and_threads_nothing_is_left_behind(monkeypatch):
    def start(_self):
        raise RuntimeError("can't start new thread")

    processes = PosixProcesses(SystemClock(), launcher=Launcher.SHELL, pidfds=False)
    monkeypatch.setattr(threading.Thread, "start", start)
    command = program("/bin/sleep", "300")
    with nothing_left(), pytest.raises(ScorerError, match="no thread to wait for it"):
        await run(processes, command)
    assert alive(command.run_id) == []


async def test_short_of_threads_the_sweep_is_made_at_once(monkeypatch):
    def start(_self):
        raise RuntimeError("can't start new thread")

    processes = PosixProcesses(SystemClock(), launcher=Launcher.SHELL)
    monkeypatch.setattr(threading.Thread, "start", start)
    command = shell("sleep 300 & exit 3")
    with nothing_left():
        assert (await run(processes, command)).status == 3
    assert alive(command.run_id) == []


async def test_short_of_watches_nothing_is_left_behind(monkeypatch):
    def add_reader(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    loop = asyncio.get_running_loop()
    processes = PosixProcesses(SystemClock(), launcher=Launcher.SHELL)
    command = shell("sleep 300 & sleep 300")
    with nothing_left(), monkeypatch.context() as patch:
        patch.setattr(loop, "add_reader", add_reader)
        with pytest.raises(ScorerError, match="No space left") as caught:
            await run(processes, command)
    assert caught.value.machine_fault
    assert alive(command.run_id) == []


@contextmanager
def sigchld_ignored():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before)


async def test_process_that_ignores_sigchld_is_told_so():
    processes = PosixProcesses(SystemClock())
    with (
        nothing_left(),
        sigchld_ignored(),
        pytest.raises(ScorerError, match="this process ignores SIGCHLD") as caught,
    ):
        await run(processes, program("/bin/true"))
    assert caught.value.machine_fault


@PIDFDS
async def test_sigchld_ignored_during_a_run_is_told(pidfds):
    processes = PosixProcesses(SystemClock(), launcher=Launcher.SHELL, pidfds=pidfds)
    command = shell("echo words >&2; sleep 300 & sleep 0.05")
    with nothing_left(), sigchld_ignored_later():
        async with asyncio.timeout(GUARD_S), processes.running(command) as started:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            with pytest.raises(ScorerError, match="exit status was taken") as caught:
                await started.wait()
    assert caught.value.machine_fault
    assert caught.value.stderr == r"words\n"
    assert alive(command.run_id) == []


@contextmanager
def sigchld_ignored_later():
    before = signal.getsignal(signal.SIGCHLD)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before)


async def test_status_taken_by_another_is_never_guessed(monkeypatch):
    runs = []
    sweep = child.sweep

    def listen(run, *, pidfds):
        runs.append(run)
        return sweep(run, pidfds=pidfds)

    monkeypatch.setattr(child, "sweep", listen)
    processes = PosixProcesses(SystemClock(), launcher=Launcher.SHELL)
    command = shell("sleep 300 & exit 0")
    with nothing_left():
        async with asyncio.timeout(GUARD_S), processes.running(command) as started:
            os.waitpid(started.pid, 0)
            with pytest.raises(ScorerError, match="exit status was taken"):
                await started.wait()
    assert alive(command.run_id) == []
    assert [run.leader for run in runs] == [None], "the number may be another's by now"


async def test_status_taken_beside_a_waiting_thread_is_right_or_refused():
    processes = PosixProcesses(SystemClock(), launcher=Launcher.SHELL, pidfds=False)
    with nothing_left():
        async with asyncio.timeout(GUARD_S), processes.running(shell("exit 6")) as started:
            os.waitpid(started.pid, 0)
            (outcome,) = await asyncio.gather(started.wait(), return_exceptions=True)
    assert outcome == Exit(status=6) or "exit status was taken" in str(outcome)


async def test_without_a_pidfd_left_a_thread_waits(monkeypatch):
    def pidfd_open(_pid):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", pidfd_open)
    processes = PosixProcesses(SystemClock(), launcher=Launcher.SHELL)
    command = shell("setsid sleep 300 & exit 6")
    with nothing_left():
        assert (await run(processes, command)).status == 6
    assert alive(command.run_id) == []


async def test_without_waitid_and_without_a_search_the_group_is_killed_all_the_same(monkeypatch):
    monkeypatch.delattr(os, "waitid")
    monkeypatch.setattr(child, "sweep", lambda _run, *, pidfds: Swept())
    processes = PosixProcesses(SystemClock(), launcher=Launcher.SHELL, pidfds=False)
    with nothing_left():
        command = shell("sleep 300 & exit 9")
        assert (await run(processes, command)).status == 9
        until(lambda: alive(command.run_id) == [])
        assert (await run(processes, shell("kill -SEGV $$"))).status == -signal.SIGSEGV
        command = shell("sleep 300 & sleep 300")
        async with asyncio.timeout(GUARD_S), processes.running(command):
            pass
        until(lambda: alive(command.run_id) == [])


@PIDFDS
async def test_process_that_cannot_be_killed_is_left_to_be_reaped_later(monkeypatch, caplog, pidfds):
    monkeypatch.setattr(child, "kill_group", lambda _pid, _watch: None)
    monkeypatch.setattr(child, "KILL_WAIT_S", 0.01)
    processes = PosixProcesses(SystemClock(), launcher=Launcher.SHELL, pidfds=pidfds)
    before = children(), descriptors()
    async with asyncio.timeout(GUARD_S):
        async with processes.running(program("/bin/sleep", "300")) as started:
            pass
        assert [record.getMessage() for record in caplog.records] == ["killed process does not end"]
        assert not gone(started.pid)
        with pytest.raises(ScorerError, match="was killed and does not end"):
            await started.wait()
        os.kill(started.pid, signal.SIGKILL)
        while state(started.pid):
            await asyncio.sleep(0.001)
    assert (children(), descriptors()) == before


async def test_listener_that_breaks_its_word_holds_nothing_up():
    def listen(_data: bytes) -> None:
        raise KeyError("broken")

    problems = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context["exception"]))
    processes = PosixProcesses(SystemClock(), launcher=Launcher.SHELL)
    with nothing_left():
        end = await run(processes, shell("echo a >&3; echo b >&2; exit 5", listeners={3: listen}))
    assert (end.status, end.stderr) == (5, b"b\n")
    assert isinstance(problems[0], KeyError)


async def test_kept_stderr_is_as_long_as_asked_for():
    for bytes_max in (0, 1, 100, 20_000):
        processes = PosixProcesses(SystemClock(), launcher=Launcher.SHELL, stderr_bytes_max=bytes_max)
        end = await run(processes, python("import os; os.write(2, bytes(200) * 200)"))
        assert end.stderr == bytes(bytes_max)


def test_loop_that_ends_all_its_tasks_leaves_nothing():
    command = shell("sleep 300 & sleep 300")

    async def main() -> None:
        processes = PosixProcesses(SystemClock(), launcher=Launcher.SHELL)
        started = asyncio.Event()

        async def forgotten() -> None:
            async with processes.running(command) as process:
                started.set()
                await process.wait()

        tasks.append(asyncio.create_task(forgotten()))
        await started.wait()

    tasks: list[asyncio.Task[None]] = []
    with nothing_left():
        asyncio.run(main())
    assert tasks[0].cancelled()
    assert alive(command.run_id) == []


def test_other_platforms_are_refused_in_one_line():
    script = """
import asyncio, logging, os, pathlib, shutil, sys, typing, unicodedata
from vmafx.adapters.clock.system import SystemClock
from vmafx.domain.errors import ConfigurationError
for name in ("fcntl", "termios", "resource"):
    sys.modules[name] = None
sys.platform, os.name = "win32", "nt"
from vmafx.adapters.processes import PosixProcesses
try:
    PosixProcesses(SystemClock())
except ConfigurationError as error:
    print(error)
"""
    shown = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=GUARD_S
    )
    assert (
        shown.stdout == f"{ConfigurationError('platform', 'win32 is not supported: Linux and macOS are')}\n"
    )
