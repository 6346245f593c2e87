"""LocalSources: files of this machine, opened once and scored by descriptor (ADR 0021)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from vmafx.adapters.sources.blocking import BlockingCalls, CallLimits
from vmafx.adapters.sources.by_kind import not_served, refuse_outside
from vmafx.adapters.sources.files import OpenFile, change_of, close_file, open_file, resolve_path
from vmafx.domain.errors import SourceError
from vmafx.domain.roots import ResolvedSource, ScoringRoots
from vmafx.domain.scoring import Clip, ClipDescriptor, ClipFile
from vmafx.domain.source import SourceKind, SourceRef
from vmafx.domain.text import quoted
from vmafx.ports.clock import Clock

if TYPE_CHECKING:
    from vmafx.ports.sources import SourceStore

__all__ = ["LocalSources"]


class LocalSources:
    """A `SourceStore` of local files.

    Under roots, a clip is an open descriptor of a regular file. A file whose size or time of writing has
    changed when the clip is given back fails, whatever the scorer made of it. Without roots a clip is the
    path as it was named, and whoever scores it finds out what is there.

    Args:
        clock: Limits what file systems may take.
        limits: How.
    """

    def __init__(self, clock: Clock, *, limits: CallLimits | None = None) -> None:
        self._calls = BlockingCalls(clock, limits or CallLimits())

    async def resolve(self, ref: SourceRef, roots: ScoringRoots) -> ResolvedSource:
        """Return where a source is to be read from; other kinds come back as they are.

        Raises:
            OutsideRootsError: The source, or what it leads to, lies outside the roots.
            SourceError: It is not there, cannot be reached, or lies among the system's own files.
        """
        if ref.kind is not SourceKind.LOCAL or not roots.admits(ref):
            return roots.resolve(ref, _no_path)
        return await self._calls.make(lambda: resolve_path(ref, roots), shown=ref.shown)

    @asynccontextmanager
    async def prepared(
        self, source: ResolvedSource, *, roots: ScoringRoots | None
    ) -> AsyncGenerator[Clip, None]:
        """Give the source's clip: a descriptor under roots, a path without.

        Yields:
            The clip.

        Raises:
            OutsideRootsError: What was asked for, or opened, lies outside the roots.
            ClipError: It is no regular file, or changed.
            SourceError: It cannot be opened, or is no local source.
            ValueError: There are roots, and the source was not resolved.
        """
        ref = source.ref
        if roots is not None:
            refuse_outside(ref, roots)
        if ref.kind is not SourceKind.LOCAL:
            error = not_served(ref, (SourceKind.LOCAL,))
            raise error
        if roots is None:
            yield ClipFile(path=ref.path, name=ref.shown)
            return
        async with self._opened(source, roots) as opened:
            yield ClipDescriptor(descriptor=opened.descriptor, name=ref.shown, path=opened.path)

    @asynccontextmanager
    async def _opened(self, source: ResolvedSource, roots: ScoringRoots) -> AsyncGenerator[OpenFile, None]:
        ref, real = source.ref, source.real_path
        if real is None:
            raise ValueError(f"{quoted(ref.shown)} was not resolved")
        opened = await self._calls.make(
            lambda: open_file(ref, real, roots), shown=ref.shown, discard=close_file
        )
        try:
            yield opened
        except Exception:
            await self._give_back(ref, opened)
            raise
        except BaseException:
            await self._close(ref, opened)
            raise
        await self._give_back(ref, opened)

    async def _give_back(self, ref: SourceRef, opened: OpenFile) -> None:
        change = await self._close(ref, opened)
        if change is not None:
            raise change

    async def _close(self, ref: SourceRef, opened: OpenFile) -> SourceError | None:
        def close() -> SourceError | None:
            try:
                return change_of(ref, opened)
            finally:
                close_file(opened)

        try:
            return await self._calls.finish(close, shown=ref.shown)
        except SourceError as error:
            return error


def _no_path(path: str, /) -> str:
    raise SourceError(path, "not looked for")


if TYPE_CHECKING:
    _port: type[SourceStore] = LocalSources
