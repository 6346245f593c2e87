"""The bearer token of the moment: from a file that somebody else keeps fresh, or given once (ADR 0017).

A signature is not checked here: whoever the token is shown to does that. Only what would certainly be refused
there is refused here: a token that has expired, and one that no header can carry.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from vmafx.domain.bearer import TOKEN_BYTES_MAX, token_problem
from vmafx.domain.errors import TokenError
from vmafx.domain.text import bounded, printable
from vmafx.ports.clock import Clock

if TYPE_CHECKING:
    from vmafx.ports.tokens import TokenSource

__all__ = ["InlineToken", "NoToken", "TokenFile"]

Apart: TypeAlias = Callable[[Callable[[], str | TokenError], str], asyncio.Future[str | TokenError]]

_PATH_BYTES_MAX: Final = 1024
_INLINE: Final = "controller.token"


class NoToken:
    """A `TokenSource` for calls that show none."""

    async def token(self) -> str | None:
        """Return None."""
        return None


class InlineToken:
    """A `TokenSource` that was given its token.

    Args:
        token: The token.
        clock: Whose time it expires by.
    """

    def __init__(self, token: str, clock: Clock) -> None:
        self._token = token
        self._clock = clock

    async def token(self) -> str | None:
        """Return the token.

        Raises:
            TokenError: It is empty, has expired or no header can carry it.
        """
        return _fit(self._token.strip(), _INLINE, self._clock.now())


class TokenFile:
    """A `TokenSource` that reads a file anew for every call.

    Only a regular file is read, links followed: anything else could keep the reader waiting. It is read off
    the event loop, one read at a time: a file system that does not answer holds one thread, and calls wait
    for it until their deadlines.

    Args:
        path: The file.
        clock: Whose time tokens expire by.
        apart: Does work in a thread of that name, for which neither the loop's nor the process's end waits.
    """

    def __init__(self, path: Path, clock: Clock, apart: Apart) -> None:
        self._path = path
        self._clock = clock
        self._apart = apart
        self._turn = asyncio.Lock()
        self._reading: asyncio.Future[str | TokenError] | None = None

    async def token(self) -> str | None:
        """Return the token that the file holds now.

        Raises:
            TokenError: The file cannot be read or is empty, or its token has expired or fits no header.
        """
        text = await self._read_now()
        if isinstance(text, TokenError):
            raise text
        return _fit(text.strip(), f"controller token file {_shown(self._path)}", self._clock.now())

    async def _read_now(self) -> str | TokenError:
        async with self._turn:
            if self._reading is not None:  # whoever began it gave up
                await asyncio.wait({self._reading})
            self._reading = reading = self._apart(partial(_read_or_told, self._path), "vmafx-token-file")
            await asyncio.wait({reading})
            self._reading = None
            return reading.result()


def _read_or_told(path: Path) -> str | TokenError:
    try:
        return _read(path)
    except TokenError as error:  # returned: a future that nobody asks any more complains about what is raised
        return error


def _read(path: Path) -> str:
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise TokenError(f"read controller token file: {_shown(path)} is no regular file")
            data = _all_of(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        problem = error.strerror or type(error).__name__
        raise TokenError(f"read controller token file: {_shown(path)}: {problem}") from error
    except ValueError as error:  # a zero byte in the path
        raise TokenError(f"read controller token file: {_shown(path)} is no path") from error
    if len(data) > TOKEN_BYTES_MAX:
        raise TokenError(f"controller token file {_shown(path)} is larger than {TOKEN_BYTES_MAX} bytes")
    return data.decode("latin-1")  # what is not ASCII is refused below, whatever it is


def _all_of(descriptor: int) -> bytes:
    data = b""
    while len(data) <= TOKEN_BYTES_MAX and (more := os.read(descriptor, TOKEN_BYTES_MAX + 1 - len(data))):
        data += more
    return data


def _fit(token: str, origin: str, now: datetime) -> str:
    """Return `token` if it can be shown.

    Raises:
        TokenError: It cannot.
    """
    problem = token_problem(token)
    if problem is not None:
        raise TokenError(f"{origin} {problem}")
    exp = _expiry_s(token)
    if exp is not None and now.timestamp() >= exp:
        raise TokenError(
            f"{origin} holds a token that expired at {_rfc3339(exp)}; whatever writes it did not refresh it"
        )
    return token


def _expiry_s(token: str) -> int | float | None:
    """Return the numeric `exp` of a token in JWT form, in seconds of the epoch; None if it tells none."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        payload = parts[1].rstrip("=")
        padded = payload + "=" * (-len(payload) % 4)
        claims: object = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        return None
    exp = cast("dict[str, object]", claims).get("exp") if isinstance(claims, dict) else None
    return exp if isinstance(exp, int | float) and not isinstance(exp, bool) else None


def _rfc3339(seconds: float) -> str:
    try:
        at = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):  # long before the calendar begins; the future is not shown
        at = datetime.min.replace(tzinfo=UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ") if at.year >= 1000 else f"{at.isoformat()[:19]}Z"


def _shown(path: Path) -> str:
    return bounded(printable(str(path)), _PATH_BYTES_MAX)


if TYPE_CHECKING:
    _file: type[TokenSource] = TokenFile
    _inline: type[TokenSource] = InlineToken
    _none: type[TokenSource] = NoToken
