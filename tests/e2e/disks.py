"""Small file systems for tests: they can be filled to the last byte, and break. Only root can have them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["NoDiskError", "SmallDisk", "ext4", "tmpfs"]


class NoDiskError(Exception):
    """Nothing can be mounted here."""


class SmallDisk:
    """A mounted file system of a few megabytes.

    Raises:
        NoDiskError: This machine or this user cannot have one.
    """

    def __init__(self, folder: Path, *source: str) -> None:
        self.folder = folder
        self._source = source
        self._filler = folder / "filler"
        folder.mkdir()
        self.mount()

    def mount(self) -> None:
        """Mount it, anew after it was unmounted."""
        done = _run("mount", *self._source, str(self.folder))
        if done.returncode:
            raise NoDiskError(done.stderr.strip())

    def unmount(self) -> None:
        """Take it away; it must be at rest."""
        assert _run("umount", str(self.folder)).returncode == 0

    def fill(self) -> None:
        """Leave no room at all."""
        with self._filler.open("wb", buffering=0) as file:
            for size in (65536, 4096, 1):
                try:
                    while True:
                        file.write(b"\0" * size)
                except OSError:
                    continue

    def empty(self) -> None:
        """Give the room back."""
        self._filler.unlink()

    def fail(self) -> None:
        """Have it turn read-only under whoever writes, as one with a journal does after an error."""
        _run("mount", "-o", "remount,abort", str(self.folder))


@contextmanager
def tmpfs(folder: Path) -> Iterator[SmallDisk]:
    """A file system in memory."""
    disk = SmallDisk(folder, "-t", "tmpfs", "-o", "size=4m", "vmafx-test")
    try:
        yield disk
    finally:
        _run("umount", "-l", str(folder))


@contextmanager
def ext4(folder: Path) -> Iterator[SmallDisk]:
    """A file system with a journal, in a file."""
    image = folder.with_suffix(".img")
    with image.open("wb") as file:
        file.truncate(16 << 20)
    try:
        made = _run("mkfs.ext4", "-q", "-F", str(image))
    except FileNotFoundError as error:
        raise NoDiskError(str(error)) from error
    assert made.returncode == 0, made.stderr
    disk = SmallDisk(folder, "-o", "loop", str(image))
    try:
        yield disk
    finally:
        _run("umount", "-l", str(folder))


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
