"""GrpcListenerSettings: the listener for calls (ADR 0019)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from vmafx.app.settings.forms import BOOLEAN, LISTEN, PATH, Form, whole
from vmafx.app.settings.parts import Part, Rule, optional, setting
from vmafx.domain.address import HostPort
from vmafx.domain.errors import ConfigurationError

__all__ = ["GrpcListenerSettings"]

MESSAGE_BYTES_MAX: Final = 2**31 - 1
"""The largest limit that gRPC can be given."""
_MESSAGE_BYTES: Final = 4_194_304
"""The largest message that is taken or sent where nothing else is said: what gRPC itself takes."""
_SIZE: Final = Form(parse=whole(0, MESSAGE_BYTES_MAX).parse, check=whole(1, MESSAGE_BYTES_MAX).check)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcListenerSettings(Part):
    """The listener for calls.

    Attributes:
        address: Where it listens.
        tls: Whether it speaks TLS; needs both files.
        cert_file: Its certificate, in PEM.
        key_file: The certificate's key, in PEM.
        receive_bytes_max: The largest message that is taken.
        send_bytes_max: The largest message that is sent.
    """

    address: HostPort = setting("VMAFX_GRPC_LISTEN", LISTEN, HostPort(host="", port=50_052))
    tls: bool = setting("VMAFX_GRPC_TLS", BOOLEAN, default=False)
    cert_file: str | None = optional("VMAFX_GRPC_CERT_FILE", PATH)
    key_file: str | None = optional("VMAFX_GRPC_KEY_FILE", PATH)
    receive_bytes_max: int = setting("VMAFX_GRPC_MAX_RECV_SIZE", _SIZE, _MESSAGE_BYTES, zero_is_default=True)
    send_bytes_max: int = setting("VMAFX_GRPC_MAX_SEND_SIZE", _SIZE, _MESSAGE_BYTES, zero_is_default=True)

    def rules(self) -> tuple[Rule, ...]:
        """Return what the fields must be together."""
        return (
            Rule(fields=frozenset({"tls", "cert_file", "key_file"}), broken=partial(_tls_has_files, self)),
        )


def _tls_has_files(settings: GrpcListenerSettings) -> Iterator[ConfigurationError]:
    if settings.tls and (settings.cert_file is None or settings.key_file is None):
        problem = "needs VMAFX_GRPC_CERT_FILE and VMAFX_GRPC_KEY_FILE"
        yield ConfigurationError("VMAFX_GRPC_TLS", problem, value="true")
