"""Tokens: the bearer token to show, and what a shown one proves."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from vmafx.domain.job import TenantId

__all__ = ["Principal", "Role", "TokenSource", "TokenVerifier"]


class Role(Enum):
    """What a caller may do; the values are the words of the token. None includes another."""

    READER = "vmafx:reader"
    WRITER = "vmafx:writer"
    ADMIN = "vmafx:admin"
    NODE = "vmafx:node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who calls.

    Attributes:
        tenant: Whose caller it is; never empty.
        roles: What the caller may do; words that are no role are left out.
        subject: The caller's name, for logs; empty when the token has none.
    """

    tenant: TenantId
    roles: frozenset[Role]
    subject: str = ""


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

    async def verify(self, token: str) -> Principal:
        """Return what the token proves.

        Args:
            token: The token as it was shown, without the word before it.

        Raises:
            TokenError: It proves nothing: `code` says how to refuse. The message is for our own log; callers
                are told nothing of it.
        """
        ...
