"""The gate: who calls, and whether they may, before anything is done for them (ADR 0026)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

from vmafx.adapters.grpc.fields import refuse
from vmafx.adapters.grpc.metadata import ReceivedMetadata, only
from vmafx.domain.bearer import token_problem
from vmafx.domain.callers import Principal, RoleTable
from vmafx.domain.errors import RoleRequiredError, TokenError
from vmafx.domain.retry import StatusCode, status_code
from vmafx.ports.telemetry import Level, Telemetry
from vmafx.ports.tokens import TokenVerifier

__all__ = ["CALL_REFUSED", "NO_TENANT", "NO_TOKEN", "STALE", "SUSPENDED", "Gate"]

NO_TOKEN: Final = "invalid or missing token"  # noqa: S105 - what callers are told, no token
"""What a caller is told whose token proves nothing; why it does not is for the log alone."""
NO_TENANT: Final = "tenant_id not found in token"
"""What a caller is told whose token names no tenant."""
SUSPENDED: Final = "tenant is suspended"
"""What a caller is told whose tenant may not call for now."""
STALE: Final = "tenant configuration is stale"
"""What a caller is told when nobody can say who calls, for now."""
CALL_REFUSED: Final = "call refused"
"""The log message of a call that did not pass the gate."""

_AUTHORIZATION: Final = "authorization"
_SCHEME: Final = "Bearer "
_TOLD: Final[Mapping[StatusCode, str]] = {
    StatusCode.PERMISSION_DENIED: SUSPENDED,
    StatusCode.UNAVAILABLE: STALE,
}


class Gate:
    """Lets calls pass whose token proves a caller that holds one of the method's roles.

    Args:
        verifier: Knows what a token proves.
        table: The roles of each method; a method without an entry is refused for everyone.
        telemetry: Is told why a call is refused; its caller is not.
    """

    def __init__(self, verifier: TokenVerifier, table: RoleTable, telemetry: Telemetry) -> None:
        self._verifier = verifier
        self._table = table
        self._telemetry = telemetry

    async def admit(self, method: str, metadata: ReceivedMetadata) -> Principal:
        """Return who calls.

        Args:
            method: The method's path.
            metadata: What came with the call.

        Raises:
            ControllerError: The token proves nothing: `UNAUTHENTICATED`, or `PERMISSION_DENIED` or
                `UNAVAILABLE` when the verifier says so.
            RoleRequiredError: The caller holds none of the method's roles, or the method has none.
        """
        try:
            caller = await self._verifier.verify(shown_token(metadata))
        except TokenError as error:
            self._telemetry.event(Level.WARN, CALL_REFUSED, {"call": method}, error=error)
            _refuse(error)
        if not caller.tenant:
            refuse(StatusCode.UNAUTHENTICATED, NO_TENANT)
        try:
            self._table.admit(method, caller)
        except RoleRequiredError as error:
            who = {"call": method, "tenant": caller.tenant, "subject": caller.subject}
            self._telemetry.event(Level.WARN, CALL_REFUSED, who, error=error)
            raise
        return caller


def shown_token(metadata: ReceivedMetadata) -> str | None:
    """Return the bearer token that came with a call; None when there is none, or not exactly one."""
    value = only(metadata, _AUTHORIZATION)
    if value is None or not value.startswith(_SCHEME):
        return None
    token = value[len(_SCHEME) :]
    return token if token_problem(token) is None else None


def _refuse(error: TokenError) -> NoReturn:
    """Refuse a call in words that are always the same: what was wrong with the token is not told."""
    code = status_code(error.code)
    if code in _TOLD:
        refuse(code, _TOLD[code], error)
    refuse(StatusCode.UNAUTHENTICATED, NO_TOKEN, error)
