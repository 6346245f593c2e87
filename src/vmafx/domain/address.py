"""Where a peer is, or where we listen, as settings write it: `host:port`, or a host alone (ADR 0017)."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

from vmafx.domain.errors import ConfigurationError

__all__ = ["ABSENT", "PORT_MAX", "HostPort", "is_host", "unbindable"]

PORT_MAX: Final = 65_535
ABSENT: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
"""What a system says of an address that it does not have: harmless while it has another of the same name."""
_HOST_BYTES_MAX: Final = 253
_LABEL: Final = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)", re.ASCII)
_NUMBERS: Final = re.compile(r"[0-9.]+", re.ASCII)
_PORT: Final = re.compile(r"[0-9]{1,5}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPort:
    """A host and a TCP port.

    Attributes:
        host: A host name, an IPv4 address or an IPv6 address without brackets, as it was written; empty for
            a listener on every address.
        port: From 1 to 65535; 0 for a listener that takes any free one.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, setting: str, text: str, *, listen: bool = False) -> HostPort:
        """Return what `text` names.

        Args:
            setting: Where the text comes from, for the error.
            text: `host:port`, `1.2.3.4:port` or `[v6]:port`; outer blanks do not matter.
            listen: Whether it is an address to listen on, which may leave the host out (`:9090`) and name
                port 0.

        Raises:
            ConfigurationError: It is none of these; names the setting, and tells what to write instead.
        """
        try:
            return _read(text.strip(), listen=listen)
        except _RefusedError as refusal:
            shown = None if "@" in text else text.strip()  # what stands before an @ may be a password
            raise ConfigurationError(setting, str(refusal), value=shown) from None


def is_host(text: str) -> bool:
    """Return whether `text` is what `HostPort.host` may be: a name or an address without brackets."""
    try:
        address = _read(f"[{text}]:1" if ":" in text else f"{text}:1", listen=False)
    except _RefusedError:
        return False
    return address.host == text


def unbindable(setting: str, address: HostPort, number: int | None) -> ConfigurationError:
    """Return the error for an address that nothing can listen on.

    Args:
        setting: Where the address comes from.
        address: The address that was tried.
        number: The `errno` of the failure; None when the host is a name that leads to no address.
    """
    if number is None:
        problem = "names a host that leads to no address; leave the host out to listen on every address"
    else:
        problem = _UNBINDABLE.get(number) or f"cannot be listened on ({errno.errorcode.get(number, number)})"
    return ConfigurationError(setting, problem, value=str(address))


_UNBINDABLE: Final[Mapping[int, str]] = {
    errno.EADDRINUSE: "is in use: another program listens there; stop it, or choose another port",
    errno.EADDRNOTAVAIL: "is no address of this machine; leave the host out to listen on every address",
    errno.EACCES: "needs a right that this process lacks; ports below 1024 often do",
    errno.EPERM: "needs a right that this process lacks; ports below 1024 often do",
    errno.EAFNOSUPPORT: "is of a kind that this machine has switched off (IPv4 or IPv6)",
    errno.EMFILE: "cannot be listened on: this process has as many open files as it may",
    errno.ENFILE: "cannot be listened on: this machine has as many open files as it may",
}


class _RefusedError(Exception):
    """Text is no address; says why, without the text."""


def _read(text: str, *, listen: bool) -> HostPort:
    _refuse_other_forms(text)
    if listen and _PORT.fullmatch(text):
        raise _RefusedError(f"has no host; write :{text} to listen on every address")
    host, port = _split(text)
    if not _PORT.fullmatch(port) or not (0 if listen else 1) <= int(port) <= PORT_MAX:
        raise _RefusedError(f"has a port that is no number from {0 if listen else 1} to {PORT_MAX}")
    return HostPort(host=_host(host, port, bracketed=text.startswith("["), listen=listen), port=int(port))


def _refuse_other_forms(text: str) -> None:
    if not text:
        raise _RefusedError("is empty; write host:port")
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise _RefusedError("holds blanks, control characters or letters beyond ASCII; write host:port")
    if "@" in text:
        raise _RefusedError("names a user; write host:port, and give credentials in settings of their own")
    if "://" in text:
        raise _RefusedError(
            "has a scheme; write host:port without one (whether TLS is used is a setting of its own)"
        )
    if "/" in text or "?" in text or "#" in text:
        raise _RefusedError("has a path or is one; write host:port")


def _split(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise _RefusedError("has brackets that do not match; write [address]:port")
        port = rest[1:]
    else:
        if text.count(":") > 1:
            raise _RefusedError("has several colons; an IPv6 address stands in brackets, as in [::1]:9090")
        host, _, port = text.partition(":")
    if not port:
        raise _RefusedError("has no port; write host:port")
    return host, port


def _host(host: str, port: str, *, bracketed: bool, listen: bool) -> str:
    if bracketed:
        return _ipv6(host)
    if not host:
        if listen:
            return host
        raise _RefusedError(f"names no host; for this machine write localhost:{port}")
    if _NUMBERS.fullmatch(host):
        return _ipv4(host)
    labels = host.removesuffix(".").split(".")
    if len(host) > _HOST_BYTES_MAX or not all(map(_LABEL.fullmatch, labels)):
        raise _RefusedError("holds no host name")
    return host


def _ipv4(host: str) -> str:
    try:
        IPv4Address(host)
    except AddressValueError:
        raise _RefusedError("holds numbers that are no IPv4 address") from None
    return host


def _ipv6(host: str) -> str:
    if "%" in host:
        raise _RefusedError("names an IPv6 zone, which is not supported")
    try:
        IPv6Address(host)
    except AddressValueError:
        raise _RefusedError("has brackets that hold no IPv6 address") from None
    return host
