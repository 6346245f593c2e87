"""The wiring of a node: every port has its adapter here, and each can be replaced (ADR 0022)."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypedDict, Unpack

from dependency_injector import containers, providers

from vmafx.adapters.auth.bearer import InlineToken, NoToken, TokenFile
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.grpc.client import open_controller
from vmafx.adapters.grpc.credentials import TlsOptions, trusted_roots
from vmafx.adapters.processes.waiting import in_thread
from vmafx.adapters.sources.by_kind import SourcesByKind
from vmafx.adapters.sources.local import LocalSources
from vmafx.adapters.telemetry.embedded import LoggingTelemetry
from vmafx.adapters.telemetry.joined import JoinedTelemetry
from vmafx.adapters.telemetry.traces import TracingTelemetry
from vmafx.adapters.vmaf_cli.scorer import CliScorer
from vmafx.app.container.fuse import fuse_problem
from vmafx.app.container.platform import available_processors
from vmafx.app.container.score import cli_scorer
from vmafx.app.node.node import Node
from vmafx.app.node.policy import NodePolicy
from vmafx.app.settings.controller_client import ControllerClientSettings
from vmafx.app.settings.files import FileChecks
from vmafx.app.settings.node import NodeSettings
from vmafx.domain.errors import ConfigurationError, TokenError
from vmafx.domain.job import NodeName
from vmafx.domain.nodesession import InstanceId
from vmafx.domain.source import SourceKind
from vmafx.ports.clock import Clock
from vmafx.ports.controller import Controller, NodeIdentity
from vmafx.ports.scorer import Scorer
from vmafx.ports.sources import SourceStore
from vmafx.ports.telemetry import Fields, Telemetry
from vmafx.ports.tokens import TokenSource

__all__ = ["CheckedStart", "NodeContainer", "NodePorts", "check_start", "open_node", "read_node_settings"]

_INSTANCE_BYTES: Final = 16


class NodePorts(TypedDict, total=False):
    """What is used instead of the adapters that the settings ask for."""

    controller: Controller
    """Who hands out jobs and takes results."""
    scorer: Scorer
    """Scores pairs."""
    sources: SourceStore
    """Makes clips of inputs."""
    tokens: TokenSource
    """Says which bearer token calls show."""
    clock: Clock
    """All the node's time."""
    telemetry: Telemetry
    """Hears what the node does."""
    chance: Callable[[], float]
    """Gives numbers from 0 to 1, evenly spread."""


def _identity(settings: NodeSettings) -> NodeIdentity:
    instance = InstanceId(os.urandom(_INSTANCE_BYTES).hex())
    return NodeIdentity(name=NodeName(settings.name), instance=instance)


def _policy(settings: NodeSettings) -> NodePolicy:
    return NodePolicy(
        backend=settings.scorer.backend,
        slots=settings.slots,
        session=settings.controller.session_policy,
        poll_interval_s=settings.controller.poll_interval_s,
        shutdown_timeout_s=settings.shutdown_timeout_s,
    )


def _about(settings: NodeSettings) -> Fields:
    controller = settings.controller
    return {
        "controller": None if controller.address is None else str(controller.address),
        "tls": controller.tls,
        "bearer_token": controller.token is not None or controller.token_file is not None,
    }


def _scorer(settings: NodeSettings, environment: Mapping[str, str]) -> CliScorer:
    threads = settings.score_threads(available_processors())
    return cli_scorer(replace(settings.scorer, threads=threads), environment)


def _sources(clock: Clock) -> SourceStore:
    return SourcesByKind({SourceKind.LOCAL: LocalSources(clock)})


def _tokens(settings: NodeSettings, clock: Clock) -> TokenSource:
    controller = settings.controller
    if controller.token_file is not None:
        return TokenFile(Path(controller.token_file), clock, in_thread)
    if controller.token is not None:
        return InlineToken(controller.token.get_secret_value(), clock)
    return NoToken()


def _telemetry() -> Telemetry:
    return JoinedTelemetry(LoggingTelemetry(), TracingTelemetry())


class NodeContainer(containers.DeclarativeContainer):
    """What a node is made of; `settings`, `environment` and an open `controller` have to be given."""

    settings: providers.Provider[NodeSettings] = providers.Dependency(instance_of=NodeSettings)
    environment: providers.Provider[object] = providers.Dependency(instance_of=Mapping)
    controller: providers.Provider[object] = providers.Dependency()

    clock: providers.Provider[Clock] = providers.Singleton(SystemClock)
    chance: providers.Provider[Callable[[], float]] = providers.Object(random.SystemRandom().random)
    telemetry: providers.Provider[Telemetry] = providers.Singleton(_telemetry)
    tokens: providers.Provider[TokenSource] = providers.Singleton(_tokens, settings, clock)
    scorer: providers.Provider[Scorer] = providers.Singleton(_scorer, settings, environment)
    sources: providers.Provider[SourceStore] = providers.Singleton(_sources, clock)
    identity: providers.Provider[NodeIdentity] = providers.Singleton(_identity, settings)
    policy: providers.Provider[NodePolicy] = providers.Factory(_policy, settings)
    about: providers.Provider[Fields] = providers.Factory(_about, settings)
    node: providers.Provider[Node] = providers.Factory(
        Node,
        identity=identity,
        policy=policy,
        controller=controller,
        scorer=scorer,
        sources=sources,
        clock=clock,
        telemetry=telemetry,
        chance=chance,
        about=about,
    )


def read_node_settings(environment: Mapping[str, str]) -> NodeSettings:
    """Read the settings of a node on this machine, and look at the files and devices that they need.

    Args:
        environment: Names to values, such as `os.environ`.

    Raises:
        ConfigurationError: At least one value cannot be honoured; names every such variable.
    """
    files = FileChecks(
        certificates=lambda path: trusted_roots(Path(path)),
        mode=lambda path: Path(path).stat().st_mode,
        fuse=lambda: fuse_problem(environment),
    )
    return NodeSettings.from_environment(environment, host_name=socket.gethostname(), files=files)


@asynccontextmanager
async def open_node(
    settings: NodeSettings | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    tls13_only: bool = False,
    **ports: Unpack[NodePorts],
) -> AsyncGenerator[Node]:
    """Open a node for the running event loop; `run` makes it work.

    Must be entered on the event loop's own thread, which then starts the scorer's processes: they die with
    that thread, so that none outlives the process. Nothing is started or dialled before `run`; what was
    opened is closed after the body.

    Args:
        settings: What the node is told; None reads it from the environment.
        environment: The environment of this process, for the scorer's processes; None takes `os.environ`.
        tls13_only: Whether grpc was kept from TLS below 1.3 before it was imported, as the programs do;
            otherwise a handshake of our own proves the version.
        ports: What is used instead of the adapters that the settings ask for, see `NodePorts`.

    Yields:
        The node.

    Raises:
        ConfigurationError: A setting cannot be honoured; there is no controller to work for.
        ScorerUnavailableError: The platform is not supported.
    """
    async with _opened(settings, environment, ports, tls13_only=tls13_only) as container:
        yield container.node()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedStart:
    """What a start would have found.

    Attributes:
        scorer: The executable that passed the self-test, and why it was chosen.
        warnings: What is wrong and keeps no node from starting.
    """

    scorer: str
    warnings: tuple[str, ...]


async def check_start(
    settings: NodeSettings | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    tls13_only: bool = False,
    **ports: Unpack[NodePorts],
) -> CheckedStart:
    """Open what a node would be made of, prove its scorer, ask for its token, and close everything.

    The controller is not called.

    Args:
        settings: The same as of `open_node`, as the others are.
        environment: The same.
        tls13_only: The same.
        ports: The same.

    Raises:
        ConfigurationError: A setting cannot be honoured; there is no controller to work for.
        ScorerUnavailableError: The scorer does not work.
    """
    async with _opened(settings, environment, ports, tls13_only=tls13_only) as container:
        scorer = container.scorer()
        await scorer.self_test()
        try:
            await container.tokens().token()
        except TokenError as error:
            return CheckedStart(scorer=_words(scorer), warnings=(str(error),))
        return CheckedStart(scorer=_words(scorer), warnings=())


def _words(scorer: Scorer) -> str:
    info = scorer.info if isinstance(scorer, CliScorer) else None
    if info is None:
        return type(scorer).__name__
    return f"{info.executable} ({info.why}), version {info.version or 'unknown'}"


@asynccontextmanager
async def _opened(
    settings: NodeSettings | None,
    environment: Mapping[str, str] | None,
    ports: NodePorts,
    *,
    tls13_only: bool,
) -> AsyncGenerator[NodeContainer]:
    """Open a controller where none is given, for the body.

    Yields:
        A container that lacks nothing.
    """
    environment = dict(os.environ) if environment is None else environment
    settings = read_node_settings(environment) if settings is None else settings
    container = NodeContainer(settings=settings, environment=environment)
    container.override_providers(**{name: providers.Object(port) for name, port in ports.items()})
    async with AsyncExitStack() as opened:
        if "controller" not in ports:
            controller = _controller(container, settings.controller, tls13_only=tls13_only)
            container.override_providers(
                controller=providers.Object(await opened.enter_async_context(controller))
            )
        container.check_dependencies()
        yield container


def _controller(
    container: NodeContainer, asked: ControllerClientSettings, *, tls13_only: bool
) -> AbstractAsyncContextManager[Controller]:
    if asked.address is None:
        raise ConfigurationError(
            "VMAFX_CONTROLLER_ADDR",
            "is unset, and without a controller this version has nothing to do: set it to host:port",
        )
    tls = None
    if asked.tls:
        ca_file = None if asked.ca_file is None else Path(asked.ca_file)
        tls = TlsOptions(ca_file=ca_file, server_name=asked.server_name, refused_below_13=tls13_only)
    return open_controller(
        asked.address,
        tls=tls,
        tokens=container.tokens(),
        clock=container.clock(),
        telemetry=container.telemetry(),
    )
