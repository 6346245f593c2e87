"""Standard streams that may be closed, full or gone: answers to stdout, one-line messages to stderr."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, cast

from vmafx.app.cli.exits import OutputError, ReaderGoneError
from vmafx.domain.text import printable

if TYPE_CHECKING:
    import io

__all__ = ["prepare_standard_streams", "require_output", "say", "write_out"]


def prepare_standard_streams() -> None:
    """Open the null device on each closed descriptor from 0 to 2, so that no file of ours lands there.

    `sys.stdout` and `sys.stderr` stay None where the descriptor was closed. What the encoding of standard
    output has not is written escaped.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
    if hasattr(sys.stdout, "reconfigure"):
        cast("io.TextIOWrapper", sys.stdout).reconfigure(errors="backslashreplace")


def require_output() -> None:
    """Refuse to go on where an answer could not be written anyway.

    Raises:
        OutputError: Standard output is closed.
    """
    if _is_closed():
        raise OutputError("standard output is closed: there is nowhere to write the answer")


def write_out(text: str) -> None:
    """Write an answer to standard output, and be sure that it got there.

    Raises:
        OutputError: It cannot be written.
        ReaderGoneError: Whoever read it is gone.
    """
    require_output()
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        raise ReaderGoneError from None
    except OSError as error:
        _silence_stdout()
        raise OutputError(f"cannot write the answer: {error.strerror}") from error


def say(text: str) -> None:
    """Write a message to standard error, made printable line by line; a message nobody can get is dropped."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        for line in text.splitlines():
            sys.stderr.write(printable(line) + "\n")
        sys.stderr.flush()


def _is_closed() -> bool:
    stream: object = sys.stdout
    return stream is None


def _silence_stdout() -> None:
    """Send what is left in the buffer nowhere, so that the interpreter's own last flush stays silent."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
