"""ControllerSettings: everything that a controller is told by its environment (ADR 0019, ADR 0028)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from typing import Final

from vmafx.app.settings.auth import AuthSettings
from vmafx.app.settings.forms import DURATION, LISTEN, ROOT_TEMPLATES
from vmafx.app.settings.grammar import EnvironmentReader
from vmafx.app.settings.grpc_listener import GrpcListenerSettings
from vmafx.app.settings.http_listener import HttpSettings
from vmafx.app.settings.logs import LogSettings
from vmafx.app.settings.otel import OtelSettings
from vmafx.app.settings.parts import Part, Rule, optional, part, setting
from vmafx.app.settings.pod import PodSettings
from vmafx.app.settings.store import StoreSettings, default_database
from vmafx.domain.address import HostPort
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.roots import RootTemplates

__all__ = [
    "GRPC_ADDRESS",
    "HTTP_ADDRESS",
    "ROOTS",
    "ControllerGrpcSettings",
    "ControllerHttpSettings",
    "ControllerSettings",
]

GRPC_ADDRESS: Final = "VMAFX_GRPC_LISTEN"
"""The variable that says where calls are taken."""
HTTP_ADDRESS: Final = "VMAFX_HTTP_ADDR"
"""The variable that says where metrics and probes are served."""
ROOTS: Final = "VMAFX_SCORING_ROOTS"
"""The variable that says what may be scored."""
_PULL_WAIT_S: Final = 5.0
"""How long a pull waits for a job where nothing else is said, in seconds."""
_EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - what means every address, not one to use


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerGrpcSettings(GrpcListenerSettings):
    """The controller's listener for calls.

    Attributes:
        address: Where it listens.
    """

    address: HostPort = setting(GRPC_ADDRESS, LISTEN, HostPort(host="", port=9090))

    def rules(self) -> tuple[Rule, ...]:
        """Return what the fields must be together."""
        fields = frozenset({"tls", "cert_file", "key_file"})
        files = Rule(fields=fields, broken=partial(_files_have_tls, self))
        return (*GrpcListenerSettings.rules(self), files)  # super() does not know a class with slots


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerHttpSettings(HttpSettings):
    """The controller's listener for metrics and probes.

    Attributes:
        address: Where it listens.
    """

    address: HostPort = setting(HTTP_ADDRESS, LISTEN, HostPort(host="", port=8080))


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings(Part):
    """Everything that a controller is told; `unserved` names what this version of it does nothing with.

    Attributes:
        scoring_roots: Below which places the inputs of a tenant must lie; None means that none are set.
        pull_wait_s: How long a pull that finds nothing waits for a job, in seconds.
        auth: Who may call.
        store: Where jobs are kept, and for how long.
        grpc: The listener for calls.
        http: The listener for metrics and probes.
        log: How much it logs, and in which form.
        otel: Where it exports traces, metrics and logs to.
        pod: Where Kubernetes runs it.
    """

    scoring_roots: RootTemplates | None = optional(ROOTS, ROOT_TEMPLATES)
    pull_wait_s: float = setting("VMAFX_PULL_WAIT", DURATION, _PULL_WAIT_S)
    auth: AuthSettings = part(AuthSettings)
    store: StoreSettings = part(StoreSettings)
    grpc: ControllerGrpcSettings = part(ControllerGrpcSettings)
    http: ControllerHttpSettings = part(ControllerHttpSettings)
    log: LogSettings = part(LogSettings)
    otel: OtelSettings = part(OtelSettings)
    pod: PodSettings = part(PodSettings)

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], *, needs_auth: bool = True, needs_database: bool = True
    ) -> ControllerSettings:
        """Read the settings from environment variables.

        Args:
            environment: Names to values, such as `os.environ`.
            needs_auth: Whether the settings decide who may call.
            needs_database: Whether they decide where jobs are kept.

        Raises:
            ConfigurationError: At least one value cannot be honoured; names every such variable.
        """
        read = EnvironmentReader(environment)
        settings = cls.drafted(read, needs_auth=needs_auth, needs_database=needs_database)
        read.finish()
        return settings

    @classmethod
    def drafted(
        cls, read: EnvironmentReader, *, needs_auth: bool = True, needs_database: bool = True
    ) -> ControllerSettings:
        """Read the settings with defaults for what is wrong, which the reader keeps and its `finish` tells.

        Args:
            read: Reads the environment.
            needs_auth: Whether the settings decide who may call.
            needs_database: Whether they decide where jobs are kept.
        """
        settings = cls.read(read)
        if needs_auth and not read.wrong("VMAFX_AUTH_DISABLED"):
            problem = settings.auth.problem()
            read.refuse(*(() if problem is None else (problem,)))
        if needs_database and settings.store.path is None and not read.wrong("VMAFX_DB_PATH"):
            try:
                default_database(read.environment)
            except ConfigurationError as problem:
                read.refuse(problem)
        return settings

    def rules(self) -> tuple[Rule, ...]:
        """Return what the fields must be together."""
        return (Rule(fields=frozenset({"grpc", "http"}), broken=partial(_ports_differ, self)),)

    @property
    def reachable(self) -> bool:
        """Whether other machines can call, as far as the address tells."""
        host = self.grpc.address.host
        if host == "localhost":
            return False
        try:
            return not ip_address(host).is_loopback
        except ValueError:  # a name
            return True


def _files_have_tls(settings: ControllerGrpcSettings) -> Iterator[ConfigurationError]:
    if settings.tls:
        return  # whoever gives files without it does not expect calls in plaintext
    for name, value in (
        ("VMAFX_GRPC_CERT_FILE", settings.cert_file),
        ("VMAFX_GRPC_KEY_FILE", settings.key_file),
    ):
        if value is not None:
            problem = "needs VMAFX_GRPC_TLS=true: without it, calls are served in plaintext"
            yield ConfigurationError(name, problem, value=value)


def _ports_differ(settings: ControllerSettings) -> Iterator[ConfigurationError]:
    calls, pages = settings.grpc.address, settings.http.address
    hosts = {calls.host, pages.host}
    if calls.port == pages.port and calls.port and (len(hosts) == 1 or hosts & _EVERYWHERE):
        problem = f"has the port of {GRPC_ADDRESS} ({calls}): one of the two must move"
        yield ConfigurationError(HTTP_ADDRESS, problem, value=str(pages))
