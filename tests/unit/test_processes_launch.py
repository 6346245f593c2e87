"""What is really started: pure parts of the launchers (ADR 0007)."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.children import program
from vmafx.adapters.processes.launch import (
    Tools,
    complaint,
    environment,
    find_tools,
    launch,
    passes_shell,
    plainly_native,
    probe,
    probe_passed,
)

TOOLS = Tools(setpriv="/usr/bin/setpriv", shell="/bin/sh")
MARK = "vmafx-start-abc"


def test_words_of_the_command_are_only_ever_arguments():
    words = ("/opt/a b/vmaf", "$(touch x)", "-c", "; rm", "--pdeathsig", "")
    by_shell = launch(program(*words, run="abc"), TOOLS)
    assert by_shell.argv[-len(words) :] == words
    assert by_shell.argv[:5] == (MARK, "--pdeathsig", "KILL", "/bin/sh", "-c")
    assert by_shell.argv[6:9] == (MARK, str(os.getpid()), "-")
    assert not [word for word in words if word and word in by_shell.argv[5]][1:]
    by_python = launch(program(*words, run="abc"), None)
    assert by_python.argv[-len(words) :] == words
    assert by_python.argv[:5] == (sys.executable, "-I", "-S", "-X", "utf8=1")
    assert by_python.argv[6:10] == (MARK, str(os.getpid()), "-", "-")


def test_environment_is_the_commands_and_the_run():
    command = program("/x", run="abc", environment={"A": "1", "VMAFX_RUN_ID": "of another"})
    assert environment(command) == {"A": "1", "VMAFX_RUN_ID": "abc"}


@pytest.mark.parametrize(("limit", "blocks"), [(0, "0"), (1, "1"), (512, "1"), (513, "2"), (None, "-")])
def test_file_limit_is_rounded_up_to_the_blocks_of_the_shell(limit, blocks):
    command = program("/x", file_bytes_max=limit)
    assert launch(command, TOOLS).argv[8] == blocks
    assert launch(command, None).argv[8] == ("-" if limit is None else str(limit))


def test_file_limit_is_never_above_the_hard_limit(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 1024))
    command = program("/x", file_bytes_max=10_000)
    assert launch(command, TOOLS).argv[8] == "2"
    assert launch(command, None).argv[8] == "1024"


def test_launcher_of_ours_needs_a_python(monkeypatch):
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(OSError, match="nor a Python"):
        launch(program("/x"), None)


# ---------------------------------------------------------------- complaints


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        (b"vmafx-start-abc: 1: exec: /x: not found\n", "/x: not found"),
        (b"vmafx-start-abc: line 1: exec: /x: not found\n", "/x: not found"),
        (b"vmafx-start-abc: exec: line 0: /x: not found\n", "/x: not found"),
        (b"vmafx-start-abc: failed to execute /bin/sh: gone\n", "failed to execute /bin/sh: gone"),
        (b"vmafx-start-abc: /x: Exec format error\n", "/x: Exec format error"),
        (b"ld.so: no such preload\nvmafx-start-abc: 1: exec: /\xff: bad\n", "/\udcff: bad"),
        (b"", None),
        (b"sh: 1: exec: /x: not found\n", None),
        (b"vmafx-start-abcd: 1: exec: /x: not found\n", None),
        (b"see vmafx-start-abc: x\n", None),
    ],
)
def test_complaint_is_told_by_the_name_it_is_made_under(stderr, reason):
    assert complaint(MARK, stderr) == reason


# ---------------------------------------------------------------- whether the shell's way will do


def test_probe_passes_with_exactly_its_environment():
    command = probe(TOOLS)
    told = [f"{name}={value}".encode() for name, value in environment(command).items()]
    assert probe_passed(command, 0, b"\0".join(told) + b"\0")
    assert probe_passed(command, 0, b"\0".join(reversed(told)) + b"\0")
    assert not probe_passed(command, 1, b"\0".join(told) + b"\0")
    assert not probe_passed(command, 0, b"\0".join([*told, b"SHLVL=0"]) + b"\0")
    assert not probe_passed(command, 0, b"\0".join(told[1:]) + b"\0")
    assert not probe_passed(command, 0, b"")


def test_tools_are_looked_for_in_the_given_folders_only(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir("/usr/bin")
    assert find_tools((str(tmp_path),)) is None
    for name in ("setpriv", "sh"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert find_tools((str(tmp_path),)) == Tools(
        setpriv=str(tmp_path / "setpriv"), shell=str(tmp_path / "sh")
    )
    (tmp_path / "setpriv").chmod(0o644)
    assert find_tools((str(tmp_path),)) is None


@pytest.mark.parametrize("name", ["A", "_A1", "LC_ALL", "PATH", "http_proxy"])
def test_plain_variables_pass_a_shell(name):
    assert passes_shell({name: "x", "B": "y"})


@pytest.mark.parametrize("name", ["PWD", "_", "IFS", "SHLVL", "a-b", "1A", "A.B", "Ä", "", "A\n"])
def test_odd_variables_and_those_of_the_shell_do_not(name):
    assert not passes_shell({"A": "x", name: "y"})


# ---------------------------------------------------------------- what the kernel runs for certain


def script(path: Path, line: bytes) -> str:
    path.write_bytes(line)
    path.chmod(0o755)
    return str(path)


def test_executables_of_this_machine_and_scripts_of_them_are_native(tmp_path):
    assert plainly_native("/bin/true")
    assert plainly_native(sys.executable)
    assert plainly_native(script(tmp_path / "a", b"#!/bin/sh\n"))
    assert plainly_native(script(tmp_path / "b", b"#! /bin/sh -e\nexit\n"))
    assert plainly_native(script(tmp_path / "c", b"#!" + bytes(tmp_path / "a") + b"\n"))


def changed(offset: int, value: bytes) -> bytes:
    content = Path("/bin/true").read_bytes()
    return content[:offset] + value + content[offset + len(value) :]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x7fELF",
        b"exit 0\n",
        b"#!\n",
        b"#! \n/bin/sh\n",
        b"#!/bin/sh",
        b"#!/" + b"x" * 300 + b"\n",
        b"#!/nowhere\n",
        b"#!/etc/passwd\n",
        Path("/bin/true").read_bytes()[:200],
        changed(4, b"\x01"),
        changed(18, b"\x16"),
        changed(16, b"\x01\x00"),
        changed(56, b"\x00\x00"),
    ],
    ids=[
        "nothing",
        "a magic number",
        "text",
        "no interpreter",
        "a blank interpreter",
        "no line",
        "too long a line",
        "a missing interpreter",
        "a text as interpreter",
        "half a download",
        "another word size",
        "another machine",
        "an object file",
        "no segments",
    ],
)
def test_all_else_is_left_to_the_kernel(tmp_path, content):
    assert not plainly_native(script(tmp_path / "x", content))


def test_scripts_of_scripts_end_somewhere(tmp_path):
    assert not plainly_native(script(tmp_path / "x", b"#!" + bytes(tmp_path / "x") + b"\n"))


def test_missing_and_unreadable_files_are_not_native(tmp_path):
    assert not plainly_native(str(tmp_path / "none"))
    assert not plainly_native(str(tmp_path))


# ---------------------------------------------------------------- the script of ours


def start(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    path = Path(sys.modules[launch.__module__].__file__ or "").with_name("start.py")
    return subprocess.run([sys.executable, "-I", "-S", path, *arguments], check=False, capture_output=True)


def test_script_obeys_only_the_parent_that_started_it():
    assert start(MARK, str(os.getpid()), "-", "-", "/bin/echo", "a").stdout == b"a\n"
    other = start(MARK, str(os.getppid()), "-", "-", "/bin/echo", "a")
    assert (other.returncode, other.stdout, other.stderr) == (125, b"", b"")


def test_script_says_under_its_mark_why_it_could_not_become_the_program():
    ended = start(MARK, str(os.getpid()), "-", "-", "/nowhere")
    assert (ended.returncode, ended.stderr) == (
        127,
        b"vmafx-start-abc: /nowhere: No such file or directory\n",
    )
