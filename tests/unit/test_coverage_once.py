"""Lines are counted, in a worker too, but where a test asks that they are not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest
from coverage import Coverage

def test_counted():
    assert Coverage.current() is not None

@pytest.mark.no_cover
def test_uncounted():
    assert Coverage.current() is None

def test_counted_again():
    assert Coverage.current() is not None
"""


@pytest.mark.parametrize("workers", [0, 1], ids=["alone", "in a worker"])
def test_lines_are_not_counted_where_a_test_asks_so(tmp_path, monkeypatch, workers):
    (tmp_path / "test_it.py").write_text(TESTS, encoding="utf-8")
    monkeypatch.setenv("COVERAGE_FILE", str(tmp_path / "coverage"))
    options = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "tests.plugins.coverage_once"]
    counting = ["--cov=test_it", "--cov-report=", f"--numprocesses={workers}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *counting, tmp_path],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines()[-1].startswith("3 passed"), done.stdout
