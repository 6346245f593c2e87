"""What this machine lets a process do: the platform, and the processors it may use."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["available_processors", "platform_problem"]

_ROOT: Final = Path("/")


def platform_problem(platform: str) -> str | None:
    """Return why vmafx does not run here, in one line; None when it does.

    Args:
        platform: The platform, as in `sys.platform`.
    """
    if platform in {"win32", "cygwin"}:
        return "Windows is not supported; use Linux, macOS or the Windows Subsystem for Linux"
    return None


def available_processors(root: Path = _ROOT) -> int:
    """Return how many processors this process may use: its affinity, and the limit of its control group.

    Args:
        root: Where the files of the kernel are.
    """
    try:
        count = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # macOS has no affinity
        count = os.cpu_count() or 1
    return max(1, min([count, *(int(limit) for limit in _group_limits(root))]))


def _group_limits(root: Path) -> Iterator[float]:
    """Look at every control group from that of this process to the top.

    Yields:
        Its limit, in processors.
    """
    groups = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            yield from (_limit_v2(folder) for folder in _upward(groups, path))
        elif "cpu" in controllers.split(","):
            yield from (_limit_v1(folder) for folder in _upward(groups / "cpu", path))


def _upward(top: Path, path: str) -> Iterator[Path]:
    """Walk up from the folder of a group; a container may see its own group as the top.

    Yields:
        The group's folder and those above it.
    """
    folder = top / path.strip("/")
    while folder != top and top in folder.parents:
        yield folder
        folder = folder.parent
    yield top


def _limit_v2(folder: Path) -> float:
    return _ratio(*[*_text(folder / "cpu.max").split(), "", ""][:2])


def _limit_v1(folder: Path) -> float:
    return _ratio(_text(folder / "cpu.cfs_quota_us").strip(), _text(folder / "cpu.cfs_period_us").strip())


def _ratio(quota: str, period: str) -> float:
    if _NUMBER.fullmatch(quota) and _NUMBER.fullmatch(period):
        return int(quota) / int(period)
    return float(_MANY)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


_MANY: Final = 1 << 20
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}")
