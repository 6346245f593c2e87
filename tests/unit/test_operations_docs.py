"""docs/operations.md explains what there is: metrics, lines of the listeners, refusals (ADR 0027)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from vmafx.app.controller.metrics import CONTROLLER_FAMILIES, MODELS_MAX, TENANTS_MAX

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src"
PAGE: Final = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
OF_A_NODE: Final = {"client"}
"""Modules of the listeners' packages that only nodes use."""


def table(section: str) -> list[list[str]]:
    """The cells of a section's only table, without its head."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[2:]]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


FAMILIES: Final = {quoted(name)[0]: rest for name, *rest in table("Metrics")}


def test_every_family_is_explained_once_and_no_other():
    named = [name for cell, *_ in table("Metrics") for name in quoted(cell)]
    assert named == [family.name for family in CONTROLLER_FAMILIES]


@pytest.mark.parametrize("family", CONTROLLER_FAMILIES, ids=lambda family: family.name)
def test_a_family_is_explained_as_it_is_served(family):
    kind, labels, meaning = FAMILIES[family.name]
    assert (kind, quoted(labels)) == (family.kind.value, list(family.labels))
    for values in family.closed.values():
        assert set(values) <= set(quoted(meaning))


def test_families_that_are_named_anywhere_are_served():
    named = re.findall(r"vmafx_(?:controller|server|metrics|quality|build)\w+", PAGE)
    assert set(named) == set(FAMILIES)


def test_the_limits_of_labels_are_those_of_the_code():
    assert f"The first {TENANTS_MAX} tenants and {MODELS_MAX} models have series of their own" in PAGE


def told_by(package: str) -> Iterator[tuple[str, str]]:
    """What the modules of a listener give to `event`: level and message."""
    for path in (SOURCE / "vmafx" / "adapters" / package).glob("*.py"):
        if path.stem not in OF_A_NODE:
            module = import_module(f"vmafx.adapters.{package}.{path.stem}")
            text = path.read_text(encoding="utf-8")
            for level, name in re.findall(r"(?:event|_tell)\(\s*Level\.(\w+),\s*([A-Z_]+)", text):
                yield getattr(module, name), level.lower()


def test_every_line_of_the_listeners_is_explained_and_no_other():
    explained = {
        (message, level)
        for cell, level, _ in table("What the listeners say in the log")
        for message in quoted(cell)
    }
    assert explained == {*told_by("grpc"), *told_by("http")}


@pytest.fixture(scope="module")
def texts() -> str:
    """Every text in the source, one on a line; of those with values in them the parts."""
    found = []
    for path in SOURCE.rglob("*.py"):
        if "_generated" not in path.parts:
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            found += [node.value for node in nodes if isinstance(node, ast.Constant)]
    return "\n".join(text for text in found if isinstance(text, str))


@pytest.mark.parametrize("section", ["It refuses to start", "A full disk, a locked or a lost file"])
def test_reasons_are_quoted_as_they_are_told(texts, section):
    reasons = [words for cell, _ in table(section) for words in quoted(cell)]
    assert reasons
    assert [words for words in reasons if words not in texts] == []


def test_links_lead_somewhere():
    for target, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", PAGE):
        text = (ROOT / "docs" / target).read_text(encoding="utf-8") if target else PAGE
        titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        assert anchor in {re.sub(r"[^\w\s-]", "", title).lower().replace(" ", "-") for title in titles}
