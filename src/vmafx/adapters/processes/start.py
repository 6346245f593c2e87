"""Becomes a program that is limited and dies with its parent: a script, run by `launch` in the new process.

`python -I -S -X utf8=1 start.py MARK PARENT FILE-LIMIT LC-CTYPE PROGRAM ARGUMENT…`; standard library only.
MARK is the name to complain under, PARENT the process id that must still be ours to obey, FILE-LIMIT a
number of bytes or `-`, LC-CTYPE the value of that variable after `=`, or `-` for none.
"""

from __future__ import annotations

import os
import resource
import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Become the program, or say on standard error why not and exit with 127."""
    mark, parent, limit, ctype, *argv = sys.argv[1:]
    try:
        if sys.platform == "linux":
            _die_with_parent()
        if os.getppid() != int(parent):
            os._exit(125)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if limit != "-":
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores these two, and exec keeps that
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        os.execve(argv[0], argv, _environment(ctype))  # noqa: S606 - no shell is the point
    except (ImportError, OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        os.write(2, f"{mark}: {argv[0]}: {reason}\n".encode(errors="surrogateescape"))
        os._exit(127)


def _die_with_parent() -> None:
    import ctypes  # noqa: PLC0415 - 5 ms, and not in every build of Python

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _environment(ctype: str) -> dict[bytes, bytes]:
    """Return our environment without the LC_CTYPE that Python sets for itself in a C locale."""
    environment = dict(os.environb)
    environment.pop(b"LC_CTYPE", None)
    if ctype != "-":
        environment[b"LC_CTYPE"] = os.fsencode(ctype[1:])
    return environment


_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    main()
