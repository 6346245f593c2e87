"""The wiring of a controller: every port has its adapter here, and each can be replaced (ADR 0028)."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, Protocol, TypedDict, Unpack

from dependency_injector import containers, providers

from vmafx.adapters.auth.disabled import EveryoneVerifier
from vmafx.adapters.clock.steady import SteadyClock
from vmafx.adapters.grpc.environment import TLS13_CIPHERS
from vmafx.adapters.grpc.gate import Gate
from vmafx.adapters.grpc.job_calls import JobCalls
from vmafx.adapters.grpc.listener import GrpcLimits, GrpcListener
from vmafx.adapters.grpc.node_calls import NodeCalls
from vmafx.adapters.grpc.roles import CONTROLLER_ROLES
from vmafx.adapters.grpc.server_credentials import ServerTls
from vmafx.adapters.http.limits import HttpLimits
from vmafx.adapters.http.listener import HttpListener
from vmafx.adapters.store.sqlite import SqliteStore
from vmafx.adapters.telemetry.embedded import LoggingTelemetry
from vmafx.adapters.telemetry.joined import JoinedTelemetry
from vmafx.adapters.telemetry.prometheus import PrometheusTelemetry
from vmafx.adapters.telemetry.traces import TracingTelemetry
from vmafx.app.container.questionable import warn_of_settings
from vmafx.app.controller.aftermath import Aftermath
from vmafx.app.controller.controller import ReferenceController
from vmafx.app.controller.desk import Desks
from vmafx.app.controller.feed import JobFeed
from vmafx.app.controller.jobs import JobDesks
from vmafx.app.controller.metrics import CONTROLLER_FAMILIES
from vmafx.app.controller.outage import Outage
from vmafx.app.controller.policy import ControllerPolicy
from vmafx.app.controller.readiness import Readiness
from vmafx.app.controller.scrape import Scrape
from vmafx.app.controller.sweeper import Sweeper
from vmafx.app.controller.unserved import Unserved
from vmafx.app.controller.waiting import PullWaits
from vmafx.app.settings.controller import GRPC_ADDRESS, HTTP_ADDRESS, ControllerSettings
from vmafx.app.settings.shown_controller import auth_warnings, controller_warnings
from vmafx.app.settings.store import DATABASE, default_database
from vmafx.domain.callers import Principal, RoleTable
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.roots import RootTemplates
from vmafx.domain.uuid7 import RANDOM_BITS, uuid7
from vmafx.domain.version import __version__
from vmafx.ports.clock import Clock
from vmafx.ports.controller import Desk
from vmafx.ports.jobs import Jobs
from vmafx.ports.jobstore import AttemptStore, JobStore, StoreUpkeep
from vmafx.ports.listener import Listener
from vmafx.ports.sessionstore import SessionStore
from vmafx.ports.telemetry import Fields, Level, Telemetry
from vmafx.ports.tokens import TokenVerifier

__all__ = [
    "AUTH_DISABLED",
    "TAKEN_OVER",
    "ControllerContainer",
    "ControllerPorts",
    "ControllerStore",
    "open_reference_controller",
    "read_controller_settings",
    "server_tls",
]

AUTH_DISABLED: Final = "authentication is disabled"
"""WARN, at every start, twice where other machines can call; `error` says what that means."""
TAKEN_OVER: Final = "jobs of the original platform taken over"
"""INFO; `jobs`, `requeued`, `left_out`, and the `database`."""
_FOLDER_MODE: Final = 0o700


class ControllerStore(JobStore, AttemptStore, StoreUpkeep, SessionStore, Protocol):
    """A store of everything that a controller keeps."""


class ControllerPorts(TypedDict, total=False):
    """What is used instead of the adapters that the settings ask for."""

    store: ControllerStore
    """Keeps jobs, attempts and sessions; made with the lease policy of the settings."""
    verifier: TokenVerifier
    """Says who calls; the settings then need not say that nobody is authenticated."""
    grpc: Listener
    """Takes the calls of nodes and clients, and knows who calls: `desk_of` and `jobs_of` answer them."""
    http: Listener
    """Serves probes and metrics."""
    clock: Clock
    """All the controller's time; it must not step."""
    telemetry: Telemetry
    """Hears what the controller does; numbers go to the page of metrics in any case."""
    new_id: Callable[[], str]
    """Gives ids that were never given before, as UUIDs."""
    new_secret: Callable[[int], bytes]
    """Gives so many bytes that nobody can guess."""


def _new_ids(clock: Clock) -> Callable[[], str]:
    def new_id() -> str:
        return uuid7(clock.now(), secrets.randbits(RANDOM_BITS))

    return new_id


def _policy(settings: ControllerSettings) -> ControllerPolicy:
    return ControllerPolicy(
        lease=settings.store.lease_policy,
        roots=settings.scoring_roots or RootTemplates(),
        sweep_interval_s=settings.store.sweep_interval_s,
        pull_wait_s=settings.pull_wait_s,
        retention_s=settings.store.retention_s,
        tenant_pending_max=settings.store.pending_max or None,
        shutdown_s=settings.http.shutdown_s,
    )


def _verifier(settings: ControllerSettings) -> TokenVerifier:
    problem = settings.auth.problem()
    if problem is not None:
        raise problem
    return EveryoneVerifier()


def _telemetry() -> Telemetry:
    return JoinedTelemetry(LoggingTelemetry(), TracingTelemetry())


def _metrics() -> PrometheusTelemetry:
    return PrometheusTelemetry(CONTROLLER_FAMILIES, version=__version__)


def _grpc(  # noqa: PLR0913 -- one argument per thing that the listener is made of
    settings: ControllerSettings,
    desks: Desks,
    jobs: JobDesks,
    *,
    verifier: TokenVerifier,
    readiness: Readiness,
    clock: Clock,
    telemetry: Telemetry,
) -> Listener:
    def desk_of(caller: Principal) -> Desk:
        return desks.of(caller.tenant)

    def jobs_of(caller: Principal) -> Jobs:
        return jobs.of(caller.tenant)

    asked = settings.grpc
    return GrpcListener(
        asked.address,
        NodeCalls(desk_of, telemetry=telemetry),
        JobCalls(jobs_of, clock=clock),
        gate=Gate(verifier, RoleTable(CONTROLLER_ROLES), telemetry),
        ready=readiness.problem,
        telemetry=telemetry,
        clock=clock,
        setting=GRPC_ADDRESS,
        limits=GrpcLimits(receive_bytes_max=asked.receive_bytes_max, send_bytes_max=asked.send_bytes_max),
        tls=server_tls(settings),
    )


def _http(
    settings: ControllerSettings, readiness: Readiness, scrape: Scrape, clock: Clock, telemetry: Telemetry
) -> Listener:
    asked = settings.http
    return HttpListener(
        asked.address,
        setting=HTTP_ADDRESS,
        limits=HttpLimits(
            header_s=asked.header_s,
            read_s=asked.read_s,
            write_s=asked.write_s,
            idle_s=asked.idle_s,
            header_bytes_max=asked.header_bytes_max,
            body_bytes_max=None if asked.unlimited else asked.body_bytes_max,
        ),
        ready=readiness.problem,
        metrics=scrape.page,
        telemetry=telemetry,
        clock=clock,
    )


class ControllerContainer(containers.DeclarativeContainer):
    """What a controller is made of; `settings` and an open `store` have to be given."""

    settings: providers.Provider[ControllerSettings] = providers.Dependency(instance_of=ControllerSettings)
    store: providers.Provider[object] = providers.Dependency()

    clock: providers.Provider[Clock] = providers.Singleton(SteadyClock)
    new_id: providers.Provider[Callable[[], str]] = providers.Singleton(_new_ids, clock)
    new_secret: providers.Provider[Callable[[int], bytes]] = providers.Object(os.urandom)
    telemetry: providers.Provider[Telemetry] = providers.Singleton(_telemetry)
    metrics: providers.Provider[PrometheusTelemetry] = providers.Singleton(_metrics)
    told: providers.Provider[Telemetry] = providers.Singleton(JoinedTelemetry, telemetry, metrics)
    verifier: providers.Provider[TokenVerifier] = providers.Singleton(_verifier, settings)
    policy: providers.Provider[ControllerPolicy] = providers.Singleton(_policy, settings)

    about: providers.Provider[Fields] = providers.Object({})
    readiness: providers.Provider[Readiness] = providers.Singleton(Readiness)
    waits: providers.Provider[PullWaits] = providers.Singleton(PullWaits, clock)
    feed: providers.Provider[JobFeed] = providers.Singleton(JobFeed)
    aftermath: providers.Provider[Aftermath] = providers.Singleton(Aftermath, told, waits, feed)
    outage: providers.Provider[Outage] = providers.Singleton(Outage, readiness, clock=clock, telemetry=told)
    unserved: providers.Provider[Unserved] = providers.Singleton(
        Unserved, store, store, clock=clock, telemetry=told
    )
    desks: providers.Provider[Desks] = providers.Singleton(
        Desks,
        store,
        store,
        policy=policy,
        clock=clock,
        telemetry=told,
        outage=outage,
        waits=waits,
        aftermath=aftermath,
        new_id=new_id,
        new_secret=new_secret,
    )
    jobs: providers.Provider[JobDesks] = providers.Singleton(
        JobDesks,
        store,
        policy=policy,
        clock=clock,
        telemetry=told,
        outage=outage,
        aftermath=aftermath,
        feed=feed,
        unserved=unserved,
        new_job_id=new_id,
    )
    sweeper: providers.Provider[Sweeper] = providers.Singleton(
        Sweeper,
        store,
        policy=policy,
        clock=clock,
        aftermath=aftermath,
        unserved=unserved,
        outage=outage,
        telemetry=told,
    )
    scrape: providers.Provider[Scrape] = providers.Singleton(
        Scrape, store, store, clock=clock, exposition=metrics, telemetry=told
    )
    grpc: providers.Provider[Listener] = providers.Singleton(
        _grpc, settings, desks, jobs, verifier=verifier, readiness=readiness, clock=clock, telemetry=told
    )
    http: providers.Provider[Listener] = providers.Singleton(_http, settings, readiness, scrape, clock, told)
    controller: providers.Provider[ReferenceController] = providers.Factory(
        ReferenceController,
        desks=desks,
        jobs=jobs,
        grpc=grpc,
        http=http,
        sweeper=sweeper,
        waits=waits,
        feed=feed,
        readiness=readiness,
        policy=policy,
        clock=clock,
        telemetry=told,
        about=about,
    )


def read_controller_settings(
    environment: Mapping[str, str], *, needs_auth: bool = True, needs_database: bool = True
) -> ControllerSettings:
    """Read the settings of a controller; nothing of the machine is looked at.

    Args:
        environment: Names to values, such as `os.environ`.
        needs_auth: Whether the settings decide who may call.
        needs_database: Whether they decide where jobs are kept.

    Raises:
        ConfigurationError: At least one value cannot be honoured; names every such variable.
    """
    return ControllerSettings.from_environment(
        environment, needs_auth=needs_auth, needs_database=needs_database
    )


@asynccontextmanager
async def open_reference_controller(
    settings: ControllerSettings | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    tls13_only: bool = False,
    **ports: Unpack[ControllerPorts],
) -> AsyncGenerator[ReferenceController]:
    """Open a controller for the running event loop; `run` makes it work.

    Opening waits for the disk. Nobody is served before `run`. The store is closed after the body, when
    everything that uses it has ended; a store that was given is not.

    Args:
        settings: What the controller is told; None reads it from the environment.
        environment: The environment of this process, for the place of the database; None takes `os.environ`.
        tls13_only: Whether grpc was kept from TLS below 1.3 before it was imported, as the programs do;
            without it no listener of ours speaks TLS.
        ports: What is used instead of the adapters that the settings ask for, see `ControllerPorts`.

    Yields:
        The controller.

    Raises:
        ConfigurationError: A setting cannot be honoured, or the database cannot be used.
    """
    by_hand = settings is not None and environment is None
    environment = dict(os.environ) if environment is None else environment
    open_to_all = not {"grpc", "verifier"}.intersection(ports)
    if settings is None:
        settings = read_controller_settings(
            environment, needs_auth=open_to_all, needs_database="store" not in ports
        )
    container = ControllerContainer(settings=settings)
    container.override_providers(**{name: providers.Object(port) for name, port in ports.items()})
    if open_to_all:
        container.verifier()  # may refuse, and nothing is open yet
    if settings.grpc.tls and not tls13_only and "grpc" not in ports:
        refused: ConfigurationError = _tls_below_13()
        raise refused
    odd = controller_warnings(settings, {} if by_hand else environment)
    warn_of_settings(container.told(), odd)
    async with AsyncExitStack() as opened:
        if "store" not in ports:
            store = SqliteStore.open(_database(settings, environment), settings.store.lease_policy)
            await opened.enter_async_context(store)
            _tell_taken_over(store, container.told())
            container.override_providers(
                store=providers.Object(store), about=providers.Object({"database": store.path})
            )
        container.check_dependencies()
        if open_to_all:
            for line in auth_warnings(settings):
                container.told().event(Level.WARN, AUTH_DISABLED, {"error": line})
        yield container.controller()


def server_tls(settings: ControllerSettings) -> ServerTls | None:
    """Return how the listener for calls speaks TLS; None when it does not.

    Args:
        settings: The settings.
    """
    asked = settings.grpc
    if not asked.tls or asked.cert_file is None or asked.key_file is None:
        return None
    return ServerTls(cert_file=Path(asked.cert_file), key_file=Path(asked.key_file))


def _tls_below_13() -> ConfigurationError:
    problem = (
        f"cannot be kept to TLS 1.3 here: set GRPC_SSL_CIPHER_SUITES={TLS13_CIPHERS} before anything imports "
        "grpc, and say so with tls13_only=True"
    )
    return ConfigurationError("VMAFX_GRPC_TLS", problem, value="true")


def _database(settings: ControllerSettings, environment: Mapping[str, str]) -> str:
    """Return where the database lies; the folders of the default are made.

    Raises:
        ConfigurationError: There is no default, or its folders cannot be made.
    """
    if settings.store.path is not None:
        return settings.store.path
    path = default_database(environment)
    try:
        _make_private(Path(path).parent)
    except OSError as error:
        problem = f"cannot be made: {error.strerror or error}"
        raise ConfigurationError(DATABASE, problem, value=path) from error
    return path


def _make_private(folder: Path) -> None:
    """Make a folder and those above it that are missing, for their owner alone."""
    if not folder.is_dir():
        _make_private(folder.parent)
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)


def _tell_taken_over(store: SqliteStore, telemetry: Telemetry) -> None:
    found = store.imported
    if found is not None:
        fields: Fields = {
            "database": store.path,
            "jobs": found.jobs,
            "requeued": found.requeued,
            "left_out": found.left_out,
        }
        telemetry.event(Level.INFO, TAKEN_OVER, fields)
