"""FakeSources: what only the fake can show; the contract has the rest (ADR 0014)."""

from __future__ import annotations

import asyncio
import math

import pytest

from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.sources import FakeSource, FakeSources
from vmafx.domain.errors import OutsideRootsError, SourceError, SourceSyntaxError
from vmafx.domain.roots import ResolvedSource, ScoringRoots
from vmafx.domain.scoring import ClipFile
from vmafx.domain.source import SourceRef

pytestmark = pytest.mark.virtual_time


def source(text: str) -> ResolvedSource:
    return ResolvedSource(ref=SourceRef.parse(text))


async def prepare(sources: FakeSources, text: str) -> None:
    async with sources.prepared(source(text), roots=None):
        pass


async def test_a_source_is_known_by_its_canonical_form(clock: VirtualClock) -> None:
    sources = FakeSources(clock)
    sources.add("file:///clips/./a%20b.y4m", FakeSource(path="/real/a"))
    async with sources.prepared(source("/clips/a b.y4m"), roots=None) as clip:
        assert clip == ClipFile(path="/real/a", name="/clips/a b.y4m")


@pytest.mark.parametrize("text", ["https://cdn.example/a.y4m?sig=secret", "s3:bucket/a.y4m", "/clips/a.y4m"])
async def test_every_kind_of_source_is_served_and_no_secret_is_shown(clock: VirtualClock, text: str) -> None:
    sources = FakeSources(clock)
    sources.add(text)
    async with sources.prepared(source(text), roots=None) as clip:
        assert "secret" not in clip.name
        assert sources.held == (clip.name,)
    assert sources.prepared_texts == sources.released_texts == [clip.name]


async def test_a_source_that_was_not_added_is_missing_or_as_the_rule_says(clock: VirtualClock) -> None:
    with pytest.raises(SourceError, match=r'"/x\.y4m": no such source'):
        await prepare(FakeSources(clock), "/x.y4m")
    sources = FakeSources(clock, lambda ref: FakeSource(path=f"/real{ref.path}"))
    sources.add("/known.y4m", FakeSource(path="/added"))
    paths = []
    for text in ("/x.y4m", "/known.y4m"):
        async with sources.prepared(source(text), roots=None) as clip:
            assert isinstance(clip, ClipFile)
            paths.append(clip.path)
    assert paths == ["/real/x.y4m", "/added"]


async def test_what_becomes_of_a_source_can_change(clock: VirtualClock) -> None:
    sources = FakeSources(clock)
    sources.add("/a.y4m", FakeSource(error=SourceError("/a.y4m", "not now")))
    with pytest.raises(SourceError, match="not now"):
        await prepare(sources, "/a.y4m")
    sources.add("/a.y4m")
    await prepare(sources, "/a.y4m")
    assert sources.prepared_texts == ["/a.y4m"]


def test_text_that_is_no_source_cannot_be_added(clock: VirtualClock) -> None:
    with pytest.raises(SourceSyntaxError):
        FakeSources(clock).add("relative.y4m")


async def test_preparing_and_giving_back_take_their_time(clock: VirtualClock) -> None:
    sources = FakeSources(clock)
    sources.add("/a.y4m", FakeSource(takes_s=3, release_takes_s=4))
    async with sources.prepared(source("/a.y4m"), roots=None):
        assert clock.monotonic() == 3
    assert clock.monotonic() == 7
    sources.assert_balanced()


async def test_a_refusal_takes_its_time_too(clock: VirtualClock) -> None:
    sources = FakeSources(clock)
    sources.add("/a.y4m", FakeSource(takes_s=3, error=SourceError("/a.y4m", "denied")))
    with pytest.raises(SourceError, match="denied"):
        await prepare(sources, "/a.y4m")
    assert clock.monotonic() == 3
    assert sources.prepared_texts == []


async def test_cancelling_while_it_is_given_back_gives_it_back(clock: VirtualClock) -> None:
    sources = FakeSources(clock)
    sources.add("/a.y4m", FakeSource(release_takes_s=100))
    using = asyncio.create_task(prepare(sources, "/a.y4m"))
    await clock.advance(10)
    assert sources.held == ("/a.y4m",)
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert (sources.held, clock.sleepers) == ((), 0)


async def test_the_check_of_the_balance_names_what_is_held(clock: VirtualClock) -> None:
    sources = FakeSources(clock)
    for text in ("/a.y4m", "/b.y4m"):
        sources.add(text)
    async with sources.prepared(source("/a.y4m"), roots=None), sources.prepared(source("/b.y4m"), roots=None):
        async with sources.prepared(source("/a.y4m"), roots=None):
            assert sources.held == ("/a.y4m", "/a.y4m", "/b.y4m")
        with pytest.raises(AssertionError, match=r"not given back: /a\.y4m, /b\.y4m"):
            sources.assert_balanced()
    sources.assert_balanced()


async def test_a_source_breaks_at_its_instant_and_not_before(clock: VirtualClock) -> None:
    sources = FakeSources(clock)
    sources.add("/a.y4m", FakeSource(breaks=SourceError("/a.y4m", "stalled"), breaks_after_s=60))

    async def use(seconds: float) -> None:
        async with sources.prepared(source("/a.y4m"), roots=None):
            await clock.sleep(seconds)

    await use(59)
    with pytest.raises(SourceError, match="stalled"):
        await use(3600)
    assert clock.monotonic() == 59 + 60


async def test_an_error_of_the_body_before_the_break_is_its_own(clock: VirtualClock) -> None:
    sources = FakeSources(clock)
    sources.add("/a.y4m", FakeSource(breaks=SourceError("/a.y4m", "stalled"), breaks_after_s=60))

    async def use() -> None:
        async with sources.prepared(source("/a.y4m"), roots=None):
            raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await use()


async def test_resolving_takes_its_time_and_finds_what_a_link_leads_to(clock: VirtualClock) -> None:
    sources, roots = FakeSources(clock), ScoringRoots.parse(["/clips"])
    ref = sources.add("/clips/a.y4m", FakeSource(real_path="/clips/real.y4m", resolve_takes_s=3))
    assert (await sources.resolve(ref, roots)).real_path == "/clips/real.y4m"
    assert clock.monotonic() == 3
    assert (sources.resolved_texts, sources.prepared_texts) == (["/clips/a.y4m"], [])


async def test_a_refusal_to_resolve_takes_its_time_too(clock: VirtualClock) -> None:
    sources, roots = FakeSources(clock), ScoringRoots.parse(["/clips"])
    error = SourceError("/clips/a.y4m", "stale", machine_fault=True)
    ref = sources.add("/clips/a.y4m", FakeSource(resolve_error=error, resolve_takes_s=3))
    with pytest.raises(SourceError) as caught:
        await sources.resolve(ref, roots)
    assert caught.value is error
    assert clock.monotonic() == 3
    assert sources.resolved_texts == []


async def test_what_is_outside_by_its_text_is_refused_at_once(clock: VirtualClock) -> None:
    sources, roots = FakeSources(clock), ScoringRoots.parse(["/clips"])
    ref = sources.add("/other/a.y4m", FakeSource(resolve_takes_s=3))
    with pytest.raises(OutsideRootsError):
        await sources.resolve(ref, roots)
    assert clock.monotonic() == 0


@pytest.mark.parametrize("root", ["/clips", "/"])
async def test_a_root_may_be_a_link_itself_and_what_was_resolved_can_be_prepared(
    clock: VirtualClock, root: str
) -> None:
    sources, roots = FakeSources(clock), ScoringRoots.parse([root])
    sources.add("/clips", FakeSource(real_path="/disk7"))
    ref = sources.add("/clips/a.y4m", FakeSource(real_path="/disk7/a.y4m"))
    async with sources.prepared(await sources.resolve(ref, roots), roots=roots) as clip:
        assert clip.name == "/clips/a.y4m"


async def test_a_link_by_the_rule_leads_where_the_rule_says(clock: VirtualClock) -> None:
    sources = FakeSources(clock, lambda ref: FakeSource(real_path=f"/disk{ref.path}"))
    source = await sources.resolve(SourceRef.parse("/a.y4m"), ScoringRoots.parse(["/"]))
    assert source.real_path == "/disk/a.y4m"


@pytest.mark.parametrize("name", ["resolve_takes_s", "takes_s", "release_takes_s", "breaks_after_s"])
@pytest.mark.parametrize("seconds", [-1.0, math.nan])
def test_a_time_below_zero_is_refused(name: str, seconds: float) -> None:
    with pytest.raises(ValueError, match=name):
        FakeSource(**{name: seconds})
