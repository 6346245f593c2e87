"""The gates trip: each rule about layers and banned calls is broken on purpose, in a copy (ADR 0001)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = Path(sys.executable).parent

BREAKS = {
    "domain/stray.py": "import asyncio\nimport vmafx.ports.clock\nfrom vmafx import open_scorer\n",
    "ports/stray.py": "import subprocess\nimport vmafx.adapters.clock\n",
    "adapters/clock/stray.py": "import vmafx.adapters.fakes\nimport vmafx.app.settings\n",
    "app/settings/stray.py": "import vmafx.app.container\n",
    "app/container/stray.py": "import vmafx.app.cli\n",
    "app/cli/stray.py": "import vmafx.adapters.clock\n",
    "adapters/fakes/stray.py": "import vmafx.adapters.grpc._generated.vmafx\n",
    "stray.py": "",
    "app/stray.py": "",
}
FINDINGS = [
    "vmafx.domain is not allowed to import vmafx.ports",
    "vmafx.ports is not allowed to import vmafx.adapters",
    "vmafx.adapters is not allowed to import vmafx.app",
    "vmafx.app.settings is not allowed to import vmafx.app.container",
    "vmafx.app.container is not allowed to import vmafx.app.cli",
    "vmafx.adapters.clock is not allowed to import vmafx.adapters.fakes",
    "vmafx.domain is not allowed to import asyncio",
    "vmafx.ports is not allowed to import subprocess",
    "vmafx.app.cli is not allowed to import vmafx.adapters",
    "vmafx.domain.stray is not allowed to import vmafx",
    "vmafx.adapters.fakes.stray -> vmafx.adapters.grpc._generated.vmafx",
    "vmafx.stray",
    "vmafx.app.stray",
]


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    """What import-linter says of a copy that breaks every rule once."""
    copy = tmp_path_factory.mktemp("layers")
    shutil.copytree(ROOT / "src/vmafx", copy / "src/vmafx", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    for name, text in BREAKS.items():
        (copy / "src/vmafx" / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [TOOLS / "lint-imports", "--no-cache"],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": str(copy / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("finding", FINDINGS)
def test_a_broken_layer_rule_is_found(findings, finding):
    assert finding in findings


def test_every_contract_is_broken_by_one_of_the_breaks(findings):
    summary = findings.split("Contracts: ")[1].splitlines()[0]
    assert summary.startswith("0 kept")


def ruff(path, code):
    """The codes of what ruff says of `code`, were it in the file `path`."""
    done = subprocess.run(
        [TOOLS / "ruff", "check", "--no-cache", "--output-format=json", "--stdin-filename", path, "-"],
        cwd=ROOT,
        input=code,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return {finding["code"] for finding in json.loads(done.stdout)}


BANNED = [
    "import time\n\ntime.sleep(1)\n",
    "import time\n\ntime.time()\n",
    "import time\n\ntime.monotonic()\n",
    "import asyncio\n\nasyncio.sleep(1)\n",
    "import asyncio\n\nasyncio.timeout(1)\n",
    "import asyncio\n\nasyncio.wait_for(None, 1)\n",
    "import datetime\n\ndatetime.datetime.now()\n",
    "import random\n\nrandom.random()\n",
    "import uuid\n\nuuid.uuid4()\n",
]


@pytest.mark.parametrize("code", BANNED)
def test_time_and_chance_are_banned_outside_their_adapters(code):
    assert "TID251" in ruff("src/vmafx/app/cli/stray.py", code)


@pytest.mark.parametrize(
    "path",
    [
        "src/vmafx/adapters/clock/stray.py",
        "src/vmafx/adapters/fakes/stray.py",
        "src/vmafx/app/container/x.py",
    ],
)
def test_time_is_allowed_where_it_is_adapted(path):
    assert "TID251" not in ruff(path, BANNED[0])


def test_a_public_function_without_docstring_is_found():
    assert "D103" in ruff("src/vmafx/domain/stray.py", '"""X."""\n\n\ndef public() -> None:\n    pass\n')
