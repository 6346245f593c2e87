"""`make demo` and the other targets, as far as they run without making an environment."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.program import HANG_S
from vmafx.domain.y4m import FrameCounter, parse_header

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("engine")
def test_the_demo_scores_two_clips_that_it_made(program):
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "demo.py"],
        cwd=program.folder,
        env=program.environment,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    score = float(re.search(r"^VMAF +([0-9.]+)$", done.stdout, re.MULTILINE)[1])
    assert 50 < score < 98
    for name in ("ref.y4m", "dis.y4m"):
        data = (program.folder / "build" / "demo" / name).read_bytes()
        header = parse_header(data, name=name)
        counter = FrameCounter(header, name=name)
        counter.feed(data[header.header_bytes :])
        assert counter.finish() == 50
        assert (header.width, header.height) == (320, 240)


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on PATH")
@pytest.mark.parametrize(
    "target", ["setup", "demo", "test", "check", "bench", "soak", "proto", "clean", "distclean"]
)
def test_every_target_is_there(target):
    done = subprocess.run(
        ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == 0, done.stderr


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
    assert done.stderr == f"setup: PYTHON={old} is no Python 3.11 or later\n"
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
