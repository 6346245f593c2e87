"""Which errors of a system say that this machine is at fault, whatever was asked of it (ADR 0010)."""

from __future__ import annotations

import errno
from typing import Final

__all__ = ["MACHINE_ERRNOS", "WANT_OF_SYSTEM"]

WANT_OF_SYSTEM: Final[frozenset[int]] = frozenset(
    {errno.EAGAIN, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC}
)
"""The numbers of those errors: no memory, space, descriptors or processes; another machine may have them."""

MACHINE_ERRNOS: Final[frozenset[int]] = WANT_OF_SYSTEM | {
    errno.ECONNABORTED,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.EIO,
    errno.ENOTCONN,
    errno.ESTALE,
    errno.ETIMEDOUT,
}
"""Those, and the ones of a file on a disk or mount of this machine that is in trouble."""
