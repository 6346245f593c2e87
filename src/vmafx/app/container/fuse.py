"""Whether this machine can mount in user space: `vmafx doctor` shows it, a node that must mount needs it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["DEVICE", "fuse_helper", "fuse_problem"]

DEVICE: Final = "/dev/fuse"
_HELPERS: Final = ("fusermount3", "fusermount")


def fuse_problem(environment: Mapping[str, str], *, device: str = DEVICE) -> str | None:
    """Return what a mount lacks here, in one line; None when nothing.

    Whether the kernel then allows a mount is not tried.

    Args:
        environment: The environment of this process.
        device: The device that mounts are made with.
    """
    missing: list[str] = []
    if not _is_device(device):
        missing.append(f"no {device}")
    elif not os.access(device, os.R_OK | os.W_OK):
        missing.append(f"{device} may not be opened")
    if fuse_helper(environment) is None:
        missing.append(f"no {' or '.join(_HELPERS)}")
    return ", ".join(missing) or None


def fuse_helper(environment: Mapping[str, str]) -> str | None:
    """Return the program that mounts and unmounts for users; None where there is none.

    Args:
        environment: The environment of this process; the program is looked for on its `PATH`.
    """
    path = environment.get("PATH", "")
    return next((found for name in _HELPERS if (found := shutil.which(name, path=path))), None)


def _is_device(path: str) -> bool:
    try:
        return stat.S_ISCHR(Path(path).stat().st_mode)
    except OSError:
        return False
