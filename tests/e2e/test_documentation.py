"""The documentation is true: examples run, links lead somewhere, decisions name tests that exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import clips
from tests.e2e.program import HANG_S

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("page", ["README.md", "docs/embedding.md"])
def test_the_embedding_example_prints_the_score(program, page):
    blocks = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert blocks
    for code in blocks:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code.replace("/videos/", f"{program.folder}/")],
            cwd=program.folder,
            env=program.environment,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert float(done.stdout) == pytest.approx(clips.PLAIN_SCORE, abs=0.05)


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("docs/**/*.md")) + sorted(ROOT.glob("*.md")), ids=lambda p: p.name
)
def test_no_link_of_the_documentation_leads_nowhere(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_every_setting_that_is_read_is_documented_and_the_other_way_round():
    source = "".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "src/vmafx/app").rglob("*.py")
        if path.name != "doctor.py"
    )
    read = set(re.findall(r'"(VMAFX?_[A-Z_]+)"', source))
    documented = set(
        re.findall(
            r"^\| `(VMAFX?_[A-Z_]+)`", (ROOT / "docs/settings.md").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    assert read - {"_VMAFX_COMPLETE"} == documented


DECISIONS = sorted(ROOT.glob("docs/adr/0*.md"))


@pytest.mark.parametrize("page", DECISIONS, ids=lambda p: p.name)
def test_a_decision_has_every_part_and_names_tests_that_exist(page):
    text = page.read_text(encoding="utf-8")
    parts = ["Context", "Decision", "Alternatives", "Consequences", "Confirmed by"]
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert [heading for heading in headings if heading in parts] == parts
    assert "Status: accepted" in text
    confirmed = text.split("## Confirmed by")[1]
    named = re.findall(r"tests/[\w/]+\.py", confirmed)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_decision_is_listed_by_its_title():
    index = (ROOT / "docs/adr/README.md").read_text(encoding="utf-8")
    for page in DECISIONS:
        number, _, title = page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ").partition(": ")
        assert f"| [{number}]({page.name}) | {title} |" in index


def test_every_decision_that_is_cited_exists():
    numbers = {page.name[:4] for page in DECISIONS}
    for path in [*ROOT.glob("src/**/*.py"), *ROOT.glob("tests/**/*.py"), *ROOT.glob("docs/*.md")]:
        cited = set(re.findall(r"\(ADR (\d{4})\)", path.read_text(encoding="utf-8")))
        assert cited <= numbers, path
