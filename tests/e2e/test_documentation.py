"""The documentation is true: examples run, links lead somewhere, decisions name tests that exist."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import clips
from tests.e2e.program import HANG_S
from vmafx.app.cli.answer import as_json
from vmafx.app.cli.arguments import ScoreArguments
from vmafx.app.cli.commands import score_command
from vmafx.app.settings.names import KNOWN_NAMES
from vmafx.domain.scoring import Backend, FrameScore, ScoreRequest, ScoreResult

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("page", ["README.md", "docs/embedding.md"])
def test_the_embedding_example_prints_the_score(program, page):
    blocks = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    of_scorers = [code for code in blocks if "/videos/" in code]
    assert of_scorers
    for code in of_scorers:
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
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/vmafx/app").rglob("*.py"))
    read = set(re.findall(r'"(VMAFX?_[A-Z_]+)"', source))
    documented = set(
        re.findall(
            r"^\| `(VMAFX?_[A-Z_]+)`", (ROOT / "docs/settings.md").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    assert read - {"_VMAFX_COMPLETE"} == documented
    assert documented - {"VMAF_BIN"} <= KNOWN_NAMES


def documented_words(page, heading):
    """The words in the first column of the table that begins with `heading`."""
    lines = (ROOT / page).read_text(encoding="utf-8").split(f"| {heading} |", 1)[1].splitlines()[2:]
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines)
    return {word for row in rows for word in re.findall(r"`(\w+)`", row.split("|")[1])}


@pytest.mark.parametrize("kind", [ScoreRequest, ScoreResult], ids=lambda kind: kind.__name__)
def test_every_field_of_requests_and_results_is_documented(kind):
    documented = documented_words("docs/embedding.md", f"field of `{kind.__name__}`")
    assert documented == {field.name for field in dataclasses.fields(kind)}


def test_every_key_of_the_answer_is_documented():
    frame = FrameScore(frame=0, score=1.0)
    result = ScoreResult(
        score=1.0, features={}, frames=1, reference_frames=1, distorted_frames=1, frame_scores=(frame,)
    )
    asked = ScoreArguments(reference="r", distorted="d", features=True, frames=True)
    assert documented_words("docs/cli.md", "key") == set(json.loads(as_json(asked, result, Backend.CPU)))


def test_every_option_of_score_is_documented_in_both_places():
    options = {option for parameter in score_command.params for option in parameter.opts if "--" in option}
    page = (ROOT / "docs/cli.md").read_text(encoding="utf-8").split("\n## vmafx score")[1].split("\n## ")[0]
    assert options == set(re.findall(r"^\| `(--\w+)", page, re.MULTILINE))
    assert options == set(re.findall(r"--\w+", re.search(r"REF DIS` takes `(.*?)`", README)[1]))


README = (ROOT / "README.md").read_text(encoding="utf-8")


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
