"""What grpc reads from the environment (ADR 0017).

It is set before grpc is imported, so nothing here imports it.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from typing import Final

__all__ = ["TLS13_CIPHERS", "quieten", "restrict_to_tls13"]

TLS13_CIPHERS: Final = "ECDHE-PSK-CHACHA20-POLY1305"
"""A list for TLS 1.2 and below of one suite that needs a key agreed beforehand, which nobody here has.

TLS 1.3 has a list of its own, which this leaves alone: what is left is 1.3, as a client and as a server.
"""


def restrict_to_tls13(environ: MutableMapping[str, str]) -> bool:
    """Make grpc refuse TLS below 1.3 in this whole process; for programs, before anything imports grpc.

    Args:
        environ: The process's environment, `os.environ`; what it says about ciphers is replaced.

    Returns:
        Whether it came in time: False when grpc was imported before, and then nothing was changed and
        channels have to prove the version themselves.
    """
    if "grpc" in sys.modules:
        return False
    environ["GRPC_SSL_CIPHER_SUITES"] = TLS13_CIPHERS
    return True


def quieten(environ: MutableMapping[str, str]) -> None:
    """Keep grpc's own lines out of standard error, unless the environment asks for them.

    What matters of them comes with the error of the call, and a log should hold nothing but events.

    Args:
        environ: The process's environment, `os.environ`, before anything imports grpc.
    """
    environ.setdefault("GRPC_VERBOSITY", "NONE")
    environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
