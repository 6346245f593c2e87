"""Sources: a clip to read wherever its source is."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from vmafx.domain.roots import ResolvedSource, ScoringRoots
from vmafx.domain.scoring import Clip
from vmafx.domain.source import SourceRef

__all__ = ["SourceStore"]


class SourceStore(Protocol):
    """Makes clips of sources, and takes back what it gave (ADR 0011).

    Sources are prepared independently of each other: the same one may be prepared several times, at once or
    again, and giving one clip back takes no other away. No call blocks the event loop, whatever becomes of
    the disk or server that a source is on.
    """

    async def resolve(self, ref: SourceRef, roots: ScoringRoots) -> ResolvedSource:
        """Return where a source is to be read from; nothing of it is opened.

        A local source has the real path, with every link followed, that lies below the real path of a local
        root. Other kinds are judged by their text alone and come back as they are, at once. A cancelled call
        leaves nothing behind that could still matter.

        Args:
            ref: The source.
            roots: What it is held to.

        Raises:
            OutsideRootsError: The source's text lies below no root, or its real path lies below the real path
                of no local root.
            SourceError: Its real path cannot be found; names it. `machine_fault` tells whether it may be
                found on another machine.
        """
        ...

    def prepared(
        self, source: ResolvedSource, *, roots: ScoringRoots | None
    ) -> AbstractAsyncContextManager[Clip]:
        """Return a context that gives the source's clip on entry; nothing is done before.

        The clip may be read until the context is left, and has the source's `shown` text for its name. When
        the context has been left, or its entry failed or was cancelled, nothing of it remains: no descriptor,
        no process, no mount, no port, no temporary file. A cancellation waits for that, then propagates.

        Preparing need not read the source to its end. When the source fails while the body runs (a stream
        that stalls or ends early, a file that changes), the body is cancelled and leaving raises the source's
        error: in place of the body's result or error, but never of a cancellation from outside.

        Args:
            source: What to prepare. With roots, a local source has its real path: that is what is opened.
            roots: The roots that admitted the source; what was opened, and every place that the source leads
                on to, is held to them again. None when no roots are in force.

        Raises:
            OutsideRootsError: On entry: the source, or a place it leads on to, lies outside the roots.
            ClipError: On entry or on leaving: it is there, but can be no clip: no regular file, an empty or
                incomplete one.
            SourceError: On entry or on leaving: it is missing, unreadable, of a kind that this store does not
                serve, or failed later; names it. `machine_fault` tells whether another machine may do better.
            ValueError: On entry: roots are in force, and a local source was not resolved.
        """
        ...
