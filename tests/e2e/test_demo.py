"""`make demo` and the other targets, as far as they run without making an environment."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.e2e.program import HANG_S, eventually, processes_with
from vmafx.domain.y4m import FrameCounter, parse_header

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("engine")
def test_the_demo_scores_two_clips_that_it_made_through_the_whole_system_and_directly(program):
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "demo.py"],
        cwd=program.folder,
        env=program.environment | {"VMAFX_PULL_WAIT": "not the demo's business"},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    score = re.search(r"^VMAF +([0-9.]+)$", done.stdout, re.MULTILINE)[1]
    assert 50 < float(score) < 98
    assert done.stdout.endswith(f"The node reported the same score: {score}\n")
    example = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    varying = ("$", "VMAF", "scorer", "submitted", "The node")
    shown = [line for line in done.stdout.splitlines() if not line.startswith(varying)]
    assert set(shown) <= set(example)
    assert program.leftovers() == []
    assert processes_with(program.temporary) == []
    for name in ("ref.y4m", "dis.y4m"):
        data = (program.folder / "build" / "demo" / name).read_bytes()
        header = parse_header(data, name=name)
        counter = FrameCounter(header, name=name)
        counter.feed(data[header.header_bytes :])
        assert counter.finish() == 50
        assert (header.width, header.height) == (320, 240)


@pytest.mark.usefixtures("engine")
def test_a_demo_that_is_interrupted_leaves_nothing(program, plain):
    demo = program.folder / "build" / "demo"
    demo.mkdir(parents=True)
    for name, data in zip(("ref.y4m", "dis.y4m"), plain, strict=True):
        (demo / name).write_bytes(data)
    with subprocess.Popen(
        [sys.executable, ROOT / "tools" / "demo.py"],
        cwd=program.folder,
        env=program.environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a terminal sends Ctrl-C to every process of it
    ) as process:
        assert process.stdout.readline().endswith("vmafx-controller\n")
        assert process.stdout.readline().endswith("vmafx-node\n")
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=HANG_S)
    assert process.returncode == 130
    eventually(lambda: processes_with(program.temporary) == [], what="its programs have ended, too")
    assert program.leftovers() == []


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on PATH")
@pytest.mark.parametrize(
    "target", ["setup", "help", "demo", "test", "check", "bench", "soak", "proto", "clean", "distclean"]
)
def test_every_target_is_there(target):
    done = subprocess.run(
        ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == 0, done.stderr


def made(*arguments):
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments],
        cwd=ROOT,
        env=alone,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=True,
    ).stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on PATH")
def test_the_help_of_make_tells_every_target():
    told = re.findall(r"^make (\w+)", made("help"), re.MULTILINE)
    targets = re.findall(r"^(\w+):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(told) == set(targets) - {"setup", "distclean"}  # these two are told beside others


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on PATH")
def test_a_soak_without_tests_is_no_success():
    command = made("--dry-run", "soak").strip().splitlines()[-1]
    assert command.endswith("-m pytest -m soak --timeout=3600")


def test_there_are_soak_tests():
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-m",
            "soak",
            "--collect-only",
            "-q",
            "tests/e2e/test_soak_score.py",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "2 tests collected" in done.stdout


def test_every_tool_that_contributors_are_told_of_is_installed_by_make():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pinned = dict(wanted.split("==") for wanted in project["dependency-groups"]["dev"])
    packages = {"lint-imports": "import-linter"}
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    tools = set(re.findall(r"\.venv/bin/([\w-]+)", text + hooks))
    assert "pre-commit" in tools
    assert {packages.get(tool, tool) for tool in tools} <= set(pinned)


def test_a_python_that_is_too_old_is_refused_by_name(tmp_path):
    old = tmp_path / "old python"
    old.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    old.chmod(0o755)
    done = subprocess.run(
        ["sh", ROOT / "tools" / "setup.sh", tmp_path / "venv", old],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == f"setup: PYTHON={old} is not Python 3.11 or later\n"
    assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize(("user", "installs"), [("0", True), ("1000", False)], ids=["root", "user"])
def test_what_the_system_lacks_is_installed_by_root_and_told_to_others(tmp_path, user, installs):
    log = tmp_path / "log"
    stubs = {
        "apt-get": f'echo "$@" >> {log}',
        "id": f"echo {user}",
        "uname": "echo Linux",
        # A Python without ensurepip, which then cannot make an environment.
        "python3": 'case "$*" in *"info <"*) ;; *"%d-venv"*) echo python3.11-venv ;; *) exit 7 ;; esac',
    }
    for name, text in stubs.items():
        stub = tmp_path / name
        stub.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        stub.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", ROOT / "tools" / "setup.sh", tmp_path / "venv"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 7
    if installs:
        assert done.stdout.startswith("setup: installing util-linux python3.11-venv\n")
        assert log.read_text(encoding="utf-8").splitlines() == [
            "-qq update",
            "-qq install --no-install-recommends util-linux python3.11-venv",
        ]
    else:
        assert "util-linux python3.11-venv" in done.stderr
        assert not log.exists()
