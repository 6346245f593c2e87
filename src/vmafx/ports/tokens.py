"""Tokens: the bearer token to show, and what a shown one proves."""

from __future__ import annotations

from typing import Protocol

from vmafx.domain.callers import Principal

__all__ = ["TokenSource", "TokenVerifier"]


class TokenSource(Protocol):
    """Knows the token of the moment."""

    async def token(self) -> str | None:
        """Return the token to show with a call that is made now; None when calls are made without one.

        It is asked before every call, so that a token that was replaced meanwhile is used at once. It holds
        no line break and no blank at either end, and has not expired as far as can be told.

        Raises:
            TokenError: There should be one, and it cannot be read, is empty or has expired; the message names
                where it comes from and never what it holds.
        """
        ...


class TokenVerifier(Protocol):
    """Knows what a token proves."""

    async def verify(self, token: str | None) -> Principal:
        """Return what the token proves.

        Args:
            token: The token as it was shown, without the word before it; None when none was shown.

        Raises:
            TokenError: It proves nothing: `code` says how to refuse. The message is for our own log; callers
                are told nothing of it.
        """
        ...
