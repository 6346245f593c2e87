"""SourcesByKind: each kind has its store, and kinds without one are refused by name (ADR 0021)."""

from __future__ import annotations

import pytest

from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.sources import FakeSources
from vmafx.adapters.sources.by_kind import SourcesByKind
from vmafx.adapters.sources.local import LocalSources
from vmafx.domain.errors import OutsideRootsError, SourceError
from vmafx.domain.roots import ResolvedSource, ScoringRoots
from vmafx.domain.source import SourceKind, SourceRef
from vmafx.ports.sources import SourceStore

pytestmark = pytest.mark.virtual_time

URL = "https://user:pass@cdn.example/a.y4m?sig=secret"
ROOTS = ScoringRoots.parse(["/clips", "https://cdn.example/", "s3:bucket"])


async def prepare(store: SourceStore, text: str, roots: ScoringRoots | None) -> str:
    ref = SourceRef.parse(text)
    source = ResolvedSource(ref=ref) if roots is None else await store.resolve(ref, roots)
    async with store.prepared(source, roots=roots) as clip:
        return clip.name


async def test_each_kind_is_served_by_its_own_store(clock: VirtualClock) -> None:
    local, http = FakeSources(clock), FakeSources(clock)
    local.add("/clips/a.y4m")
    http.add(URL)
    store = SourcesByKind({SourceKind.LOCAL: local, SourceKind.HTTP: http})
    await prepare(store, "/clips/a.y4m", ROOTS)
    await prepare(store, URL, ROOTS)
    assert (local.released_texts, http.released_texts) == (["/clips/a.y4m"], ["https://cdn.example/a.y4m"])


@pytest.mark.parametrize("roots", [ROOTS, None])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (URL, '"https://cdn.example/a.y4m": an http(s) URL; this node serves local files only'),
        ("s3:bucket/a.y4m", '"s3:bucket/a.y4m": on an rclone remote; this node serves local files only'),
    ],
)
async def test_a_kind_without_a_store_is_refused_by_name_and_without_secrets(
    clock: VirtualClock, text: str, message: str, roots: ScoringRoots | None
) -> None:
    local = LocalSources(clock)
    for store in (SourcesByKind({SourceKind.LOCAL: local}), local):
        with pytest.raises(SourceError) as caught:
            await prepare(store, text, roots)
        assert str(caught.value) == message
        assert caught.value.source == SourceRef.parse(text).shown
        assert not caught.value.machine_fault


async def test_a_local_file_is_not_resolved_where_none_are_served(clock: VirtualClock) -> None:
    store = SourcesByKind({SourceKind.HTTP: FakeSources(clock)})
    with pytest.raises(SourceError, match=r"a local file; this node serves http\(s\) URLs only"):
        await store.resolve(SourceRef.parse("/clips/a.y4m"), ROOTS)
    with pytest.raises(SourceError, match=r"a local file; this node serves no inputs at all$"):
        await prepare(SourcesByKind({}), "/clips/a.y4m", None)


async def test_several_kinds_are_told_together(clock: VirtualClock) -> None:
    served = FakeSources(clock)
    store = SourcesByKind({SourceKind.HTTP: served, SourceKind.LOCAL: served})
    with pytest.raises(SourceError, match=r"this node serves local files and http\(s\) URLs only"):
        await prepare(store, "s3:bucket/a.y4m", ROOTS)


@pytest.mark.parametrize("text", ["/secret/a.y4m", "https://other.example/a.y4m", "gs:bucket/a.y4m"])
async def test_outside_the_roots_comes_before_what_is_served(clock: VirtualClock, text: str) -> None:
    local = LocalSources(clock)
    for store in (SourcesByKind({}), SourcesByKind({SourceKind.LOCAL: local}), local):
        with pytest.raises(OutsideRootsError):
            await store.resolve(SourceRef.parse(text), ROOTS)
        source = ResolvedSource(ref=SourceRef.parse(text), real_path="/clips/a.y4m")
        with pytest.raises(OutsideRootsError):
            await store.prepared(source, roots=ROOTS).__aenter__()
