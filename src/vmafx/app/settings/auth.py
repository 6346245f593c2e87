"""AuthSettings: who may call a controller; in this version everybody, and that must be said (ADR 0028)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from vmafx.app.settings.forms import BOOLEAN, TEXT
from vmafx.app.settings.parts import Part, Rule, optional, setting, variables_of
from vmafx.domain.errors import ConfigurationError

__all__ = ["DISABLED", "AuthSettings"]

DISABLED: Final = "VMAFX_AUTH_DISABLED"
"""The variable that lets everybody in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSettings(Part):
    """Who may call; all but `disabled` ask for tokens to be verified, and are refused.

    Attributes:
        disabled: Whether every caller may do everything, as the tenant `dev`.
        jwks_endpoint: Where the keys of tokens are.
        issuer: Who issues tokens.
        audience: For whom tokens are.
        tenant_claim: Where a token names its tenant.
        roles_claim: Where it names its roles.
        leeway: How far clocks may be apart.
        tenants_source: Where tenants are configured.
        tenants_file: In which file.
        tenants_namespace: In which namespace of Kubernetes.
        tenants_refresh: How often they are read again.
    """

    disabled: bool = setting(DISABLED, BOOLEAN, default=False)
    jwks_endpoint: str | None = optional("VMAFX_JWKS_ENDPOINT", TEXT)
    issuer: str | None = optional("VMAFX_AUTH_ISSUER", TEXT)
    audience: str | None = optional("VMAFX_AUTH_AUDIENCE", TEXT)
    tenant_claim: str | None = optional("VMAFX_AUTH_TENANT_CLAIM", TEXT)
    roles_claim: str | None = optional("VMAFX_AUTH_ROLES_CLAIM", TEXT)
    leeway: str | None = optional("VMAFX_AUTH_LEEWAY", TEXT)
    tenants_source: str | None = optional("VMAFX_AUTH_TENANTS_SOURCE", TEXT)
    tenants_file: str | None = optional("VMAFX_AUTH_TENANTS_FILE", TEXT)
    tenants_namespace: str | None = optional("VMAFX_AUTH_TENANTS_NAMESPACE", TEXT)
    tenants_refresh: str | None = optional("VMAFX_AUTH_TENANTS_REFRESH", TEXT)

    def rules(self) -> tuple[Rule, ...]:
        """Return what the fields must be together."""
        names = {variable.name: field for variable, (field,) in variables_of(AuthSettings)}
        return tuple(
            Rule(fields=frozenset({field}), broken=partial(_not_asked_for, self, name, field))
            for name, field in names.items()
            if name != DISABLED
        )

    def problem(self) -> ConfigurationError | None:
        """Return why a controller that verifies no tokens may not start; None when it may."""
        if self.disabled:
            return None
        problem = (
            "must be true: this version verifies no tokens (JWT), so a controller starts only where that is "
            "said; every caller may then do everything. Set it to true, on a network that can be trusted"
        )
        return ConfigurationError(DISABLED, problem)


def _not_asked_for(settings: AuthSettings, name: str, field: str) -> Iterator[ConfigurationError]:
    if getattr(settings, field) is not None:
        problem = "cannot be honoured: this version verifies no tokens (JWT) and knows one tenant; unset it"
        yield ConfigurationError(name, problem)
