"""Source references: where a clip is, read once by one parser and typed from then on (ADR 0011)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from vmafx.domain.errors import SourceSyntaxError
from vmafx.domain.source_syntax import (
    SOURCE_BYTES_MAX,
    URL,
    Form,
    RefusedError,
    SourceKind,
    read,
    refuse_long,
    split_authority,
    with_true_bytes,
)
from vmafx.domain.text import shown

__all__ = [
    "SHOWN_BYTES_MAX",
    "SOURCE_BYTES_MAX",
    "Form",
    "ServedAsset",
    "SourceKind",
    "SourceRef",
    "shown_source",
]

SHOWN_BYTES_MAX: Final = 1024
"""Longest form for logs and errors, in bytes of UTF-8."""

_PATH_SAFE: Final = "/!$&'()*+,;=:@~"
_URL_SAFE: Final = "%/:?#[]@!$&'()*+,;=~"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedAsset:
    """A source on a remote, split into what rclone serves and what is fetched from it.

    Attributes:
        directory: The directory in rclone's words, such as `s3:bucket/p`; it never starts like an option.
        asset: The name of one file in it: not empty, without `/`, not encoded.
    """

    directory: str
    asset: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SourceRef:
    """Where a clip is, or below where clips may be: a local path, an http(s) URL, a path on an rclone remote.

    Values come from `parse`; their text is not parsed a second time.

    Attributes:
        kind: Who opens it.
        base: Empty for a local path; `scheme://host[:port]` in lower case for a URL; the remote's name with
            its colon (`s3:`, `:local:`) for a remote.
        path: Absolute, decoded, without `.`, `..` or empty elements, without a trailing `/`. Bytes that are
            no UTF-8 are surrogates, as in names of files.
        rooted: Whether the path on a remote was written with a leading `/`; False for the other kinds. On
            some remotes `sftp:media` is below a home directory and `sftp:/media` is not.
        text: As written, trimmed. It may hold secrets: people are shown `shown`, also by `repr`.
    """

    kind: SourceKind
    base: str
    path: str
    rooted: bool = False
    text: str

    @classmethod
    def parse(cls, text: str) -> SourceRef:
        """Read a reference as an input of a job or a scoring root has it.

        Args:
            text: Any text; blanks around it do not count.

        Raises:
            SourceSyntaxError: The text is no reference, or could be read in two ways. Its `source` is fit to
                be shown.
        """
        try:
            return _read(text)
        except RefusedError as refusal:
            raise SourceSyntaxError(_fit(_without_secrets(text.strip())), refusal.reason) from None

    def __repr__(self) -> str:
        return f"SourceRef({self.kind.name}, {self.shown!r})"

    @property
    def form(self) -> Form:
        """What is compared: two references name the same place where their forms are equal."""
        return Form(self.kind, self.base, self.path, self.rooted)

    @property
    def canonical(self) -> str:
        """One text for each form: parsing it gives the same form again."""
        if self.kind is SourceKind.HTTP:
            return self.base + quote(self.path, safe=_PATH_SAFE, errors="surrogateescape")
        text = self.path if self.kind is SourceKind.LOCAL else self.rclone_name
        # Blanks around a reference do not count, nor does a trailing slash: so the slash keeps a last blank.
        return text + "/" if text[-1].isspace() else text

    @property
    def shown(self) -> str:
        """The reference for logs and errors: as written, without query and user info, printable, bounded."""
        if self.kind is SourceKind.LOCAL:
            return _fit(self.text)
        prefix = _RCLONE_URL.match(self.text)
        if URL.match(self.text) and not prefix:
            return _fit(_USER_INFO.sub("", _before_query(self.text), count=1))
        name = self.text[prefix.end() :] if prefix else self.text
        # `http:/host/path` is a remote by the rules and a link by the looks.
        return _fit(_without_secrets(self.text) if _LINK_START.match(name) else self.text)

    @property
    def url(self) -> str:
        """The URL to request, as written; characters that no URL may hold are percent-encoded as UTF-8.

        Raises:
            ValueError: The source is no URL.
        """
        self._require(SourceKind.HTTP)
        return quote(self.text, safe=_URL_SAFE, errors="surrogateescape")

    @property
    def host(self) -> str:
        """The host of a URL: lower case, without port and brackets.

        Raises:
            ValueError: The source is no URL.
        """
        self._require(SourceKind.HTTP)
        return split_authority(self.base.partition("://")[2]).host.strip("[]")

    @property
    def rclone_name(self) -> str:
        """The source in rclone's words: the very path that is compared, never one that starts like an option.

        Raises:
            ValueError: The source is on no remote.
        """
        self._require(SourceKind.REMOTE)
        return self.base + (self.path if self.rooted else self.path[1:])

    def served(self) -> ServedAsset:
        """Return the source split into what rclone serves and what is fetched from it.

        Raises:
            ValueError: The source is on no remote.
            SourceSyntaxError: The source names a whole remote and no file on it.
        """
        self._require(SourceKind.REMOTE)
        parent, _, asset = self.path.rpartition("/")
        if not asset:
            raise SourceSyntaxError(self.shown, "it names no file on the remote")
        top = "/" if self.rooted else ""
        return ServedAsset(directory=self.base + top + parent[1:], asset=asset)

    def _require(self, kind: SourceKind) -> None:
        if self.kind is not kind:
            raise ValueError(f"a source of kind {self.kind.value} is none of kind {kind.value}")


def shown_source(text: str) -> str:
    """Return any reference, well-formed or not, for logs and errors: see `SourceRef.shown`."""
    try:
        return SourceRef.parse(text).shown
    except SourceSyntaxError as error:
        return error.source


def _read(text: str) -> SourceRef:
    written = with_true_bytes(text).strip()
    kind, base, path, rooted = read(written)
    ref = SourceRef(kind=kind, base=base, path=path, rooted=rooted, text=written)
    refuse_long(ref.canonical)
    return ref


# ---------------------------------------------------------------- showing

_RCLONE_URL: Final = re.compile(r"rclone://", re.IGNORECASE | re.ASCII)
_QUERY: Final = re.compile(r"[?#]")
_USER_INFO: Final = re.compile(r"(?<=://)[^/?#]*@")
_LINK_START: Final = re.compile(r".*?(?://|\bhttps?:/*)", re.IGNORECASE | re.DOTALL)
_OPTIONS_START: Final = re.compile(r"(:?[^:,/]*),")
_OPTIONS: Final = re.compile(r"(:?[^:,/]*),.*:.*", re.DOTALL)


def _fit(text: str) -> str:
    return shown(text, SHOWN_BYTES_MAX)


def _before_query(text: str) -> str:
    return _QUERY.split(text, maxsplit=1)[0]


def _without_secrets(text: str) -> str:
    # Nothing understood this text: what looks like a link, or like a remote with options, is cut generously.
    if text.startswith("/"):
        return text
    if len(text) > SOURCE_BYTES_MAX:
        return _start_without_secrets(text[:SHOWN_BYTES_MAX])
    if start := _LINK_START.match(text):
        rest = text[start.end() :]
        place = _before_query(rest)
        if "@" in rest and "@" not in place:  # perhaps a password that holds "?" or "#"
            return f"{start[0]}…"
        return start[0] + place.rpartition("@")[2]
    if options := _OPTIONS.fullmatch(text):
        return f"{options[1]},…"
    return text


def _start_without_secrets(text: str) -> str:
    """Return what may be shown of the start of a text that is too long to be looked through."""
    if start := _LINK_START.match(text):
        return f"{start[0]}…"
    if options := _OPTIONS_START.match(text):
        return f"{options[1]},…"
    return f"{text}…"
