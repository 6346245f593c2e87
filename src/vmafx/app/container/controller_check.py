"""What a start of a controller would find, looked at without changing anything (ADR 0028)."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from vmafx.adapters.grpc.server_credentials import server_credentials
from vmafx.adapters.http.sockets import listening
from vmafx.adapters.store.sqlite_look import look_at
from vmafx.app.container.controller import server_tls
from vmafx.app.settings.controller import GRPC_ADDRESS, HTTP_ADDRESS, ControllerSettings
from vmafx.app.settings.grammar import together
from vmafx.app.settings.store import BACKEND, DATABASE, default_database
from vmafx.domain.address import HostPort
from vmafx.domain.errors import ConfigurationError

__all__ = ["CheckedController", "check_controller_start"]

_OF_DATABASE: Final = frozenset({DATABASE, BACKEND})
_OF_TLS: Final = frozenset({"VMAFX_GRPC_TLS", "VMAFX_GRPC_CERT_FILE", "VMAFX_GRPC_KEY_FILE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedController:
    """What a start would have found.

    Attributes:
        database: The database, and what a start would do with it, in words.
    """

    database: str


async def check_controller_start(
    settings: ControllerSettings,
    *,
    environment: Mapping[str, str],
    wrong: Sequence[ConfigurationError] = (),
) -> CheckedController:
    """Look at the database, the certificate and both addresses, which are listened on for a moment.

    Args:
        settings: What the controller is told.
        environment: The environment of this process, for the place of the database.
        wrong: What is known to be wrong with settings, for which defaults stand: they are not looked at.

    Raises:
        ConfigurationError: A start would be refused; names every setting at fault.
    """
    problems = list(wrong)
    skipped = {problem.setting for problem in wrong}
    database = ""
    if skipped.isdisjoint(_OF_DATABASE):
        with _noted(problems):
            database = _database(settings, environment)
    if skipped.isdisjoint(_OF_TLS):
        with _noted(problems):
            _look_at_certificate(settings)
    for setting, address in ((GRPC_ADDRESS, settings.grpc.address), (HTTP_ADDRESS, settings.http.address)):
        if setting not in skipped:
            with _noted(problems):
                await _probe(setting, address)
    if problems:
        told: ConfigurationError = together(problems)
        raise told
    return CheckedController(database=database)


@contextmanager
def _noted(problems: list[ConfigurationError]) -> Generator[None]:
    try:
        yield
    except ConfigurationError as problem:
        problems.append(problem)


def _look_at_certificate(settings: ControllerSettings) -> None:
    tls = server_tls(settings)
    if tls is not None:
        server_credentials(tls)


def _database(settings: ControllerSettings, environment: Mapping[str, str]) -> str:
    given = settings.store.path
    path = default_database(environment) if given is None else given
    return f"{path} {look_at(path, folder_is_made=given is None)}"


async def _probe(setting: str, address: HostPort) -> None:
    for one in await listening(setting, address):
        one.close()
