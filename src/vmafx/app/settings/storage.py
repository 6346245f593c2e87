"""StorageSettings, SourceSettings and SpoolSettings: for remote clips and undelivered results (ADR 0019)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from vmafx.app.settings.forms import BYTES_MAX, PATH, POSITIVE_DURATION, PROGRAM, SCHEMES, Form, whole, word
from vmafx.app.settings.parts import Part, optional, setting
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.text import quoted

__all__ = ["SourceSettings", "SpoolSettings", "StorageMode", "StorageSettings"]

_MODE: Final = "VMAFX_STORAGE_MODE"


class StorageMode(Enum):
    """How rclone's remotes are read; `auto` mounts where mounting works."""

    HTTP_SERVE = "http-serve"
    MOUNT = "mount"
    AUTO = "auto"


def _mode(name: str, text: str) -> StorageMode:
    try:
        return StorageMode(text)
    except ValueError:
        problem = (
            f"storage ({name}={quoted(text)}): storage: unknown mode {quoted(text)} "
            "(want http-serve, mount or auto)"
        )
        raise ConfigurationError(name, problem, named=True) from None


_MODES: Final = Form(parse=_mode, check=word(StorageMode).check, show=word(StorageMode).show)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings(Part):
    """How remotes of rclone are read.

    Attributes:
        mode: Served over HTTP or mounted.
        mount_root: The folder of mount points; None means that of temporary files.
        rclone: The name or path of rclone.
        rclone_config: Its configuration; None means its own choice.
    """

    mode: StorageMode = setting(_MODE, _MODES, StorageMode.AUTO)
    mount_root: str | None = optional("VMAFX_STORAGE_MOUNT_ROOT", PATH)
    rclone: str = setting("VMAFX_RCLONE_BIN", PROGRAM, "rclone")
    rclone_config: str | None = optional("VMAFX_RCLONE_CONFIG", PATH)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings(Part):
    """How remote clips are read.

    Attributes:
        idle_timeout_s: How long a stream may bring no byte, in seconds.
        fsspec_schemes: The schemes that fsspec reads; None means none.
        http_headers_file: Further headers of requests, for each host; its owner's alone.
    """

    idle_timeout_s: float = setting("VMAFX_SOURCE_IDLE_TIMEOUT", POSITIVE_DURATION, 60.0)
    fsspec_schemes: tuple[str, ...] | None = optional("VMAFX_FSSPEC_SCHEMES", SCHEMES)
    http_headers_file: str | None = optional("VMAFX_HTTP_HEADERS_FILE", PATH)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolSettings(Part):
    """Where results are kept that could not be delivered.

    Attributes:
        folder: The folder; None means the one of the user's state.
        bytes_max: The most that is kept.
    """

    folder: str | None = optional("VMAFX_SPOOL_DIR", PATH)
    bytes_max: int = setting("VMAFX_SPOOL_MAX_BYTES", whole(1, BYTES_MAX), 67_108_864)
