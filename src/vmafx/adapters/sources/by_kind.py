"""SourcesByKind: one store for each kind of source (ADR 0021)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final

from vmafx.domain.errors import OutsideRootsError, SourceError
from vmafx.domain.roots import ResolvedSource, ScoringRoots
from vmafx.domain.scoring import Clip
from vmafx.domain.source import SourceKind, SourceRef
from vmafx.domain.text import quoted
from vmafx.ports.sources import SourceStore

__all__ = ["SourcesByKind", "not_served", "refuse_outside"]


class SourcesByKind:
    """A `SourceStore` that asks the store of a source's kind, and refuses kinds that have none.

    Args:
        stores: The stores; each serves the kinds that it stands for.
    """

    def __init__(self, stores: Mapping[SourceKind, SourceStore]) -> None:
        self._stores = dict(stores)

    async def resolve(self, ref: SourceRef, roots: ScoringRoots) -> ResolvedSource:
        """Return where a source is to be read from, as the store of its kind says.

        Raises:
            OutsideRootsError: The source lies outside the roots.
            SourceError: Its store cannot find it, or it is local and there is no store for that.
        """
        store = self._stores.get(ref.kind)
        if store is not None:
            return await store.resolve(ref, roots)
        refuse_outside(ref, roots)
        if ref.kind is SourceKind.LOCAL:
            error = not_served(ref, self._stores)
            raise error
        return ResolvedSource(ref=ref)

    def prepared(
        self, source: ResolvedSource, *, roots: ScoringRoots | None
    ) -> AbstractAsyncContextManager[Clip]:
        """Return the context of the store of the source's kind; if it has none, one that refuses on entry."""
        store = self._stores.get(source.ref.kind)
        if store is None:
            return _Refused(source.ref, roots, not_served(source.ref, self._stores))
        return store.prepared(source, roots=roots)


class _Refused(AbstractAsyncContextManager[Clip, None]):
    """The context of a source that cannot be prepared."""

    def __init__(self, ref: SourceRef, roots: ScoringRoots | None, error: SourceError) -> None:
        self._ref = ref
        self._roots = roots
        self._error = error

    async def __aenter__(self) -> Clip:
        if self._roots is not None:
            refuse_outside(self._ref, self._roots)
        raise self._error

    async def __aexit__(self, *_: object) -> None:
        return


def not_served(ref: SourceRef, served: Collection[SourceKind]) -> SourceError:
    """Return the error of a source of a kind that has no store.

    Args:
        ref: The source.
        served: The kinds that have one.
    """
    kinds = " and ".join(words for kind, words in _WORDS.items() if kind in served) or _NOTHING
    only = " only" if kinds != _NOTHING else ""
    return SourceError(ref.shown, f"{quoted(ref.shown)}: {_ONE[ref.kind]}; this node serves {kinds}{only}")


def refuse_outside(ref: SourceRef, roots: ScoringRoots) -> None:
    """Check that the text of a source lies below a root.

    Raises:
        OutsideRootsError: It does not.
    """
    if not roots.admits(ref):
        raise OutsideRootsError(ref.shown, f"{quoted(ref.shown)} is outside the scoring roots")


_NOTHING: Final = "no inputs at all"
_WORDS: Final = {
    SourceKind.LOCAL: "local files",
    SourceKind.HTTP: "http(s) URLs",
    SourceKind.REMOTE: "rclone remotes",
}
_ONE: Final = {
    SourceKind.LOCAL: "a local file",
    SourceKind.HTTP: "an http(s) URL",
    SourceKind.REMOTE: "on an rclone remote",
}

if TYPE_CHECKING:
    _port: type[SourceStore] = SourcesByKind
