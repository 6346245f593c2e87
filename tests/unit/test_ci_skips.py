"""Skips on a build server: those for want of what `make` installs are failures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.mark.skipif(True, reason="the embedded engine is not there")
def test_marked(): pass

def test_called():
    pytest.skip("needs setpriv")

def test_other():
    pytest.skip("no vmaf on PATH")

def test_fine(): pass

@pytest.mark.xfail(reason="no engine", strict=True)
def test_expected():
    raise AssertionError
"""


ALONE, IN_A_WORKER = "--numprocesses=0", "--numprocesses=1"
FAILED = "1 failed, 1 passed, 1 skipped, 1 xfailed, 1 error"


@pytest.mark.parametrize(
    ("ci", "way", "ended"),
    [
        (None, ALONE, "1 passed, 3 skipped, 1 xfailed"),
        ("true", ALONE, FAILED),
        ("true", IN_A_WORKER, FAILED),
    ],
    ids=["by hand", "alone", "in a worker"],
)
def test_a_skip_for_what_make_installs_fails_on_a_build_server_only(tmp_path, ci, way, ended):
    (tmp_path / "test_it.py").write_text(TESTS, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    environment |= {"CI": ci} if ci else {}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "tests.plugins.ci_skips",
            "-p",
            "no:cacheprovider",
            way,
            tmp_path,
        ],
        cwd=Path(__file__).parents[2],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines()[-1].startswith(ended)
