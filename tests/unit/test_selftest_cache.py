"""What is remembered of a self-test, and when it is not believed (ADR 0003)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import reports
from tests.cli_scorer import descriptors
from tests.unit.test_selftest import FORK, FakeTool
from vmafx.adapters.vmaf_cli.capabilities import Capabilities
from vmafx.adapters.vmaf_cli.selftest_cache import ENTRY_BYTES_MAX, SelfTestCache, file_facts
from vmafx.domain.errors import ScorerUnavailableError
from vmafx.domain.scoring import Backend

KNOWN = Capabilities(version="1", options=frozenset({"json", "backend"}))
FACTS: dict[str, object] = {"files": [["/vmaf", 1, 2, 3, 4]], "model": "m"}


@pytest.fixture(autouse=True)
def no_descriptor_is_left() -> Iterator[None]:
    """Models, entries and reports are closed, whatever happens."""
    before = len(descriptors())
    yield
    assert len(descriptors()) <= before


@pytest.fixture
def cache(tmp_path: Path) -> SelfTestCache:
    return SelfTestCache(directory=str(tmp_path / "cache"))


@pytest.fixture
def tool(tmp_path: Path) -> FakeTool:
    return FakeTool(tmp_path / "vmaf", *FORK)


def entry(cache: SelfTestCache) -> Path:
    (path,) = Path(cache.directory, "self-test").iterdir()
    return path


def test_what_was_stored_is_remembered(cache: SelfTestCache) -> None:
    assert cache.load(FACTS) is None
    cache.store(FACTS, KNOWN)
    assert cache.load(FACTS) == KNOWN
    assert cache.load(FACTS | {"model": "n"}) is None


def test_entries_are_their_owners_alone(cache: SelfTestCache) -> None:
    cache.store(FACTS, KNOWN)
    assert entry(cache).stat().st_mode & 0o777 == 0o600
    assert entry(cache).parent.stat().st_mode & 0o777 == 0o700


def test_storing_again_replaces_and_leaves_nothing_beside(cache: SelfTestCache) -> None:
    cache.store(FACTS, KNOWN)
    cache.store(FACTS, Capabilities(version="2", options=frozenset()))
    assert cache.load(FACTS) == Capabilities(version="2", options=frozenset())
    assert entry(cache).suffix == ".json"


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-5]),
        lambda path: path.write_bytes(b"[" * 50_000),
        lambda path: path.write_bytes(b"\xff"),
        lambda path: path.write_text("[]"),
        lambda path: path.write_text(path.read_text().replace('"format": 1', '"format": 2')),
        lambda path: path.write_text(path.read_text().replace('"model": "m"', '"model": "x"')),
        lambda path: path.write_text(path.read_text().replace('"version": "1"', '"version": 1')),
        lambda path: path.write_text(path.read_text().replace('"json"', "7")),
        lambda path: path.write_text(path.read_text().replace('["backend", "json"]', "null")),
        lambda path: path.write_text(" " * ENTRY_BYTES_MAX + path.read_text()),
        lambda path: path.chmod(0o644),
        lambda path: path.parent.chmod(0o755),
        lambda path: (path.rename(path.with_suffix(".x")), path.symlink_to(path.with_suffix(".x"))),
        lambda path: (path.unlink(), os.mkfifo(path, 0o600)),
        lambda path: (path.unlink(), path.mkdir(0o700)),
        lambda path: (path.parent.rename(path.parent.parent / "x"), path.parent.symlink_to("x")),
    ],
)
def test_entry_that_is_odd_in_any_way_is_forgotten(
    cache: SelfTestCache, damage: Callable[[Path], object]
) -> None:
    cache.store(FACTS, KNOWN)
    assert cache.load(FACTS) == KNOWN
    damage(entry(cache))
    assert cache.load(FACTS) is None


@pytest.mark.parametrize("kind", ["file", "proc"])
def test_directory_that_cannot_be_used_is_left_alone(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").touch()
    cache = SelfTestCache(directory=str(tmp_path / "file") if kind == "file" else "/proc/nothing/here")
    cache.store(FACTS, KNOWN)
    assert cache.load(FACTS) is None


def test_write_that_fails_leaves_nothing(cache: SelfTestCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    cache.store(FACTS, KNOWN)
    assert list(Path(cache.directory, "self-test").iterdir()) == []


def test_facts_of_a_file_tell_it_from_a_later_one(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("a")
    first = file_facts([str(path)])
    assert first == file_facts([str(path)])
    os.utime(path, ns=(1, 1))
    assert first != file_facts([str(path)])
    assert file_facts([str(path), str(tmp_path / "none")]) is None


async def test_remembered_proof_starts_no_process(tool: FakeTool, tmp_path: Path) -> None:
    await tool.scorer(cache_dir=str(tmp_path / "c")).self_test()
    started = len(tool.processes.commands)
    again = tool.scorer(cache_dir=str(tmp_path / "c"))
    await again.self_test()
    assert len(tool.processes.commands) == started
    assert again.info is not None
    assert again.info.remembered
    assert again.info.tool.capabilities.options == set(FORK)
    assert again.info.version == "v3.1"


@pytest.mark.parametrize(
    "options",
    [
        {"score_threads": 2},
        {"default_model": "vmaf_v0.6.1neg"},
        {"backend_unverified": True},
    ],
)
async def test_other_options_are_another_proof(
    tool: FakeTool, tmp_path: Path, options: dict[str, Any]
) -> None:
    await tool.scorer(cache_dir=str(tmp_path / "c")).self_test()
    await tool.scorer(cache_dir=str(tmp_path / "c"), **options).self_test()
    assert len(tool.runs) == 2


async def test_executable_that_changed_is_proven_anew(tool: FakeTool, tmp_path: Path) -> None:
    scorer = tool.scorer(cache_dir=str(tmp_path / "c"))
    await scorer.self_test()
    os.utime(tool.path, ns=(1, 1))
    await scorer.self_test()
    assert len(tool.runs) == 2
    await scorer.self_test()
    assert len(tool.runs) == 2


async def test_model_that_changed_is_proven_anew(tool: FakeTool, tmp_path: Path) -> None:
    model = tmp_path / "models/vmaf_v0.6.1.json"
    model.parent.mkdir()
    model.write_text("{}")
    scorer = tool.scorer(cache_dir=str(tmp_path / "c"), model_dir=str(model.parent))
    await scorer.self_test()
    model.write_text('{"new": 1}')
    await scorer.self_test()
    assert len(tool.runs) == 2


async def test_device_is_never_remembered(tool: FakeTool, tmp_path: Path) -> None:
    tool.report = reports.report(extra={"backend_used": "cuda"}).encode()
    scorer = tool.scorer(cache_dir=str(tmp_path / "c"), backend=Backend.CUDA)
    await scorer.self_test()
    await scorer.self_test()
    assert len(tool.runs) == 2
    assert not (tmp_path / "c").exists()


async def test_failure_is_never_remembered(tool: FakeTool, tmp_path: Path) -> None:
    tool.status = 1
    scorer = tool.scorer(cache_dir=str(tmp_path / "c"))
    for _ in range(2):
        with pytest.raises(ScorerUnavailableError):
            await scorer.self_test()
    assert len(tool.runs) == 2


async def test_bad_default_model_is_refused_in_spite_of_a_remembered_proof(
    tool: FakeTool, tmp_path: Path
) -> None:
    model = tmp_path / "models/vmaf_v0.6.1.json"
    model.parent.mkdir()
    model.write_text("{}")
    scorer = tool.scorer(cache_dir=str(tmp_path / "c"), model_dir=str(model.parent))
    await scorer.self_test()
    model.write_text("[]")
    with pytest.raises(ScorerUnavailableError, match="does not hold a JSON object"):
        await scorer.self_test()


def test_entry_is_json_that_a_person_can_read(cache: SelfTestCache) -> None:
    cache.store(FACTS, KNOWN)
    assert json.loads(entry(cache).read_text())["options"] == ["backend", "json"]
