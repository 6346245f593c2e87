"""No authentication: everybody is the developer (ADR 0026)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vmafx.domain.callers import Principal, Role
from vmafx.domain.job import TenantId

if TYPE_CHECKING:
    from vmafx.ports.tokens import TokenVerifier

__all__ = ["EVERYONE", "EveryoneVerifier"]

EVERYONE: Final = Principal(tenant=TenantId("dev"), roles=frozenset({Role.ADMIN, Role.NODE}), subject="dev")
"""Who every caller is where nothing is verified."""


class EveryoneVerifier:
    """A `TokenVerifier` that looks at no token, for development."""

    async def verify(self, token: str | None) -> Principal:  # noqa: ARG002 - whatever is shown
        """Return `EVERYONE`."""
        return EVERYONE


if TYPE_CHECKING:
    _port: type[TokenVerifier] = EveryoneVerifier
