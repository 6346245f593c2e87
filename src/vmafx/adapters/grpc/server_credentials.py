"""TLS of a listener: its certificate and the key to it (ADR 0026)."""

from __future__ import annotations

import os
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from vmafx.domain.errors import ConfigurationError
from vmafx.domain.text import bounded, printable

__all__ = ["CERT_FILE", "KEY_FILE", "PEM_BYTES_MAX", "ServerTls", "server_credentials"]

CERT_FILE: Final = "VMAFX_GRPC_CERT_FILE"
KEY_FILE: Final = "VMAFX_GRPC_KEY_FILE"
PEM_BYTES_MAX: Final = 1024 * 1024
"""Largest file of a certificate with its chain, or of a key, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTls:
    """How a listener speaks TLS; that it is 1.3 at least, the program sees to (`restrict_to_tls13`).

    Attributes:
        cert_file: Its certificate and the chain above it, as PEM.
        key_file: The certificate's key, as PEM, without a password.
    """

    cert_file: Path
    key_file: Path


def server_credentials(tls: ServerTls) -> grpc.ServerCredentials:
    """Return what grpc needs to speak TLS; grpc itself would say of a bad file that binding failed.

    Raises:
        ConfigurationError: A file cannot be read, or holds nothing that can be used; names the setting.
    """
    chain, key = _content(CERT_FILE, tls.cert_file), _content(KEY_FILE, tls.key_file)
    _check(tls)
    return grpc.ssl_server_credentials([(key, chain)])


def _content(setting: str, path: Path) -> bytes:
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigurationError(setting, "is no regular file", value=_shown(path))
            data = file.read(PEM_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        problem = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigurationError(setting, f"cannot be read: {problem}", value=_shown(path)) from error
    if len(data) > PEM_BYTES_MAX:
        raise ConfigurationError(setting, f"is larger than {PEM_BYTES_MAX} bytes", value=_shown(path))
    return data


def _check(tls: ServerTls) -> None:
    """Have OpenSSL read both files as grpc will.

    Raises:
        ConfigurationError: They cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(tls.cert_file)
    except (OSError, ssl.SSLError) as error:
        problem = "holds no certificate that can be read, in PEM"
        raise ConfigurationError(CERT_FILE, problem, value=_shown(tls.cert_file)) from error
    asked: list[None] = []

    def no_password() -> str:
        asked.append(None)
        return ""

    try:
        context.load_cert_chain(tls.cert_file, tls.key_file, password=no_password)
    except (OSError, ssl.SSLError) as error:
        if asked:
            problem = "holds a key with a password; it must have none"
        elif isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
            problem = f"holds a key that does not belong to the certificate of {CERT_FILE}"
        else:
            problem = "holds no key that can be read, in PEM"
        raise ConfigurationError(KEY_FILE, problem, value=_shown(tls.key_file)) from error


def _shown(path: Path) -> str:
    return bounded(printable(str(path)), 1024)
