"""PodSettings: where Kubernetes runs a program of ours (ADR 0019)."""

from __future__ import annotations

from dataclasses import dataclass

from vmafx.app.settings.forms import TEXT
from vmafx.app.settings.parts import Part, optional

__all__ = ["PodSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSettings(Part):
    """Where Kubernetes runs the program, for logs and traces.

    Attributes:
        name: The pod's name.
        namespace: Its namespace.
        ip: Its address.
        node: The name of the machine.
        service_account: The account that it runs as.
    """

    name: str | None = optional("POD_NAME", TEXT)
    namespace: str | None = optional("POD_NAMESPACE", TEXT)
    ip: str | None = optional("POD_IP", TEXT)
    node: str | None = optional("NODE_NAME", TEXT)
    service_account: str | None = optional("SERVICE_ACCOUNT", TEXT)
