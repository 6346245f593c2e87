"""SelfTestCache: remembers that a self-test succeeded; anything odd about it is a miss (ADR 0003)."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeGuard

from vmafx.adapters.vmaf_cli.capabilities import Capabilities

__all__ = ["ENTRY_BYTES_MAX", "SelfTestCache", "file_facts"]

ENTRY_BYTES_MAX: Final = 64 * 1024
"""Largest entry that is read, in bytes."""
_FORMAT: Final = 1
_FOLDER: Final = "self-test"


def file_facts(paths: Iterable[str]) -> list[list[str | int]] | None:
    """Return what tells files from later ones in their place; None when one is not there.

    Args:
        paths: The files.
    """
    facts: list[list[str | int]] = []
    for path in paths:
        try:
            status = Path(path).stat()
        except OSError:
            return None
        facts.append([path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns])
    return facts


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestCache:
    """Successes of self-tests in a directory that only its owner can use.

    Attributes:
        directory: An absolute path; its folder for these entries is made when it is needed.
    """

    directory: str

    def load(self, facts: Mapping[str, object]) -> Capabilities | None:
        """Return what is remembered of the very same facts; None when nothing is.

        Args:
            facts: Everything that the test depended on; can be written as JSON.
        """
        try:
            if not _is_private(os.lstat(self._folder), stat.S_ISDIR):
                return None
            entry = json.loads(_content(self._path(facts)))
        except (OSError, ValueError, RecursionError):
            return None
        return _capabilities(entry, facts)

    def store(self, facts: Mapping[str, object], capabilities: Capabilities) -> None:
        """Remember a success; a directory that cannot be used is left alone.

        Args:
            facts: Everything that the test depended on; can be written as JSON.
            capabilities: What the executable said of itself.
        """
        entry = {
            "facts": facts,
            "format": _FORMAT,
            "options": sorted(capabilities.options),
            "version": capabilities.version,
        }
        with suppress(OSError):
            Path(self._folder).mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_private(os.lstat(self._folder), stat.S_ISDIR):
                _write_atomically(self._path(facts), json.dumps(entry).encode())

    @property
    def _folder(self) -> str:
        return f"{self.directory}/{_FOLDER}"

    def _path(self, facts: Mapping[str, object]) -> str:
        name = hashlib.sha256(_canonical(facts).encode()).hexdigest()
        return f"{self._folder}/{name}.json"


def _content(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not _is_private(os.fstat(descriptor), stat.S_ISREG):
            return b""
        return os.read(descriptor, ENTRY_BYTES_MAX)
    finally:
        os.close(descriptor)


def _write_atomically(path: str, data: bytes) -> None:
    aside = f"{path}.{os.getpid()}"
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)
        Path(aside).replace(path)
    except OSError:
        with suppress(OSError):
            Path(aside).unlink()
        raise


def _capabilities(entry: object, facts: Mapping[str, object]) -> Capabilities | None:
    if not _is_object(entry) or entry.get("format") != _FORMAT:
        return None
    version, options = entry.get("version"), entry.get("options")
    if _canonical(entry.get("facts")) != _canonical(facts) or not isinstance(version, str):
        return None
    if not _is_list(options):
        return None
    words = frozenset(word for word in options if isinstance(word, str))
    return Capabilities(version=version, options=words) if len(words) == len(options) else None


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _is_private(status: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    return is_kind(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)
