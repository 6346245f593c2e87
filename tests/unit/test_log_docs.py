"""The examples of docs/logs.md are what really happens (ADR 0020)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from vmafx.adapters.telemetry.fitting import FIELDS_MAX, TEXT_BYTES_MAX
from vmafx.adapters.telemetry.lines import LINE_BYTES_MAX
from vmafx.adapters.telemetry.program import LINES_DROPPED
from vmafx.app.controller import events

PAGE: Final = (Path(__file__).parents[2] / "docs" / "logs.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    return re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]


def test_the_lines_shown_are_lines_of_json():
    for line in block("json").splitlines():
        assert list(json.loads(line))[:3] == ["time", "level", "msg"]


def test_the_example_for_a_service_runs_as_it_stands():
    run = subprocess.run(
        [sys.executable, "-c", block("python")], capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "INFO scoring job job=5f0c\n")


def test_the_limits_are_those_of_the_code():
    assert (LINE_BYTES_MAX, TEXT_BYTES_MAX, FIELDS_MAX) == (16 * 1024, 12 * 1024, 64)
    assert "at most 16 KiB, a text in it at most 12 KiB, with 64 fields" in " ".join(PAGE.split())
    assert f"`{LINES_DROPPED}`" in PAGE


def test_every_message_of_a_controller_is_explained_and_no_other():
    said = [text for name, text in vars(events).items() if name.isupper() and not name.startswith("_")]
    section = PAGE.split("## What a controller says\n")[1].split("\n## ")[0]
    explained = re.findall(r"^\| `([^`]+)` \| (?:debug|info|warn|error) \| .+ \|$", section, re.MULTILINE)
    assert sorted(explained) == sorted(said)
    assert len(set(said)) == len(said)
