"""What every `SourceStore` promises (ADR 0011, 0014).

A store joins the suite with a maker of its `World`: the store, a source in every state that it can have, and
a way to count what it holds.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from tests.clips import y4m
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.sources import FakeSource, FakeSources
from vmafx.adapters.sources.blocking import THREAD_NAME, CallLimits
from vmafx.adapters.sources.by_kind import SourcesByKind
from vmafx.adapters.sources.local import LocalSources
from vmafx.domain.errors import ClipError, OutsideRootsError, ScorerError, SourceError
from vmafx.domain.roots import ResolvedSource, ScoringRoots
from vmafx.domain.scoring import Clip, ClipFile
from vmafx.domain.source import SourceKind, SourceRef
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
        link: A link to the clip of `good`, resolved.
        escaping: A link to the clip of `outside`.
        unreachable: A source whose real path cannot be found, by a fault of the machine.
        lost: A source whose resolving is held up; its cue returns once it is.
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
    link: ResolvedSource
    escaping: SourceRef
    unreachable: SourceRef
    lost: Staged | None = None
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

    stale = SourceError("/clips/stale.y4m", "Stale file handle", machine_fault=True)

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
        link=ResolvedSource(
            ref=sources.add("/clips/link.y4m", FakeSource(path=str(clip), real_path="/clips/good.y4m")),
            real_path="/clips/good.y4m",
        ),
        escaping=sources.add("/clips/escaping.y4m", FakeSource(real_path="/secret/clip.y4m")),
        unreachable=sources.add("/clips/stale.y4m", FakeSource(resolve_error=stale)),
        lost=Staged(source=added("lost", FakeSource(resolve_takes_s=60)), cue=clock.settle),
        slow=Staged(source=added("slow", FakeSource(takes_s=60)), cue=clock.settle),
        breaking=Staged(
            source=added("breaking", FakeSource(breaks=failing(SourceError, "breaking"), breaks_after_s=10)),
            cue=let_it_break,
        ),
        changing=Staged(
            source=added("changing", FakeSource(breaks=failing(SourceError, "changing"))), cue=clock.settle
        ),
    )


class Gate:
    """Holds up the thread that comes to it."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._open = threading.Event()

    def hold(self) -> None:
        self._loop.call_soon_threadsafe(self.reached.set)
        assert self._open.wait(30), "nobody opened the gate"

    def open(self) -> None:
        self._open.set()

    async def wait(self) -> None:
        await self.reached.wait()


def open_below(folder: Path) -> int:
    """Count our descriptors of files below a folder."""
    count = 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            count += str(entry.readlink()).startswith(f"{folder}/")
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
    return count


def local_clips(folder: Path, content: bytes) -> Path:
    clips, secret = folder / "clips", folder / "secret"
    for place in (clips, secret):
        place.mkdir()
    for path in (clips / "good", clips / "other", clips / "slow", clips / "changing", secret / "clip"):
        path.with_suffix(".y4m").write_bytes(content)
    (clips / "unfit.y4m").mkdir()
    (clips / "link.y4m").symlink_to("good.y4m")
    (clips / "escaping.y4m").symlink_to("../secret/clip.y4m")
    return clips


def trouble(patch: pytest.MonkeyPatch, clips: Path, *, slow: Gate, lost: Gate) -> None:
    """Let the file system hold up some calls, and fail others."""
    real_open, real_stat = os.open, os.stat

    def held_open(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if str(path) == str(clips / "slow.y4m"):
            slow.hold()
        return real_open(path, flags, mode, dir_fd=dir_fd)

    def held_stat(path: str, **options: Any) -> os.stat_result:
        if str(path) == str(clips / "lost.y4m"):
            lost.hold()
        if str(path) == str(clips / "stale.y4m"):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return real_stat(path, **options)

    patch.setattr(os, "open", held_open)
    patch.setattr(os, "stat", held_stat)


@asynccontextmanager
async def local_world(folder: Path) -> AsyncIterator[World]:
    folder = folder.resolve()
    content = y4m(distorted=False, frames=1)
    clips = local_clips(folder, content)
    slow, lost = Gate(), Gate()

    async def change() -> None:
        with (clips / "changing.y4m").open("ab") as file:
            file.write(b"FRAME")

    def source(place: Path) -> ResolvedSource:
        return ResolvedSource(ref=SourceRef.parse(str(place)), real_path=str(place))

    with pytest.MonkeyPatch.context() as patch:
        trouble(patch, clips, slow=slow, lost=lost)
        try:
            yield World(
                store=LocalSources(SystemClock(), limits=CallLimits(stop_wait_s=0.01)),
                held=lambda: open_below(folder),
                roots=ScoringRoots.parse([str(clips)]),
                content=content,
                good=source(clips / "good.y4m"),
                other=source(clips / "other.y4m"),
                missing=source(clips / "missing.y4m"),
                outside=source(folder / "secret" / "clip.y4m"),
                unfit=source(clips / "unfit.y4m"),
                link=ResolvedSource(
                    ref=SourceRef.parse(str(clips / "link.y4m")), real_path=str(clips / "good.y4m")
                ),
                escaping=SourceRef.parse(str(clips / "escaping.y4m")),
                unreachable=SourceRef.parse(str(clips / "stale.y4m")),
                lost=Staged(source=source(clips / "lost.y4m"), cue=lost.wait),
                slow=Staged(source=source(clips / "slow.y4m"), cue=slow.wait),
                changing=Staged(source=source(clips / "changing.y4m"), cue=change),
                lacks={"breaking": "what happens to a local file shows on leaving only"},
            )
        finally:
            slow.open()
            lost.open()
            while any(thread.name == THREAD_NAME for thread in threading.enumerate()):
                await asyncio.sleep(0)


@asynccontextmanager
async def world_by_kind(folder: Path) -> AsyncIterator[World]:
    async with local_world(folder) as made:
        yield replace(made, store=SourcesByKind({SourceKind.LOCAL: made.store}))


MAKERS: Final[Mapping[str, Maker]] = {"fake": fake_world, "local": local_world, "by kind": world_by_kind}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS.keys())
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with request.param(tmp_path) as made:
        yield made
        assert made.held() == 0, "the store holds something that nobody uses"


# ---------------------------------------------------------------- resolving


async def test_resolving_finds_where_the_source_lies_and_opens_nothing(world: World) -> None:
    for source in (world.good, world.other, world.link):
        assert await world.store.resolve(source.ref, world.roots) == source
    assert world.held() == 0


async def test_what_was_resolved_can_be_prepared_and_keeps_its_own_name(world: World) -> None:
    source = await world.store.resolve(world.link.ref, world.roots)
    async with world.prepared(source) as clip:
        assert read(clip) == world.content
        assert clip.name == world.link.ref.shown


async def test_a_source_below_no_root_is_not_resolved(world: World) -> None:
    for roots in (world.roots, ScoringRoots()):
        with pytest.raises(OutsideRootsError) as caught:
            await world.store.resolve(world.outside.ref, roots)
        assert caught.value.source == world.outside.ref.shown


async def test_a_link_out_of_the_roots_is_refused_where_it_leads(world: World) -> None:
    with pytest.raises(OutsideRootsError) as caught:
        await world.store.resolve(world.escaping, world.roots)
    shown, place = world.escaping.shown, world.outside.real_path
    assert str(caught.value) == (
        f'scoring input "{shown}" resolves to "{place}", outside the tenant\'s scoring roots'
    )


async def test_a_missing_source_cannot_be_resolved_and_that_is_the_inputs_fault(world: World) -> None:
    with pytest.raises(SourceError) as caught:
        await world.store.resolve(world.missing.ref, world.roots)
    assert caught.value.source == world.missing.ref.shown
    assert not caught.value.machine_fault


async def test_a_source_in_a_place_that_is_broken_is_the_machines_fault(world: World) -> None:
    with pytest.raises(SourceError, match="Stale file handle") as caught:
        await world.store.resolve(world.unreachable, world.roots)
    assert caught.value.machine_fault


@pytest.mark.parametrize("text", ["https://cdn.example/a.y4m?sig=secret", "s3:bucket/a.y4m"])
async def test_other_kinds_are_judged_by_their_text_alone(world: World, text: str) -> None:
    ref = SourceRef.parse(text)
    roots = ScoringRoots.parse(["https://cdn.example/", "s3:bucket"])
    assert await world.store.resolve(ref, roots) == ResolvedSource(ref=ref)
    with pytest.raises(OutsideRootsError):
        await world.store.resolve(ref, world.roots)


async def test_resolving_can_be_cancelled_and_leaves_the_store_as_it_was(world: World) -> None:
    lost = world.staged("lost")
    resolving = asyncio.create_task(world.store.resolve(lost.source.ref, world.roots))
    await lost.cue()
    resolving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await resolving
    assert await world.store.resolve(world.good.ref, world.roots) == world.good


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
