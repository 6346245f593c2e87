"""ControllerClientSettings: which controller a node works for, and how it calls it (ADR 0019)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from pydantic import SecretStr

from vmafx.app.settings.forms import ADDRESS, BOOLEAN, HOST, PATH, POSITIVE_DURATION, TOKEN, Form
from vmafx.app.settings.parts import Part, Rule, optional, setting, variables_of
from vmafx.domain.address import HostPort
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.session_policy import (
    HEARTBEAT_INTERVAL_S,
    LOSS_WINDOW_S,
    POLL_INTERVAL_S,
    RPC_TIMEOUT_S,
    SessionPolicy,
    timing_problems,
    timing_warning,
)

__all__ = ["CLIENT", "ControllerClientSettings"]

CLIENT: Final = "controller client config"
"""What problems of these settings are told behind."""


def _session_time(name: str, text: str) -> float:
    seconds = POSITIVE_DURATION.parse(name, text)
    if seconds >= LOSS_WINDOW_S:
        raise ConfigurationError(name, _TOO_LONG, value=text)
    return seconds


def _check_session_time(name: str, value: object) -> None:
    POSITIVE_DURATION.check(name, value)
    if isinstance(value, int | float) and value >= LOSS_WINDOW_S:
        raise ConfigurationError(name, _TOO_LONG, value=f"{value:g}")


_TOO_LONG: Final = f"must be below {LOSS_WINDOW_S:g}s"
_SESSION_TIME: Final = Form(parse=_session_time, check=_check_session_time, show=POSITIVE_DURATION.show)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerClientSettings(Part):
    """Which controller a node works for, and how it calls it; checked also where there is no controller.

    Attributes:
        address: Where the controller is; None means that there is none.
        tls: Whether calls are made over TLS.
        ca_file: The certificates that the controller's is checked with; None means those of the system.
        server_name: The name that the controller's certificate must hold; None means the host of the address.
        token_file: The file that the bearer token is read from, before every call.
        token: The bearer token itself; not together with the file.
        rpc_timeout_s: The deadline of every call, in seconds.
        heartbeat_interval_s: From one heartbeat to the next, in seconds.
        poll_interval_s: The wait after an empty pull, in seconds.
    """

    address: HostPort | None = optional("VMAFX_CONTROLLER_ADDR", ADDRESS, key="controller.addr", group=CLIENT)
    tls: bool = setting("VMAFX_CONTROLLER_TLS", BOOLEAN, default=False, key="controller.tls", group=CLIENT)
    ca_file: str | None = optional("VMAFX_CONTROLLER_CA_FILE", PATH, key="controller.ca_file", group=CLIENT)
    server_name: str | None = optional(
        "VMAFX_CONTROLLER_SERVER_NAME", HOST, key="controller.server_name", group=CLIENT
    )
    token_file: str | None = optional(
        "VMAFX_CONTROLLER_TOKEN_FILE", PATH, key="controller.token_file", group=CLIENT
    )
    token: SecretStr | None = optional("VMAFX_CONTROLLER_TOKEN", TOKEN, key="controller.token", group=CLIENT)
    rpc_timeout_s: float = setting(
        "VMAFX_CONTROLLER_RPC_TIMEOUT",
        _SESSION_TIME,
        RPC_TIMEOUT_S,
        key="controller.rpc_timeout",
        group=CLIENT,
    )
    heartbeat_interval_s: float = setting(
        "VMAFX_CONTROLLER_HEARTBEAT_INTERVAL",
        _SESSION_TIME,
        HEARTBEAT_INTERVAL_S,
        key="controller.heartbeat_interval",
        group=CLIENT,
    )
    poll_interval_s: float = setting(
        "VMAFX_CONTROLLER_POLL_INTERVAL",
        POSITIVE_DURATION,
        POLL_INTERVAL_S,
        key="controller.poll_interval",
        group=CLIENT,
    )

    @property
    def enabled(self) -> bool:
        """Whether there is a controller to work for."""
        return self.address is not None

    @property
    def session_policy(self) -> SessionPolicy:
        """The timing of the node's session."""
        return SessionPolicy(heartbeat_interval_s=self.heartbeat_interval_s, rpc_timeout_s=self.rpc_timeout_s)

    @property
    def timing_warning(self) -> str | None:
        """What is dangerous about the timing; None when nothing is."""
        return timing_warning(self.heartbeat_interval_s, self.rpc_timeout_s)

    def rules(self) -> tuple[Rule, ...]:
        """Return what the fields must be together."""
        return (
            Rule(fields=frozenset({"token", "token_file"}), broken=partial(_one_token, self)),
            Rule(fields=frozenset({"ca_file", "server_name", "tls"}), broken=partial(_tls_is_on, self)),
            Rule(
                fields=frozenset({"heartbeat_interval_s", "rpc_timeout_s"}),
                broken=partial(_session_can_be_kept, self),
            ),
        )


def _one_token(settings: ControllerClientSettings) -> Iterator[ConfigurationError]:
    if settings.token is not None and settings.token_file is not None:
        problem = "set controller.token or controller.token_file, not both"
        yield ConfigurationError("VMAFX_CONTROLLER_TOKEN", problem, group=CLIENT)


def _tls_is_on(settings: ControllerClientSettings) -> Iterator[ConfigurationError]:
    given = [
        name
        for name, value in (
            ("VMAFX_CONTROLLER_CA_FILE", settings.ca_file),
            ("VMAFX_CONTROLLER_SERVER_NAME", settings.server_name),
        )
        if value is not None
    ]
    if given and not settings.tls:
        problem = "controller.ca_file and controller.server_name need controller.tls=true"
        yield ConfigurationError(given[0], problem, group=CLIENT)


def _session_can_be_kept(settings: ControllerClientSettings) -> Iterator[ConfigurationError]:
    told = {variable.name: variable.told for variable, _ in variables_of(ControllerClientSettings)}
    for problem in timing_problems(settings.heartbeat_interval_s, settings.rpc_timeout_s):
        yield told[problem.setting](problem)
