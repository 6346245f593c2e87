"""TLS to the controller: whom we trust, and what the controller must be called (ADR 0017)."""

from __future__ import annotations

import os
import re
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vmafx.domain.address import is_host
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.text import bounded, printable

__all__ = ["CA_BYTES_MAX", "CA_FILE", "SERVER_NAME", "TlsOptions", "trusted_roots"]

CA_FILE: Final = "VMAFX_CONTROLLER_CA_FILE"
SERVER_NAME: Final = "VMAFX_CONTROLLER_SERVER_NAME"
CA_BYTES_MAX: Final = 16 * 1024 * 1024
"""Largest file of certificates in bytes; the system's own bundles take a quarter of a megabyte."""
_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----\s.+?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """How TLS is spoken; the version is 1.3 at least, whatever is said here.

    Attributes:
        ca_file: PEM certificates to trust instead of the system's.
        server_name: What the controller's certificate must name; None means the host of the address.
        refused_below_13: Whether grpc itself refuses lower versions: what `restrict_to_tls13` returned. If
            not, each channel proves the version with a handshake of its own.

    Raises:
        ConfigurationError: The server name is no host name.
    """

    ca_file: Path | None = None
    server_name: str | None = None
    refused_below_13: bool = False

    def __post_init__(self) -> None:
        if self.server_name is not None and not is_host(self.server_name):
            raise ConfigurationError(SERVER_NAME, "is no host name", value=self.server_name)


def trusted_roots(ca_file: Path | None) -> bytes:
    """Return the certificates to trust, as PEM.

    Args:
        ca_file: Where they are; None means the system's: the bundle or directory that OpenSSL is set up
            with, or what `SSL_CERT_FILE` or `SSL_CERT_DIR` name.

    Raises:
        ConfigurationError: The file cannot be read or holds no certificate, or the system has none.
    """
    return _system_roots() if ca_file is None else _roots_of(ca_file)


def _roots_of(ca_file: Path) -> bytes:
    shown = bounded(printable(str(ca_file)), 1024)
    try:
        data = _content(ca_file)
    except (OSError, ValueError) as error:
        problem = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigurationError(CA_FILE, f"read controller CA file: {shown}: {problem}") from error
    roots = b"\n".join(_PEM.findall(data))
    if not roots:
        raise ConfigurationError(CA_FILE, f"controller CA file {shown} holds no PEM certificate")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=roots.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        problem = f"controller CA file {shown} holds a PEM certificate that cannot be read"
        raise ConfigurationError(CA_FILE, problem) from error
    return roots + b"\n"


def _content(path: Path) -> bytes:
    # Without O_NONBLOCK, opening a pipe would wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("is no regular file")
        data = file.read(CA_BYTES_MAX + 1)
    if len(data) > CA_BYTES_MAX:
        raise ValueError(f"is larger than {CA_BYTES_MAX} bytes")
    return data


def _system_roots() -> bytes:
    places = ssl.get_default_verify_paths()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_default_certs()
    directory = Path(places.capath or os.devnull)
    if not context.get_ca_certs() and directory.is_dir():
        for path in sorted(directory.iterdir()):  # OpenSSL reads them only when it needs one
            _load(context, path)
    roots = context.get_ca_certs(binary_form=True)
    if not roots:
        looked = f"{places.openssl_cafile}, {places.openssl_capath}, SSL_CERT_FILE and SSL_CERT_DIR"
        raise ConfigurationError(
            CA_FILE, f"unset, and the system has no certificates to trust (see {looked})"
        )
    return "".join(map(ssl.DER_cert_to_PEM_cert, roots)).encode()


def _load(context: ssl.SSLContext, path: Path) -> None:
    try:
        context.load_verify_locations(cafile=path)
    except (OSError, ssl.SSLError):  # a README, a directory, a list of revocations
        return
