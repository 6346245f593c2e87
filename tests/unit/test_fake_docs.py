"""The examples of docs/fakes.md run as they stand (ADR 0014)."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

import vmafx

PAGE: Final = Path(__file__).parents[2] / "docs" / "fakes.md"
BLOCK: Final = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME: Final = re.compile(r"# (?P<name>\w+\.\w+)\n")


@dataclass(frozen=True)
class Example:
    line: int
    text: str
    file_name: str | None


def examples() -> list[Example]:
    page = PAGE.read_text(encoding="utf-8")
    found = []
    for block in BLOCK.finditer(page):
        named = FILE_NAME.match(block["text"])
        assert named or block["language"] == "python", f"no one runs {block[0]}"
        line = page.count("\n", 0, block.start("text"))
        found.append(Example(line=line, text=block["text"], file_name=named["name"] if named else None))
    return found


def test_the_page_has_examples_of_both_kinds() -> None:
    assert len([example for example in examples() if example.file_name is None]) >= 7
    assert {"conftest.py", "pyproject.toml", "test_limits.py"} <= {e.file_name for e in examples()}


def test_every_public_fake_is_on_the_page_and_in_an_example() -> None:
    fakes = [name for name in vmafx.__all__ if name.startswith(("Fake", "Virtual", "Recording"))]
    assert "FakeController" in fakes
    shown = "".join(example.text for example in examples())
    listed = PAGE.read_text(encoding="utf-8").partition("\n## ")[0]
    tabled = {"FakeController", "FakeScorer", "FakeSources", "RecordingTelemetry", "VirtualClock"}
    assert [name for name in fakes if name not in shown] == []
    assert [name for name in tabled if f"| `{name}`" not in listed] == []


@pytest.mark.parametrize(
    "example", [e for e in examples() if e.file_name is None], ids=lambda e: f"line-{e.line}"
)
def test_an_example_runs_as_it_stands(example: Example) -> None:
    code = compile("\n" * example.line + example.text, str(PAGE), "exec")
    exec(code, {"__name__": "__main__"})


def test_the_pytest_example_runs_as_it_stands(tmp_path: Path) -> None:
    for example in examples():
        if example.file_name is not None:
            (tmp_path / example.file_name).write_text(example.text, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "--strict-markers"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed" in run.stdout
