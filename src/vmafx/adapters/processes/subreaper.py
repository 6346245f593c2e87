"""Makes this process the one to which its descendants fall when their parent dies (Linux)."""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["become_subreaper"]


def become_subreaper() -> bool:
    """Make this process a child subreaper and return whether it is one now.

    For programs, never for a library: whoever embeds us may not expect to inherit processes. Then a process
    that a scorer left behind and that was killed is reaped by us, and not by process 1, which in a container
    may be a program that reaps nobody.
    """
    if sys.platform != "linux":
        return False
    import ctypes  # noqa: PLC0415 - costs 5 ms, and only programs come here

    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (AttributeError, OSError):
        return False


_PR_SET_CHILD_SUBREAPER: Final = 36
