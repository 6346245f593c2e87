"""The contract of the port Processes (ADR 0007)."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable

import pytest

from tests.children import (
    GUARD_S,
    Heard,
    alive,
    children,
    gone,
    nothing_left,
    program,
    python,
    run_id,
    shell,
)
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.processes import Launcher, PosixProcesses
from vmafx.domain.errors import ScorerError
from vmafx.domain.process import Command, Exit
from vmafx.ports.processes import Processes

MAKERS: dict[str, Callable[[], Processes]] = {
    "posix": lambda: PosixProcesses(SystemClock()),
    "posix by python and without pidfds": lambda: PosixProcesses(
        SystemClock(), launcher=Launcher.PYTHON, pidfds=False
    ),
}


@pytest.fixture(params=MAKERS)
def processes(request):
    return MAKERS[request.param]()


@pytest.fixture(autouse=True)
def _nothing_is_left(processes):
    before = children()
    yield
    assert children() == before


async def run(processes: Processes, command: Command) -> Exit:
    async with asyncio.timeout(GUARD_S), processes.running(command) as child:
        return await child.wait()


# ---------------------------------------------------------------- how it ends


@pytest.mark.parametrize("status", [0, 1, 2, 125, 126, 127, 255])
async def test_exit_status_is_told(processes, status):
    assert (await run(processes, shell(f"exit {status}"))).status == status


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGSEGV, "signal: segmentation fault (SIGSEGV)"),
        (signal.SIGABRT, "signal: aborted (SIGABRT)"),
        (signal.SIGKILL, "signal: killed (SIGKILL)"),
        (signal.SIGTERM, "signal: terminated (SIGTERM)"),
        (signal.SIGUSR1, "signal: SIGUSR1"),
        (signal.SIGRTMIN + 1, f"signal {signal.SIGRTMIN + 1}"),
    ],
)
async def test_signal_is_told_by_name(processes, number, words):
    end = await run(processes, python("import os, sys; os.kill(os.getpid(), int(sys.argv[1]))", str(number)))
    assert (end.status, end.words) == (-number, words)


async def test_wait_may_be_called_again_and_by_many(processes):
    async with asyncio.timeout(GUARD_S), processes.running(shell("exit 7")) as child:
        ends = await asyncio.gather(child.wait(), child.wait())
        assert [end.status for end in [*ends, await child.wait()]] == [7, 7, 7]
    assert (await child.wait()).status == 7


async def test_cancelled_wait_leaves_the_process_running(processes):
    async with asyncio.timeout(GUARD_S), processes.running(shell("sleep 300")) as child:
        waiting = asyncio.create_task(child.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not gone(child.pid)
    assert gone(child.pid)
    assert (await child.wait()).status == -signal.SIGKILL


async def test_pid_is_that_of_the_program(processes):
    heard = Heard()
    command = python("import os; os.write(3, b'%d %d' % (os.getpid(), os.getppid()))", listeners={3: heard})
    async with asyncio.timeout(GUARD_S), processes.running(command) as child:
        await child.wait()
        assert heard.data == b"%d %d" % (child.pid, os.getpid())


async def test_pid_is_kept_until_the_context_ends(processes):
    async with asyncio.timeout(GUARD_S), processes.running(shell("exit 0")) as child:
        await child.wait()
        assert child.pid in children()
    assert child.pid not in children()


# ---------------------------------------------------------------- what it says


async def test_last_bytes_of_a_flood_of_stderr_are_kept(processes):
    counted = 0

    def count(data: bytes) -> None:
        nonlocal counted
        counted += len(data)

    end = await run(processes, shell("head -c 50000000 /dev/zero >&2; printf last >&2", listeners={2: count}))
    assert counted == 50_000_004
    assert end.stderr == bytes(8188) + b"last"


async def test_stderr_without_newlines_is_heard(processes):
    script = "import os\nfor n in range(8000): os.write(2, b'\\r%06d frames %s' % (n, b'0' * 36))"
    end = await run(processes, python(script))
    assert end.status == 0
    assert end.stderr.endswith(b"\r007999 frames " + b"0" * 36)
    assert len(end.stderr) == 8192


async def test_stderr_that_is_no_text_is_kept_as_it_is(processes):
    end = await run(processes, python("import os; os.write(2, bytes(range(256)))"))
    assert end.stderr == bytes(range(256))


async def test_everything_written_before_the_end_is_heard(processes):
    heard = {number: Heard() for number in (2, 3, 9)}
    script = "import os\nfor n in (2, 3, 9): os.write(n, bytes([n]) * 60000)"
    await run(processes, python(script, listeners=dict(heard)))
    assert {number: listener.data for number, listener in heard.items()} == {
        number: bytes([number]) * 60000 for number in heard
    }


async def test_listeners_hear_while_it_runs(processes):
    first = asyncio.Event()
    gate, key = os.pipe()
    command = shell(
        "echo one >&4; read line <&3; echo $line >&4",
        descriptors={3: gate},
        listeners={4: lambda _: first.set()},
    )
    async with asyncio.timeout(GUARD_S), processes.running(command) as child:
        await first.wait()
        os.write(key, b"two\n")
        assert (await child.wait()).status == 0
    os.close(gate)
    os.close(key)


# ---------------------------------------------------------------- what it is given


async def test_standard_input_and_output_are_the_null_device(processes):
    script = (
        "import os\n"
        "links = [os.readlink(b'/proc/self/fd/%d' % n) for n in (0, 1)]\n"
        "os.write(1, b'x'); os.write(3, os.read(0, 1) + b'|'.join(links))"
    )
    heard = Heard()
    await run(processes, python(script, listeners={3: heard}))
    assert heard.data == b"/dev/null|/dev/null"


async def test_environment_is_what_was_given_and_the_run(processes):
    given = {"A": "1", "PWD": "/nowhere", "with space": "x y", "LC_CTYPE": "C", "LÄNGE": "\udcff", "_": "u"}
    command = python("import os; os.write(3, open('/proc/self/environ', 'rb').read())", environment=given)
    for environment in (given, {}, {"LC_ALL": "C"}, {"VMAFX_RUN_ID": "another"}):
        heard = Heard()
        command = python(
            "import os; os.write(3, open('/proc/self/environ', 'rb').read())",
            environment=environment,
            listeners={3: heard},
        )
        await run(processes, command)
        expected = {**environment, "VMAFX_RUN_ID": command.run_id}
        assert sorted(heard.data.split(b"\0")[:-1]) == sorted(
            os.fsencode(f"{name}={value}") for name, value in expected.items()
        )


async def test_descriptors_are_those_named_and_no_others(processes):
    ours = os.memfd_create("ours", 0)  # inherited by a plain exec
    given = os.memfd_create("given")
    heard = Heard()
    script = (
        "import os, json\n"
        "names = [n for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n)]\n"
        "os.write(7, json.dumps([[int(n), os.readlink('/proc/self/fd/' + n)] for n in names]).encode())"
    )
    await run(processes, python(script, descriptors={5: given}, listeners={7: heard}))
    os.close(ours)
    os.close(given)
    found = dict(json.loads(heard.data))
    assert sorted(found) == [0, 1, 2, 5, 7]
    assert found[5].startswith("/memfd:given")


@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::5])
async def test_descriptors_never_cover_each_other(processes, order):
    sources = [os.memfd_create(str(number)) for number in order]
    for number, source in zip(order, sources, strict=True):
        os.write(source, b"%d" % number)
    heard = Heard()
    command = python(
        "import os, sys\nfor n in sys.argv[1:]: os.write(3, os.pread(int(n), 9, 0))",
        *map(str, sources),
        descriptors={sources[place]: source for place, source in zip(order, sources, strict=True)},
        listeners={3: heard},
    )
    await run(processes, command)
    for source in sources:
        os.close(source)
    assert heard.data == b"0123"


async def test_descriptors_of_ours_stay_open_and_ours(processes):
    memory = os.memfd_create("kept")
    await run(processes, shell("echo written >&3", descriptors={3: memory}))
    assert os.pread(memory, 100, 0) == b"written\n"
    assert not os.get_inheritable(memory)
    os.close(memory)


async def test_file_limit_ends_what_writes_more(processes, tmp_path):
    script = f"exec head -c 100000 /dev/zero > '{tmp_path}/big'"
    end = await run(processes, shell(script, file_bytes_max=10_240))
    assert (end.status, end.words) == (-signal.SIGXFSZ, "signal: file size limit exceeded (SIGXFSZ)")
    assert (tmp_path / "big").stat().st_size == 10_240


async def test_file_limit_holds_for_files_in_memory(processes):
    memory = os.memfd_create("report")
    end = await run(
        processes, shell("exec head -c 100000 /dev/zero >&3", descriptors={3: memory}, file_bytes_max=10_240)
    )
    assert end.status == -signal.SIGXFSZ
    assert os.fstat(memory).st_size == 10_240
    os.close(memory)


async def test_no_core_file_may_be_left(processes):
    heard = Heard()
    script = (
        "import os, resource as r\n"
        "limits = [r.getrlimit(r.RLIMIT_CORE), r.getrlimit(r.RLIMIT_FSIZE)]\n"
        "os.write(3, repr(limits).encode())"
    )
    await run(processes, program(sys.executable, "-I", "-c", script, listeners={3: heard}))
    assert heard.data == b"[(0, 0), (-1, -1)]"


# ---------------------------------------------------------------- leaving


async def test_leaving_kills_a_process_that_is_not_waited_for(processes):
    command = shell("sleep 300 & sleep 300")
    with nothing_left():
        async with asyncio.timeout(GUARD_S), processes.running(command) as child:
            pass
        assert alive(command.run_id) == []
    assert (await child.wait()).status == -signal.SIGKILL


async def test_exception_of_the_body_passes_and_kills(processes):
    command = shell("sleep 300")
    with pytest.raises(KeyError, match="mine"):
        async with asyncio.timeout(GUARD_S), processes.running(command):
            raise KeyError("mine")
    assert alive(command.run_id) == []


async def test_process_that_ignores_signals_is_killed(processes):
    ready = asyncio.Event()
    command = shell(
        "trap '' TERM INT HUP QUIT; echo >&3; sleep 300 & wait; sleep 300",
        listeners={3: lambda _: ready.set()},
    )
    async with asyncio.timeout(GUARD_S), processes.running(command):
        await ready.wait()
    assert alive(command.run_id) == []


async def test_grandchild_that_holds_the_pipes_delays_nothing_and_is_killed(processes):
    command = shell("sleep 300 & echo done >&2; exit 3", listeners={3: lambda _: None})
    async with asyncio.timeout(GUARD_S), processes.running(command) as child:
        end = await child.wait()
        assert (end.status, end.stderr) == (3, b"done\n")
        while not alive(command.run_id):  # in the middle of its exec it shows no environment
            await asyncio.sleep(0.01)
    assert alive(command.run_id) == []


async def test_grandchild_that_floods_the_pipes_delays_nothing_and_is_killed(processes):
    command = shell("yes >&2 & exit 4")
    assert (await run(processes, command)).status == 4
    assert alive(command.run_id) == []


DETACHED = """
import os, sys, time
if os.fork() == 0:
    {how}
    os.write(3, b'%d' % os.getpid())
    os.closerange(0, 1000)
    time.sleep(300)
while sys.argv[1:]:
    time.sleep(300)
"""


@pytest.mark.parametrize("stays", ["", "stays"])
@pytest.mark.parametrize(
    "how",
    {
        "in a session of its own": "os.setsid()",
        "twice removed": "os.setsid(); os.fork() and os._exit(0)",
        "in a group of its own, without environment": (
            "os.setpgid(0, 0); os.execve('/bin/sh', ['sh', '-c', 'echo $$ >&3; exec sleep 300 3>&-'], {})"
        ),
    }.items(),
    ids=lambda how: how[0],
)
async def test_grandchild_that_left_the_group_is_killed(processes, how, stays):
    pid = asyncio.get_running_loop().create_future()
    command = python(
        DETACHED.format(how=how[1]), *stays.split(), listeners={3: lambda data: pid.set_result(int(data))}
    )
    async with asyncio.timeout(GUARD_S), processes.running(command) as child:
        stray = await pid
        assert not gone(stray)
        assert stays or (await child.wait()).status == 0
    assert gone(stray)
    assert alive(command.run_id) == []


FORKS = """
import os, time
for _ in range(50):
    if os.fork() == 0:
        os.write(3, b'.')
        while True:
            {how}
time.sleep(300)
"""


@pytest.mark.parametrize(
    "how",
    [
        "pid = os.fork(); pid or os._exit(0); os.waitpid(pid, 0)",
        "os.fork() and os._exit(0)",
    ],
    ids=["and wait", "and leave"],
)
async def test_processes_that_keep_forking_are_killed(processes, how):
    heard = Heard()
    started = asyncio.Event()

    def listen(data: bytes) -> None:
        heard(data)
        if len(heard.data) == 50:
            started.set()

    command = python(FORKS.format(how=how), listeners={3: listen})
    async with asyncio.timeout(GUARD_S), processes.running(command):
        await started.wait()
    assert alive(command.run_id) == []


async def test_other_processes_are_left_alone(processes):
    run = run_id()
    bystanders = []
    async with asyncio.timeout(GUARD_S), processes.running(shell("sleep 300 & sleep 300", run=run)):
        for name in (run + "0", run[:-1], "", "x" + run):
            environment = {"VMAFX_RUN_ID": name, "OTHER": f"VMAFX_RUN_ID={run}"}
            bystanders.append(os.posix_spawn("/bin/sleep", ["sleep", "300"], environment, setsid=True))
    assert not any(gone(pid) for pid in bystanders)
    for pid in bystanders:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


async def test_runs_side_by_side_do_not_disturb_each_other(processes):
    commands = [shell(f"sleep 0.0{n % 5}; echo {n} >&2; exit {n}") for n in range(20)]
    ends = await asyncio.gather(*(run(processes, command) for command in commands))
    assert [(end.status, end.stderr) for end in ends] == [(n, b"%d\n" % n) for n in range(20)]


async def test_many_runs_leave_no_descriptor(processes, request):
    await run(processes, shell("exit 0"))
    with nothing_left():
        for _ in range(50 if "python" in request.node.name else 200):
            await run(processes, program("/bin/true", listeners={3: lambda _: None}))


# ---------------------------------------------------------------- cancelling


async def sleeper(processes: Processes, command: Command) -> None:
    async with processes.running(command) as child:
        await child.wait()


@pytest.mark.parametrize(
    ("first", "again"),
    [(True, False), (False, False), (False, True)],
    ids=["in the first run", "in a later run", "again and again"],
)
async def test_cancellation_at_any_step_leaves_nothing(processes, first, again):
    if not first:
        await run(processes, program("/bin/true"))
    for steps in range(40):
        command = shell("sleep 300 & sleep 300")
        with nothing_left():
            async with asyncio.timeout(GUARD_S):
                task = asyncio.create_task(sleeper(processes, command))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                while again and not task.done():
                    await asyncio.sleep(0)
                    task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
        assert alive(command.run_id) == []


async def test_cancellation_in_the_first_millisecond_leaves_nothing(processes):
    await run(processes, program("/bin/true"))
    runs = []
    with nothing_left():
        for number in range(100):
            command = program("/bin/sleep", "300")
            runs.append(command.run_id)
            started = asyncio.Event()

            async def go(command=command, started=started):
                async with processes.running(command) as child:
                    started.set()
                    await child.wait()

            task = asyncio.create_task(go())
            await started.wait()
            asyncio.get_running_loop().call_later(number * 1e-5, task.cancel)
            with pytest.raises(asyncio.CancelledError):
                await task
    assert [run for run in runs if alive(run)] == []


async def test_cancellation_while_leaving_takes_effect_once_nothing_is_left(processes):
    command = shell("sleep 300 & sleep 300")
    leaving = asyncio.Event()
    passed = False

    async def go():
        nonlocal passed
        async with processes.running(command):
            leaving.set()
        passed = True

    async with asyncio.timeout(GUARD_S):
        task = asyncio.create_task(go())
        await leaving.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not passed
    assert alive(command.run_id) == []


async def test_limit_on_time_ends_as_a_timeout(processes):
    command = shell("sleep 300")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05), processes.running(command) as child:
            await child.wait()
    assert alive(command.run_id) == []


# ---------------------------------------------------------------- not starting


async def test_program_that_is_not_there_cannot_be_started(processes):
    with (
        nothing_left(),
        pytest.raises(ScorerError, match=r'^"/nowhere/vmaf": No such file') as caught,
    ):
        async with processes.running(program("/nowhere/vmaf")):
            pytest.fail("it was entered")
    assert caught.value.machine_fault


NO_COMMANDS = {
    "no program": (program(), "no program: not an absolute path"),
    "no absolute path": (program("vmaf"), '"vmaf": not an absolute path'),
    "a zero byte": (program("/bin/true", "\0"), "null (byte|character)"),
    "a zero byte in the name": (program("/bin/true\0"), "null (byte|character)"),
    "no text": (program("/bin/true", "\ud800"), "surrogates not allowed"),
    "too long an argument": (program("/bin/true", "x" * 200_000), '"/bin/true": Argument list too long'),
    "too long a variable": (program("/bin/true", environment={"A": "x" * 200_000}), "Argument list too long"),
    "no name of a variable": (program("/bin/true", environment={"A=B": "x"}), "illegal environment variable"),
    "standard error given away": (program("/bin/true", descriptors={2: 0}), "numbers of the child are 3 or"),
    "a closed descriptor": (program("/bin/true", descriptors={3: 9999}), "Bad file descriptor"),
    "no descriptor": (program("/bin/true", descriptors={3: -1}), "negative"),
    "too large a number": (program("/bin/true", descriptors={1_000_000_000: 0}), "Invalid argument"),
    "far too large a number": (program("/bin/true", descriptors={1 << 70: 0}), "too large|greater than max"),
    "one number twice": (program("/bin/true", descriptors={3: 0}, listeners={3: print}), "each once"),
    "a listener to standard input": (
        program("/bin/true", listeners={0: print}),
        "numbers of the child are 3",
    ),
    "no run id": (program("/bin/true", run="a b"), 'run id "a b"'),
}


@pytest.mark.parametrize(("command", "reason"), NO_COMMANDS.values(), ids=NO_COMMANDS)
async def test_what_is_no_command_cannot_be_started(processes, command, reason):
    await run(processes, program("/bin/true"))
    with nothing_left(), pytest.raises(ScorerError, match=reason) as caught:
        async with processes.running(command):
            pytest.fail("it was entered")
    assert caught.value.machine_fault
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 2000
