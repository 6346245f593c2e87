"""What settings need of the machine, looked at before a node starts; the looking is given in (ADR 0019)."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from vmafx.app.settings.controller_client import CLIENT, ControllerClientSettings
from vmafx.app.settings.storage import SourceSettings, StorageMode, StorageSettings
from vmafx.domain.errors import ConfigurationError

__all__ = ["FileChecks", "file_problems"]

_MODE: Final = "VMAFX_STORAGE_MODE"
_HEADERS: Final = "VMAFX_HTTP_HEADERS_FILE"
_NOT_0600: Final = 0o177


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChecks:
    """How the machine is looked at.

    Attributes:
        certificates: Takes the path of a file of certificates; refuses with `ConfigurationError`.
        mode: Takes a path and returns the file's type and permissions, as in `st_mode`, links followed;
            raises `OSError` where there is no such file.
        fuse: Returns what a mount in user space lacks here; None when nothing.
    """

    certificates: Callable[[str], object]
    mode: Callable[[str], int]
    fuse: Callable[[], str | None]


def file_problems(
    controller: ControllerClientSettings,
    storage: StorageSettings,
    sources: SourceSettings,
    checks: FileChecks,
) -> Iterator[ConfigurationError]:
    """Look at what a node needs when it starts; a token file is not part of it: calls read it.

    Args:
        controller: Which controller is called, and how; its certificates matter where it is called over TLS.
        storage: How remotes of rclone are read.
        sources: How remote clips are read.
        checks: How the machine is looked at.

    Yields:
        What is wrong with each.
    """
    if controller.enabled and controller.tls and controller.ca_file is not None:
        try:
            checks.certificates(controller.ca_file)
        except ConfigurationError as error:
            yield ConfigurationError(error.setting, error.problem, value=error.value, group=CLIENT)
    if storage.mode is StorageMode.MOUNT:
        reason = checks.fuse()
        if reason is not None:
            yield ConfigurationError(_MODE, f"storage: mode mount needs FUSE: {reason}")
    if sources.http_headers_file is not None:
        problem = _problem_of_headers(sources.http_headers_file, checks.mode)
        if problem is not None:
            yield ConfigurationError(_HEADERS, problem, value=sources.http_headers_file)


def _problem_of_headers(path: str, mode_of: Callable[[str], int]) -> str | None:
    """What is wrong with a file of request headers, which hold credentials."""
    try:
        mode = mode_of(path)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    if not stat.S_ISREG(mode):
        return "is no regular file"
    if mode & _NOT_0600:
        return f"must have mode 0600, not {stat.S_IMODE(mode):04o}"
    return None
