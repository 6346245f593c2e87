"""Files without a name: they end with the last descriptor of them, however this process ends (ADR 0005)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

__all__ = ["file_chunks", "unnamed_file"]

_CHUNK_BYTES: Final = 1 << 18


def unnamed_file(label: str, content: bytes = b"") -> int:
    """Return a descriptor of a new file that no directory knows, which holds `content`.

    It is memory where the system has such files, else a temporary file that was unlinked. A child given the
    descriptor opens it by its `/dev/fd` path.

    Args:
        label: What it is, for whoever looks at the descriptors of this process.
        content: What it holds at first.

    Raises:
        OSError: There is neither memory nor a temporary directory for it.
    """
    descriptor = _anonymous(label)
    try:
        _fill(descriptor, content)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def file_chunks(descriptor: int) -> Iterator[bytes]:
    """Read a regular file from its start; the descriptor's position stays where it is.

    Yields:
        Chunks of the file, none of them empty.
    """
    offset = 0
    while chunk := os.pread(descriptor, _CHUNK_BYTES, offset):
        offset += len(chunk)
        yield chunk


def _anonymous(label: str) -> int:
    if sys.platform == "linux":
        with suppress(OSError):  # forbidden here (vm.memfd_noexec, a seccomp filter): a file does as well
            return os.memfd_create(label)
    return _unlinked()


def _unlinked() -> int:
    import tempfile  # noqa: PLC0415 - costs 5 ms of every start and is needed on few systems

    with tempfile.TemporaryFile(prefix="vmafx-") as file:
        return os.dup(file.fileno())


def _fill(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    offset = 0
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        offset += written
        rest = rest[written:]
