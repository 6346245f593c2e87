"""Who calls, and which roles may make which calls: one table for every listener (ADR 0026).

No role includes another; a call that the table does not name is nobody's to make.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from vmafx.domain.errors import RoleRequiredError
from vmafx.domain.job import TenantId

__all__ = ["Principal", "Role", "RoleTable"]


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


class RoleTable:
    """Says for each method which roles may call it.

    Args:
        entries: The roles by the method's path, such as `/package.Service/Method`; a copy is kept.

    Raises:
        ValueError: A path is malformed, or a method has no roles; names it.
    """

    def __init__(self, entries: Mapping[str, Collection[Role]]) -> None:
        for method, roles in entries.items():
            if not _METHOD.fullmatch(method):
                raise ValueError(f"{method!r} is no path of a method")
            if not roles:
                raise ValueError(f"{method} has no roles")
        self._entries: Final = {
            method: tuple(role for role in Role if role in roles) for method, roles in entries.items()
        }

    def __iter__(self) -> Iterator[str]:
        """Iterate over the methods that have an entry."""
        return iter(self._entries)

    def admit(self, method: str, caller: Principal) -> None:
        """Let a call pass.

        Args:
            method: The method's path.
            caller: Who calls.

        Raises:
            RoleRequiredError: The caller holds none of the method's roles, or the method has no entry.
        """
        roles = self._entries.get(method, ())
        if not caller.roles.intersection(roles):
            raise RoleRequiredError([role.value for role in roles])


_METHOD: Final = re.compile(r"/[A-Za-z_][A-Za-z0-9_.]*/[A-Za-z_][A-Za-z0-9_]*")
