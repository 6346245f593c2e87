"""The one grammar of source references and scoring roots: text to its canonical form (ADR 0011).

What it refuses is refused everywhere. What it accepts has one reading, also for those who open it later: the
operating system, an HTTP server, rclone.
"""

from __future__ import annotations

import re
from enum import Enum
from ipaddress import IPv6Address
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

__all__ = [
    "SOURCE_BYTES_MAX",
    "URL",
    "Authority",
    "Form",
    "RefusedError",
    "SourceKind",
    "read",
    "refuse_long",
    "split_authority",
    "with_true_bytes",
]

SOURCE_BYTES_MAX: Final = 8192
"""Longest reference in bytes of UTF-8, as written and in canonical form; signed links take 2 KiB or so."""

URL: Final = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)", re.IGNORECASE | re.ASCII
)
"""The start of a URL with an authority, up to its query or fragment."""


class SourceKind(Enum):
    """Who opens a source; the values are the labels of metrics."""

    LOCAL = "local"
    HTTP = "http"
    REMOTE = "rclone"


class Form(NamedTuple):
    """The canonical form: two references name the same place where their forms are equal.

    The fields are those of `SourceRef`.
    """

    kind: SourceKind
    base: str
    path: str
    rooted: bool


class RefusedError(Exception):
    """Text is no reference; `SourceRef.parse` turns it into an error that names the text.

    Attributes:
        reason: What is wrong, without the text itself.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def read(text: str) -> Form:
    """Return the canonical form of a reference.

    Args:
        text: Trimmed text that went through `with_true_bytes`.

    Raises:
        RefusedError: The text is no reference, or could be read in two ways.
    """
    _refuse_unfit(text)
    if not text:
        raise RefusedError("empty")
    if text.startswith("/"):
        return Form(SourceKind.LOCAL, "", _cleaned(text), rooted=False)
    if text[:5].lower() == "file:":
        return _read_file_url(text)
    if match := URL.match(text):
        scheme = match["scheme"].lower()
        return _read_web_url(match) if scheme in {"http", "https"} else _read_remote_url(match)
    if ":" not in text:
        raise RefusedError("a relative path is not accepted; give an absolute path")
    return _read_remote(text)


# ---------------------------------------------------------------- kinds

_NOT_A_FILE_URL: Final = "not a file:///absolute/path URL"
_NOT_A_URL: Final = "not a URL"
_NO_KIND: Final = "not an absolute path, an http(s) URL or an rclone remote (remote:path)"

# rclone's own rule for the name of a remote. Other names it takes for a local path, an option or a mistake.
_REMOTE_NAME: Final = re.compile(r":?[\w.+@](?:[\w.+@ -]*[\w.+@-])?")
_SCHEMES_WITH_PORT: Final = frozenset({"ftp", "sftp"})
# A remote whose encoding is switched off reads these full-width signs as `.` and `/`: two of the first lead
# out of a directory.
_LOOK_ALIKES: Final = {0xFF0E: ".", 0xFF0F: "/"}


def _read_file_url(text: str) -> Form:
    path = text[5:].removeprefix("//")
    if not path.startswith("/"):
        raise RefusedError(_NOT_A_FILE_URL)
    if "?" in path or "#" in path:
        # Dropping a query would score another file than the one whose name holds the sign.
        raise RefusedError(f'{_NOT_A_FILE_URL}: "?" and "#" in a name are written %3F and %23')
    return Form(SourceKind.LOCAL, "", _cleaned(_decoded(path, _NOT_A_FILE_URL)), rooted=False)


def _read_web_url(match: re.Match[str]) -> Form:
    authority = split_authority(match["authority"])
    _check_web_host(authority.host)
    base = f"{match['scheme']}://{authority.host}{authority.port_suffix}".lower()
    return Form(SourceKind.HTTP, base, _cleaned(_decoded(match["path"], _NOT_A_URL)), rooted=False)


def _read_remote_url(match: re.Match[str]) -> Form:
    scheme = match["scheme"].lower()
    if scheme == "rclone":
        return _read_remote(match.string[len("rclone://") :])
    authority = split_authority(match["authority"])
    place = authority.host
    if "%" in authority.user + place:
        raise RefusedError(f'{_NOT_A_URL}: "%" is not accepted before its path')
    if scheme in _SCHEMES_WITH_PORT:
        place = f"{authority.user}@{place}" if authority.user else place
        place += authority.port_suffix
    elif authority.port_suffix:
        raise RefusedError(f"{_NOT_A_URL}: a port has no meaning for {scheme}")
    return _read_remote(f"{scheme}:{place}{_decoded(match['path'], _NOT_A_URL)}")


def _read_remote(name: str) -> Form:
    # The name of a backend made on the fly starts with a colon of its own and ends at the second one.
    end = name.find(":", 1)
    if end < 0:
        raise RefusedError(_NO_KIND)
    remote, path = name[:end], name[end + 1 :]
    if any(sign in remote for sign in ",'\"{}"):
        raise RefusedError("commas, quotes and braces are not accepted in the name of a remote")
    if not _REMOTE_NAME.fullmatch(remote) or remote.lower() == "file":  # `file:` is a local path elsewhere
        raise RefusedError(_NO_KIND)
    _cleaned(path.translate(_LOOK_ALIKES))
    return Form(SourceKind.REMOTE, f"{remote}:", _cleaned(path), rooted=path.startswith("/"))


# ---------------------------------------------------------------- hosts

_HOST: Final = re.compile(r"[a-z0-9._-]+", re.IGNORECASE | re.ASCII)
_BRACKETED: Final = re.compile(r"\[[0-9a-f:.]+\]", re.IGNORECASE | re.ASCII)
_PORT: Final = re.compile(r"[0-9]{1,5}")


class Authority(NamedTuple):
    """The part of a URL between `//` and its path.

    Attributes:
        user: The user's name; empty when there is none. A password is left out.
        host: The host, with brackets around an IPv6 address; it may be empty.
        port_suffix: A colon and the port; empty when there is none.
    """

    user: str
    host: str
    port_suffix: str


def split_authority(text: str) -> Authority:
    """Split the authority of a URL.

    Raises:
        RefusedError: It could be read in two ways, or is none.
    """
    user_info, at, place = text.rpartition("@")
    if "@" in user_info:
        raise RefusedError(f'{_NOT_A_URL}: it has more than one "@" before its path')
    host, colon, port = ("", "", "") if place.endswith("]") else place.rpartition(":")
    if not colon:
        host, port = place, ""
    elif not _PORT.fullmatch(port) or not 1 <= int(port) <= 65535:
        raise RefusedError(f"{_NOT_A_URL}: its port is no number from 1 to 65535")
    if (at or colon) and not host:
        raise RefusedError(f"{_NOT_A_URL}: it has no host")
    if ":" in host and not _is_ipv6(host):
        raise RefusedError(f"{_NOT_A_URL}: its host is no name and no [IPv6 address]")
    return Authority(user=user_info.partition(":")[0], host=host, port_suffix=colon + port)


def _check_web_host(host: str) -> None:
    if not host:
        raise RefusedError(f"{_NOT_A_URL}: it has no host")
    # Other signs are read differently by those who resolve, connect and check certificates; a name beyond
    # ASCII has its form in ASCII (`xn--...`).
    if not (_HOST.fullmatch(host) or _is_ipv6(host)):
        raise RefusedError(
            f'{_NOT_A_URL}: its host holds more than letters of ASCII, digits, ".", "_" and "-"'
        )


def _is_ipv6(host: str) -> bool:
    if not _BRACKETED.fullmatch(host):
        return False
    try:
        IPv6Address(host[1:-1])
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------- text

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


def with_true_bytes(text: str) -> str:
    """Return `text` so that each name of bytes has one text: bytes that are a character become it.

    Raises:
        RefusedError: The text holds a surrogate that stands for no byte.
    """
    try:
        return text.encode(errors="surrogateescape").decode(errors="surrogateescape")
    except UnicodeEncodeError:
        raise RefusedError("not valid text: it holds an unpaired surrogate") from None


def refuse_long(text: str) -> None:
    """Refuse text of more than `SOURCE_BYTES_MAX`.

    Raises:
        RefusedError: The text is longer.
    """
    if len(text.encode(errors="surrogateescape")) > SOURCE_BYTES_MAX:
        raise RefusedError(f"longer than {SOURCE_BYTES_MAX} bytes")


def _refuse_unfit(text: str) -> None:
    refuse_long(text)
    if "\\" in text:
        raise RefusedError("backslashes are not accepted")
    if _CONTROL.search(text):
        raise RefusedError("control characters are not accepted")


def _decoded(path: str, problem: str) -> str:
    if _BROKEN_ESCAPE.search(path):
        raise RefusedError(f'{problem}: a "%" without two hexadecimal digits')
    decoded = unquote_to_bytes(path.encode(errors="surrogateescape")).decode(errors="surrogateescape")
    _refuse_unfit(decoded)
    return decoded


def _cleaned(path: str) -> str:
    elements = [element for element in path.split("/") if element not in {"", "."}]
    if ".." in elements:
        raise RefusedError('".." is not accepted')
    return "/" + "/".join(elements)
