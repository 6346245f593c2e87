"""Where answers and messages go: pipes, terminals, closed and full descriptors."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios

import pytest

from tests.e2e.program import HANG_S, VMAFX
from vmafx import __version__

SCORE = ("score", "ref.y4m", "dis.y4m")


@pytest.fixture(autouse=True)
def _scorer(fake):
    """A scorer that tells how far it is."""


def on_terminal(program, *arguments, columns=80, env=None, **streams):
    """Run with the streams named `True` on a terminal; returns the exit code, and what the terminal saw."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    given = {name: theirs if value is True else value for name, value in streams.items()}
    process = program.start(*arguments, env={"TERM": "xterm", **(env or {})}, **given)
    os.close(theirs)
    seen = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # the last process that had the terminal is gone
            break
        seen += data
    out, err = process.communicate(timeout=HANG_S)
    os.close(ours)
    return process.returncode, seen.decode(), out or "", err or ""


def test_a_terminal_sees_a_bar_and_a_pipe_gets_the_answer_only(program):
    code, seen, out, _ = on_terminal(program, *SCORE, stderr=True)
    assert code == 0
    assert "scoring" in seen
    assert "6/6" in seen
    assert out.startswith("VMAF ")
    assert "\x1b" not in out


def test_nothing_but_a_terminal_sees_a_bar(program):
    done = program.run(*SCORE, env={"TERM": "xterm"})
    assert done.returncode == 0
    assert not done.stderr


def test_a_dumb_terminal_sees_no_bar(program):
    code, seen, _, _ = on_terminal(program, *SCORE, stderr=True, env={"TERM": "dumb"})
    assert code == 0
    assert not seen


@pytest.mark.parametrize("columns", [1, 5, 12, 20, 40, 200])
def test_the_table_fits_the_terminal(program, columns):
    code, seen, _, _ = on_terminal(program, *SCORE, "--frames", "--features", columns=columns, stdout=True)
    assert code == 0
    lines = seen.replace("\r\n", "\n").splitlines()
    assert max(map(len, lines)) <= max(columns, 2)
    assert "".join(seen.split()).startswith("VMAF90.350000")


def test_help_fits_the_terminal(program):
    code, seen, _, _ = on_terminal(program, "score", "--help", columns=60, stdout=True)
    assert code == 0
    assert max(map(len, seen.replace("\r\n", "\n").splitlines())) <= 60


@pytest.mark.parametrize(
    "arguments", [SCORE, ("--help",), ("--version",), ("completion", "bash"), ("doctor",)], ids=lambda a: a[0]
)
def test_a_full_disk_is_an_error(program, arguments):
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123
        done = program.run(*arguments, stdout=full)
    assert done.returncode == 1
    assert done.stderr == "vmafx: cannot write the answer: No space left on device\n"


@pytest.mark.parametrize("arguments", [SCORE, ("--help",), ("doctor", "--json")], ids=lambda a: a[0])
def test_a_closed_standard_output_is_an_error(program, fake, arguments):
    done = shell(program, f'exec "$0" {" ".join(arguments)} >&-')
    assert done.returncode == 1
    assert done.stderr == "vmafx: standard output is closed: there is nowhere to write the answer\n"
    assert fake.runs() == []  # refused before any work


def test_closed_standard_input_and_error_change_nothing(program):
    done = shell(program, 'exec "$0" score ref.y4m dis.y4m <&- 2>&-')
    assert done.returncode == 0
    assert done.stdout.startswith("VMAF ")


def test_all_descriptors_closed_is_no_crash(program):
    done = shell(program, 'exec "$0" score ref.y4m dis.y4m <&- >&- 2>&-')
    assert done.returncode == 1
    assert not done.stdout + done.stderr


def test_a_reader_that_is_gone_is_no_traceback(program):
    ours, theirs = os.pipe()
    os.close(ours)
    done = program.run(*SCORE, "--json", stdout=theirs)
    os.close(theirs)
    assert done.returncode == 1
    assert not done.stderr


def shell(program, script):
    return subprocess.run(
        ["sh", "-c", script, str(VMAFX)],
        cwd=program.folder,
        env=program.environment,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_name_is_written_in_every_encoding(program, encoding):
    program.write("\u52d5\u753b.y4m", (program.folder / "dis.y4m").read_bytes())
    done = program.run(
        "score", "ref.y4m", "\u52d5\u753b.y4m", env={"PYTHONIOENCODING": encoding}, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    assert ("\u52d5\u753b.y4m" if encoding == "utf-8" else r"\u52d5\u753b.y4m") in done.stdout


def test_version_is_told(program):
    for flag in ("--version", "-V"):
        assert program.run(flag).stdout == f"vmafx {__version__}\n"


def test_help_tells_every_command(program):
    text = program.run("--help").stdout
    assert re.findall(r"^  (\w+)  ", text, re.MULTILINE) == [
        "completion",
        "controller",
        "doctor",
        "node",
        "score",
    ]


def complete(program, shell_name, words, index):
    environment = {
        "_VMAFX_COMPLETE": f"{shell_name}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": index if shell_name != "fish" else words.split(" ")[-1],
    }
    return program.run(env=environment).stdout


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_each_shell_completes_commands_and_options(program, name):
    assert "score" in complete(program, name, "vmafx sc", "1")
    assert "--subsample" in complete(program, name, "vmafx score --sub", "2")
    assert "file" in complete(program, name, "vmafx score re", "2")


def test_bash_completes_with_the_printed_script(program):
    script = (
        'eval "$("$0" completion bash)"; COMP_WORDS=(vmafx score --ba); COMP_CWORD=2; '
        '_vmafx_completion vmafx; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environment = program.environment | {"PATH": f"{VMAFX.parent}:/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-c", script, str(VMAFX)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_S,
    )
    assert done.stdout == "--backend\n"


def test_starting_loads_nothing_that_is_not_needed(program):
    heavy = "grpc google pydantic dependency_injector fsspec opentelemetry rclone_python rich tenacity"
    code = (
        "import sys; from vmafx.app.cli.main import run; import os\n"
        "code = run(sys.argv[1:], os.environ, platform='linux')\n"
        f"print(sorted(set('{heavy}'.split()) & set(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    for arguments in (["--version"], ["--help"], ["completion", "bash"], list(SCORE)):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=program.folder,
            env=program.environment,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )
        assert done.returncode == 0
        assert done.stderr == "[]\n"
