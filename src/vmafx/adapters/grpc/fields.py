"""What a field of a message may hold, both ways (ADR 0016)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

from vmafx.domain.errors import ControllerError
from vmafx.domain.retry import StatusCode, controller_error
from vmafx.domain.text import has_control

__all__ = ["at_most", "fits", "plain", "refuse"]


@contextmanager
def fits(code: StatusCode, message: str) -> Generator[None]:
    """Turn what protobuf says of values that it cannot carry into an error of ours, without the values.

    Yields:
        Nothing; the body fills a message.

    Raises:
        ControllerError: A text is no UTF-8, or a number is out of its range.
    """
    try:
        yield
    except (ValueError, TypeError) as error:
        refuse(code, f"{message} holds text that is no UTF-8, or a number out of its range", error)


def at_most(what: str, text: str, bytes_max: int) -> None:
    """Refuse a text that is too long.

    Args:
        what: What the text is, for the error.
        text: The text.
        bytes_max: The limit, in bytes.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: it is longer; names it, and both numbers.
    """
    length = len(text.encode())
    if length > bytes_max:
        problem = f"{what} has {length} bytes, at most {bytes_max} are accepted"
        refuse(StatusCode.INVALID_ARGUMENT, problem)


def plain(what: str, text: str, bytes_max: int) -> None:
    """Refuse a text that is too long, or holds a control character.

    Args:
        what: The same as of `at_most`, as the others are.
        text: The same.
        bytes_max: The same.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: it is or does; names it.
    """
    at_most(what, text, bytes_max)
    if has_control(text):
        refuse(StatusCode.INVALID_ARGUMENT, f"{what} holds a control character")


def refuse(code: StatusCode, message: str, cause: Exception | None = None) -> NoReturn:
    """Raise the error of a message that is refused.

    Args:
        code: How it is refused.
        message: Why.
        cause: What was raised before; None for nothing.

    Raises:
        ControllerError: Always.
    """
    error: ControllerError = controller_error(code, message)
    raise error from cause
