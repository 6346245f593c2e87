"""FakeSources: sources that are told what becomes of them, and take the time of a clock (ADR 0014)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from vmafx.domain.errors import OutsideRootsError, SourceError
from vmafx.domain.roots import ResolvedSource, ScoringRoots
from vmafx.domain.scoring import Clip, ClipFile
from vmafx.domain.source import SourceKind, SourceRef
from vmafx.domain.text import quoted
from vmafx.ports.clock import Clock

if TYPE_CHECKING:
    from vmafx.ports.sources import SourceStore

__all__ = ["FakeSource", "FakeSources", "SourceRule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeSource:
    """What becomes of one source.

    Attributes:
        path: The file that its clip is in; a fake scorer needs none.
        real_path: Where a local source really lies; None when it is no link. A root of the same path lies
            there too.
        resolve_error: Why a local source cannot be resolved, found once that time has passed; None when it
            can.
        resolve_takes_s: How long resolving a local source takes, in seconds.
        error: Why it cannot be prepared, found once its time has passed; None when it can.
        takes_s: How long preparing takes, in seconds.
        release_takes_s: How long giving it back takes, in seconds.
        breaks: How it fails after it was prepared; None when it does not.
        breaks_after_s: How long after it was prepared it fails, in seconds; infinite when that shows only on
            leaving, like a file that was changed.

    Raises:
        ValueError: A time is below 0.
    """

    path: str = "/nowhere/fake.y4m"
    real_path: str | None = None
    resolve_error: SourceError | None = None
    resolve_takes_s: float = 0.0
    error: SourceError | None = None
    takes_s: float = 0.0
    release_takes_s: float = 0.0
    breaks: SourceError | None = None
    breaks_after_s: float = math.inf

    def __post_init__(self) -> None:
        for name in ("resolve_takes_s", "takes_s", "release_takes_s", "breaks_after_s"):
            value: float = getattr(self, name)
            if not value >= 0:
                raise ValueError(f"{name}={value} must be 0 or more seconds")


SourceRule: TypeAlias = Callable[[SourceRef], FakeSource]
"""Says what becomes of a source that was not added by name."""


class FakeSources:
    """A `SourceStore` that opens nothing; it holds sources to their roots all the same.

    Args:
        clock: What preparing takes its time from.
        rule: What becomes of sources that were not added; None refuses them as missing.
    """

    resolved_texts: list[str]
    """The `shown` text of each source that was resolved, in order."""
    prepared_texts: list[str]
    """The `shown` text of each source that was prepared, in order."""
    released_texts: list[str]
    """The `shown` text of each source that was given back, in order."""

    def __init__(self, clock: Clock, rule: SourceRule | None = None) -> None:
        self.resolved_texts = []
        self.prepared_texts = []
        self.released_texts = []
        self._clock = clock
        self._rule = rule or _missing
        self._known: dict[str, FakeSource] = {}

    def add(self, text: str, source: FakeSource | None = None) -> SourceRef:
        """Add a source, or change what becomes of it from now on.

        Args:
            text: The source as a job names it; any text of the same canonical form will do.
            source: What becomes of it; None lets all go well at once.

        Returns:
            The source as it is asked for.

        Raises:
            SourceSyntaxError: `text` is no source.
        """
        ref = SourceRef.parse(text)
        self._known[ref.canonical] = source or FakeSource()
        return ref

    async def resolve(self, ref: SourceRef, roots: ScoringRoots) -> ResolvedSource:
        """Return where the source lies, as it was told.

        Raises:
            OutsideRootsError: The source lies outside the roots.
            SourceError: It is local and missing, or has an error of its own for this.
        """
        fake = self._fake(ref)
        if ref.kind is SourceKind.LOCAL and roots.admits(ref):
            await self._clock.sleep(fake.resolve_takes_s)
            if fake.resolve_error is not None:
                raise fake.resolve_error.with_traceback(None)  # the same error may serve many calls
        source = roots.resolve(
            ref, lambda path: _place(fake, path) if path == ref.path else self._where(path)
        )
        self.resolved_texts.append(ref.shown)
        return source

    @asynccontextmanager
    async def prepared(
        self, source: ResolvedSource, *, roots: ScoringRoots | None
    ) -> AsyncGenerator[Clip, None]:
        """Give the source's clip, as it was told.

        Yields:
            A clip by path.

        Raises:
            OutsideRootsError: The source lies outside the roots.
            SourceError: It is missing, or the source's own error.
            ValueError: There are roots, and a local source was not resolved.
        """
        self._hold_to_roots(source, roots)
        shown = source.ref.shown
        fake = self._fake(source.ref)
        await self._clock.sleep(fake.takes_s)
        if fake.error is not None:
            raise fake.error.with_traceback(None)  # the same error may serve many calls
        self.prepared_texts.append(shown)
        try:
            async with self._breaking(fake):
                yield ClipFile(path=fake.path, name=shown)
        finally:
            try:
                await self._clock.sleep(fake.release_takes_s)
            finally:
                self.released_texts.append(shown)

    @property
    def held(self) -> tuple[str, ...]:
        """The `shown` texts of the sources that were prepared and not given back, sorted."""
        return tuple(sorted((Counter(self.prepared_texts) - Counter(self.released_texts)).elements()))

    def assert_balanced(self) -> None:
        """Check that every source that was prepared was given back.

        Raises:
            AssertionError: Some were not; names them.
        """
        if self.held:
            raise AssertionError(f"prepared and not given back: {', '.join(self.held)}")

    @asynccontextmanager
    async def _breaking(self, fake: FakeSource) -> AsyncGenerator[None, None]:
        if fake.breaks is None:
            yield
            return
        shows_on_leaving = math.isinf(fake.breaks_after_s)
        breaks_at_s = -math.inf if shows_on_leaving else self._clock.monotonic() + fake.breaks_after_s
        try:
            async with self._clock.timeout(None if shows_on_leaving else fake.breaks_after_s):
                yield
        except Exception as error:
            if self._clock.monotonic() >= breaks_at_s:
                raise fake.breaks.with_traceback(None) from error
            raise
        if self._clock.monotonic() >= breaks_at_s:
            raise fake.breaks.with_traceback(None)

    def _fake(self, ref: SourceRef) -> FakeSource:
        return self._known.get(ref.canonical) or self._rule(ref)

    def _where(self, path: str, /) -> str:
        fake = self._known.get(SourceRef.parse(f"{path}/").canonical)
        return path if fake is None else _place(fake, path)

    def _hold_to_roots(self, source: ResolvedSource, roots: ScoringRoots | None) -> None:
        if roots is None:
            return
        shown = quoted(source.ref.shown)
        if not roots.admits(source.ref):
            raise OutsideRootsError(source.ref.shown, f"{shown} is outside the scoring roots")
        if source.ref.kind is SourceKind.LOCAL:
            if source.real_path is None:
                raise ValueError(f"{shown} was not resolved")
            roots.confine(source.ref, source.real_path, self._where)


def _place(fake: FakeSource, path: str) -> str:
    return path if fake.real_path is None else fake.real_path


def _missing(ref: SourceRef) -> FakeSource:
    error = SourceError(ref.shown, f"{quoted(ref.shown)}: no such source")
    return FakeSource(resolve_error=error, error=error)


if TYPE_CHECKING:
    _port: type[SourceStore] = FakeSources
