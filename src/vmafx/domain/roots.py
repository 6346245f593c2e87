"""Scoring roots: below which places a tenant's inputs must lie; none means nowhere (ADR 0011).

An input is admitted by its text alone. Before it is opened, a local one is resolved: its real path must lie
below the real path of a local root, and the real path is what is scored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol
from urllib.parse import quote

from vmafx.domain.errors import OutsideRootsError, SourceError, SourceSyntaxError
from vmafx.domain.source import SourceKind, SourceRef, shown_source
from vmafx.domain.text import quoted

__all__ = [
    "FROM_CONTROLLER",
    "ROOTS_MAX",
    "RealPath",
    "ResolvedSource",
    "RootTemplates",
    "ScoringRoots",
]

ROOTS_MAX: Final = 32
"""Most roots of one tenant."""
FROM_CONTROLLER: Final = "scoring roots from the controller"
"""Where the roots of a job came from, for errors."""

_OUTSIDE: Final = "outside the tenant's scoring roots"


class RealPath(Protocol):
    """Tells where a file really is."""

    def __call__(self, path: str, /) -> str:
        """Return the absolute path of an existing file or directory, with every link followed.

        Raises:
            SourceError: It does not exist or cannot be reached; the message is the system's reason alone.
                `machine_fault` tells whether another machine may reach it.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSource:
    """A source that may be opened.

    Attributes:
        ref: The admitted source.
        real_path: The real path of a local source, the one to open; None for the other kinds.
    """

    ref: SourceRef
    real_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringRoots:
    """The roots of one tenant; without any, every input is refused.

    Attributes:
        roots: At most 32 references; a root admits itself and what lies below it.
    """

    roots: tuple[SourceRef, ...] = ()

    @classmethod
    def parse(cls, texts: Sequence[str], *, origin: str = "") -> ScoringRoots:
        """Read roots; one that is malformed fails them all.

        Args:
            texts: The roots, as they were configured.
            origin: Where they came from, for the error, such as `FROM_CONTROLLER`.

        Raises:
            SourceSyntaxError: A root is malformed, or there are more than 32.
        """
        start = f"{origin}: " if origin else ""
        if len(texts) > ROOTS_MAX:
            raise SourceSyntaxError(
                "", f"{len(texts)} entries, at most {ROOTS_MAX}", subject=f"{start}scoring roots"
            )
        roots: list[SourceRef] = []
        for text in texts:
            try:
                roots.append(SourceRef.parse(text))
            except SourceSyntaxError as error:
                subject = f"{start}scoring root {quoted(error.source)}"
                raise SourceSyntaxError(error.source, error.reason, subject=subject) from None
        return cls(roots=tuple(roots))

    @property
    def texts(self) -> tuple[str, ...]:
        """The roots as they were configured, trimmed."""
        return tuple(root.text for root in self.roots)

    def admit(self, text: str) -> SourceRef:
        """Return the input that `text` names, if its text lies below a root.

        Args:
            text: The input, as its owner wrote it.

        Raises:
            OutsideRootsError: There are no roots, the text is no reference, or it lies below none of them.
        """
        if not self.roots:
            shown = shown_source(text)
            raise OutsideRootsError(shown, _input(shown, f": the tenant has no scoring roots, {_OUTSIDE}"))
        try:
            ref = SourceRef.parse(text)
        except SourceSyntaxError as error:
            message = _input(error.source, f": {error.reason}, {_OUTSIDE}")
            raise OutsideRootsError(error.source, message) from None
        if not self.admits(ref):
            raise OutsideRootsError(ref.shown, _input(ref.shown, f" is {_OUTSIDE}"))
        return ref

    def admits(self, ref: SourceRef) -> bool:
        """Return whether `ref` lies below a root, judged by its text alone."""
        return any(_admits(root, ref) for root in self.roots)

    def admit_redirect(self, ref: SourceRef, location: str) -> SourceRef:
        """Return the URL that a server sent the request for `ref` on to, if it lies below a root.

        Args:
            ref: The input that was asked for.
            location: The next URL, absolute.

        Raises:
            OutsideRootsError: The location is no http(s) URL, or lies below no root.
        """
        try:
            hop = SourceRef.parse(location)
        except SourceSyntaxError as error:
            place = f"{quoted(error.source)}: {error.reason}"
            message = _input(ref.shown, f" redirects to {place}, {_OUTSIDE}")
            raise OutsideRootsError(ref.shown, message) from None
        if hop.kind is not SourceKind.HTTP or not self.admits(hop):
            raise OutsideRootsError(
                ref.shown, _input(ref.shown, f" redirects to {quoted(hop.shown)}, {_OUTSIDE}")
            )
        return hop

    def resolve(self, ref: SourceRef, real_path: RealPath) -> ResolvedSource:
        """Return where an input is to be read from; nothing may be opened before.

        Args:
            ref: The input.
            real_path: Follows links; it is called for local inputs and roots only.

        Raises:
            OutsideRootsError: The input's text lies below no root, or its real path lies below the real path
                of no local root.
            SourceError: The input's real path cannot be found, or that of a root by a fault of the machine.
        """
        if not self.admits(ref):
            raise OutsideRootsError(ref.shown, _input(ref.shown, f" is {_OUTSIDE}"))
        if ref.kind is not SourceKind.LOCAL:
            return ResolvedSource(ref=ref)
        try:
            real = real_path(ref.path)
        except SourceError as error:
            message = _input(ref.shown, f": resolve: {error}")
            raise SourceError(ref.shown, message, machine_fault=error.machine_fault) from error
        self.confine(ref, real, real_path)
        return ResolvedSource(ref=ref, real_path=real)

    def confine(self, ref: SourceRef, real: str, real_path: RealPath) -> None:
        """Check that a real path lies below the real path of a local root; a root that is not there has none.

        Args:
            ref: The input, for the error.
            real: The real path of the input, or of the file that was opened for it.
            real_path: Follows links; it is called for roots only.

        Raises:
            OutsideRootsError: It does not.
            SourceError: It may: a fault of the machine hides where a root is.
        """
        fault: SourceError | None = None
        for root in self.roots:
            if root.kind is not SourceKind.LOCAL:
                continue
            try:
                real_root = real_path(root.path)
            except SourceError as error:
                fault = error if error.machine_fault else fault
                continue
            if _below(real_root, real):
                return
        if fault is not None:
            message = _input(ref.shown, f": resolve a scoring root: {fault}")
            raise SourceError(ref.shown, message, machine_fault=True) from fault
        raise OutsideRootsError(ref.shown, _input(ref.shown, f" resolves to {quoted(real)}, {_OUTSIDE}"))

    def names_host(self, host: str) -> bool:
        """Return whether a root is a URL on this very host.

        Args:
            host: A host name or address, as `SourceRef.host` has it.
        """
        return any(root.kind is SourceKind.HTTP and root.host == host for root in self.roots)


@dataclass(frozen=True, slots=True, kw_only=True)
class RootTemplates:
    """Roots for every tenant, in which `{tenant}` stands for the tenant's id.

    Attributes:
        texts: The templates, as they were configured.
    """

    texts: tuple[str, ...] = ()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> RootTemplates:
        """Read templates; one that is malformed fails them all.

        Raises:
            SourceSyntaxError: A template gives no root, or there are more than 32.
        """
        _filled_all(texts, _SAMPLE)
        return cls(texts=tuple(texts))

    @property
    def sample(self) -> ScoringRoots:
        """The roots of some tenant, to look at their kinds and places."""
        return _filled_all(self.texts, _SAMPLE)

    @staticmethod
    def strange_words(text: str) -> tuple[str, ...]:
        """Return what looks in a template as `{tenant}` does and is not replaced."""
        return tuple(word for word in _WORD.findall(text) if word != _TENANT)

    def for_tenant(self, tenant: str) -> ScoringRoots:
        """Return the roots of one tenant.

        An id that could lead out of its place is never filled in: one that is empty, `.` or `..`, that holds
        a slash, a backslash, a colon, NUL or a surrogate, that starts or ends with a blank, or that makes
        another kind of root, or none, of a template.

        Raises:
            OutsideRootsError: The id cannot be filled in, so that nothing lies below this tenant's roots.
        """
        return _roots_of(tenant, self.texts)


_TENANTS_KEPT: Final = 256


@lru_cache(maxsize=_TENANTS_KEPT)  # each submission and each assignment asks for them
def _roots_of(tenant: str, texts: tuple[str, ...]) -> ScoringRoots:
    subject = f"scoring roots: tenant {quoted(tenant)}"
    if any(_TENANT in text for text in texts) and not _is_one_name(tenant):
        raise OutsideRootsError(tenant, f"{subject} cannot be part of a root")
    try:
        filled = _filled_all(texts, tenant)
    except SourceSyntaxError as error:
        raise OutsideRootsError(tenant, f"{subject}: {error}") from None
    if _kinds(filled) != _kinds(_filled_all(texts, _SAMPLE)):
        raise OutsideRootsError(tenant, f"{subject} cannot be part of a root")
    return filled


_TENANT: Final = "{tenant}"
_SAMPLE: Final = "tenant"
_WORD: Final = re.compile(r"\{[^{}/]*\}")
_DECODED_LATER: Final = re.compile(r"\s*(?!rclone:)(?:file:|[a-z][a-z0-9+.-]*://)", re.IGNORECASE)


def _admits(root: SourceRef, ref: SourceRef) -> bool:
    if (root.kind, root.base) != (ref.kind, ref.base):
        return False
    if root.path == "/":  # the whole remote, whichever way its paths are written
        return True
    return root.rooted == ref.rooted and _below(root.path, ref.path)


def _below(root: str, path: str) -> bool:
    return path == root or path.startswith(root if root.endswith("/") else f"{root}/")


def _input(shown: str, problem: str) -> str:
    return f"scoring input {quoted(shown)}{problem}"


def _filled_all(templates: Sequence[str], tenant: str) -> ScoringRoots:
    return ScoringRoots.parse([_filled(template, tenant) for template in templates])


def _kinds(roots: ScoringRoots) -> list[SourceKind]:
    return [root.kind for root in roots.roots]


def _filled(template: str, tenant: str) -> str:
    # In a URL the id is encoded, since the URL is decoded: otherwise `%61cme` would be the tenant `acme`.
    return template.replace(_TENANT, quote(tenant, safe="") if _DECODED_LATER.match(template) else tenant)


def _is_one_name(tenant: str) -> bool:
    if not tenant or tenant in {".", ".."} or tenant != tenant.strip():
        return False
    if any("\ud800" <= char <= "\udfff" for char in tenant):  # they could spell another tenant's bytes
        return False
    return not any(char in "/\\:\0" for char in tenant)
