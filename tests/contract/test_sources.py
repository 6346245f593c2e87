"""What every `SourceStore` promises (ADR 0011, 0014).

A store joins the suite with a maker of its `World`: the store, a source in every state that it can have, and
a way to count what it holds.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from tests.clips import y4m
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.sources import FakeSource, FakeSources
from vmafx.domain.errors import ClipError, OutsideRootsError, ScorerError, SourceError
from vmafx.domain.roots import ResolvedSource, ScoringRoots
from vmafx.domain.scoring import Clip, ClipFile
from vmafx.domain.source import SourceRef
from vmafx.ports.sources import SourceStore

# ---------------------------------------------------------------- what a store brings


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A source that something happens to.

    Attributes:
        source: The source.
        cue: Makes it happen, or returns when it is happening.
    """

    source: ResolvedSource
    cue: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A store and sources for it.

    Attributes:
        store: The store.
        held: Counts what the store holds: descriptors, processes, mounts, files.
        roots: Roots that admit every source below but `outside`.
        content: The bytes of the clip of `good`.
        good: A source with a clip.
        other: Another one.
        missing: A source that is not there.
        outside: A source that is there, but not below the roots.
        unfit: A source that is there and can be no clip.
        slow: A source whose preparing is held up; its cue returns once it is.
        breaking: A source that fails while its clip is used; its cue makes it fail.
        changing: A source whose fault shows on leaving only; its cue makes the fault.
        lacks: Why a staged source is None, by its name.
    """

    store: SourceStore
    held: Callable[[], int]
    roots: ScoringRoots
    content: bytes
    good: ResolvedSource
    other: ResolvedSource
    missing: ResolvedSource
    outside: ResolvedSource
    unfit: ResolvedSource
    slow: Staged | None = None
    breaking: Staged | None = None
    changing: Staged | None = None
    lacks: Mapping[str, str] = field(default_factory=dict)

    def staged(self, name: str) -> Staged:
        staged: Staged | None = getattr(self, name)
        if staged is None:
            pytest.skip(f"{name}: {self.lacks[name]}")
        return staged

    def prepared(self, source: ResolvedSource) -> AbstractAsyncContextManager[Clip]:
        return self.store.prepared(source, roots=self.roots)


Maker: TypeAlias = Callable[[Path], AbstractAsyncContextManager[World]]


@asynccontextmanager
async def fake_world(folder: Path) -> AsyncIterator[World]:
    clock = VirtualClock()
    sources = FakeSources(clock)
    clip = folder / "clip.y4m"
    clip.write_bytes(y4m(distorted=False, frames=1))

    def added(name: str, fake: FakeSource) -> ResolvedSource:
        ref = sources.add(f"/clips/{name}.y4m", fake)
        return ResolvedSource(ref=ref, real_path=ref.path)

    def failing(kind: type[SourceError], name: str) -> SourceError:
        return kind(f"/clips/{name}.y4m", f"{name} went wrong")

    async def let_it_break() -> None:
        await clock.advance(10)

    yield World(
        store=sources,
        held=lambda: len(sources.held),
        roots=ScoringRoots.parse(["/clips"]),
        content=clip.read_bytes(),
        good=added("good", FakeSource(path=str(clip))),
        other=added("other", FakeSource()),
        missing=ResolvedSource(ref=SourceRef.parse("/clips/missing"), real_path="/clips/missing"),
        outside=ResolvedSource(ref=sources.add("/secret/clip.y4m"), real_path="/secret/clip.y4m"),
        unfit=added("unfit", FakeSource(error=failing(ClipError, "unfit"))),
        slow=Staged(source=added("slow", FakeSource(takes_s=60)), cue=clock.settle),
        breaking=Staged(
            source=added("breaking", FakeSource(breaks=failing(SourceError, "breaking"), breaks_after_s=10)),
            cue=let_it_break,
        ),
        changing=Staged(
            source=added("changing", FakeSource(breaks=failing(SourceError, "changing"))), cue=clock.settle
        ),
    )


MAKERS: Final[Mapping[str, Maker]] = {"fake": fake_world}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS.keys())
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with request.param(tmp_path) as made:
        yield made
        assert made.held() == 0, "the store holds something that nobody uses"


# ---------------------------------------------------------------- giving and taking back


def read(clip: Clip) -> bytes:
    if isinstance(clip, ClipFile):
        return Path(clip.path).read_bytes()
    return os.pread(clip.descriptor, 1 << 24, 0)


async def test_a_clip_is_the_sources_content_under_its_shown_name(world: World) -> None:
    async with world.prepared(world.good) as clip:
        assert read(clip) == world.content
        assert clip.name == world.good.ref.shown


async def test_nothing_is_held_before_entry_and_after_leaving(world: World) -> None:
    context = world.prepared(world.good)
    assert world.held() == 0
    async with context:
        assert world.held() > 0
    assert world.held() == 0


async def test_a_source_can_be_prepared_again(world: World) -> None:
    for _ in range(3):
        async with world.prepared(world.good) as clip:
            assert read(clip) == world.content


async def test_giving_one_clip_back_takes_no_other_away(world: World) -> None:
    async with world.prepared(world.good) as outer:
        async with world.prepared(world.good) as inner, world.prepared(world.other):
            assert read(inner) == world.content
        assert read(outer) == world.content


async def test_without_roots_every_place_may_be_read(world: World) -> None:
    async with world.store.prepared(ResolvedSource(ref=world.outside.ref), roots=None) as clip:
        assert clip.name == world.outside.ref.shown


async def test_the_error_of_the_body_passes_and_the_clip_is_given_back(world: World) -> None:
    error = LookupError("its own")

    async def use() -> None:
        async with world.prepared(world.good):
            raise error

    with pytest.raises(LookupError) as caught:
        await use()
    assert caught.value is error
    assert world.held() == 0


# ---------------------------------------------------------------- refusals


async def refused(world: World, source: ResolvedSource, kind: type[SourceError]) -> SourceError:
    with pytest.raises(kind) as caught:
        await world.prepared(source).__aenter__()
    assert world.held() == 0
    return caught.value


async def test_a_missing_source_is_refused_by_name(world: World) -> None:
    error = await refused(world, world.missing, SourceError)
    assert error.source == world.missing.ref.shown


async def test_a_source_outside_the_roots_is_refused_though_it_is_there(world: World) -> None:
    error = await refused(world, world.outside, OutsideRootsError)
    assert error.source == world.outside.ref.shown


async def test_without_any_root_nothing_is_admitted(world: World) -> None:
    with pytest.raises(OutsideRootsError):
        await world.store.prepared(world.good, roots=ScoringRoots()).__aenter__()


async def test_a_path_that_resolved_to_outside_the_roots_is_refused(world: World) -> None:
    escaped = ResolvedSource(ref=world.good.ref, real_path=world.outside.real_path)
    await refused(world, escaped, OutsideRootsError)


async def test_a_local_source_that_was_not_resolved_is_a_mistake_of_the_caller(world: World) -> None:
    with pytest.raises(ValueError, match="resolved"):
        await world.prepared(ResolvedSource(ref=world.good.ref)).__aenter__()
    assert world.held() == 0


async def test_what_can_be_no_clip_is_refused_as_such(world: World) -> None:
    await refused(world, world.unfit, ClipError)


async def test_a_refused_source_leaves_the_others_alone(world: World) -> None:
    async with world.prepared(world.good) as clip:
        with pytest.raises(SourceError):
            await world.prepared(world.missing).__aenter__()
        assert read(clip) == world.content


# ---------------------------------------------------------------- cancellation


async def use_for_ever(context: AbstractAsyncContextManager[Clip], entered: asyncio.Event) -> None:
    async with context:
        entered.set()
        await asyncio.Event().wait()


async def test_cancelling_the_body_gives_the_clip_back_first(world: World) -> None:
    entered = asyncio.Event()
    using = asyncio.create_task(use_for_ever(world.prepared(world.good), entered))
    await entered.wait()
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert world.held() == 0


async def test_cancelling_the_entry_leaves_nothing(world: World) -> None:
    slow, entered = world.staged("slow"), asyncio.Event()
    entering = asyncio.create_task(use_for_ever(world.prepared(slow.source), entered))
    await slow.cue()
    assert not entered.is_set()
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert world.held() == 0


# ---------------------------------------------------------------- sources that fail later


async def test_a_source_that_fails_ends_the_body_with_its_own_error(world: World) -> None:
    breaking, entered = world.staged("breaking"), asyncio.Event()
    using = asyncio.create_task(use_for_ever(world.prepared(breaking.source), entered))
    await entered.wait()
    await breaking.cue()
    with pytest.raises(SourceError) as caught:
        await using
    assert caught.value.source == breaking.source.ref.shown
    assert world.held() == 0


async def test_the_error_of_the_source_stands_in_for_what_the_body_made_of_it(world: World) -> None:
    breaking, entered = world.staged("breaking"), asyncio.Event()

    async def score() -> None:
        async with world.prepared(breaking.source):
            try:
                entered.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise ScorerError("the scorer saw its input end") from None

    scoring = asyncio.create_task(score())
    await entered.wait()
    await breaking.cue()
    with pytest.raises(SourceError):
        await scoring


async def test_after_a_source_failed_the_task_goes_on_as_before(world: World) -> None:
    breaking, entered = world.staged("breaking"), asyncio.Event()

    async def survive() -> int:
        with pytest.raises(SourceError):
            await use_for_ever(world.prepared(breaking.source), entered)
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    surviving = asyncio.create_task(survive())
    await entered.wait()
    await breaking.cue()
    assert await surviving == 0


async def test_a_cancellation_is_none_of_the_sources_errors(world: World) -> None:
    breaking, entered = world.staged("breaking"), asyncio.Event()
    using = asyncio.create_task(use_for_ever(world.prepared(breaking.source), entered))
    await entered.wait()
    using.cancel()
    await breaking.cue()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert world.held() == 0


async def test_a_result_from_a_source_that_changed_is_not_used(world: World) -> None:
    changing, steps = world.staged("changing"), []

    async def use() -> None:
        async with world.prepared(changing.source):
            await changing.cue()
            steps.append("used to the end")
        steps.append("believed")

    with pytest.raises(SourceError) as caught:
        await use()
    assert caught.value.source == changing.source.ref.shown
    assert steps == ["used to the end"]
