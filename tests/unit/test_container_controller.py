"""The wiring of a controller: every port can be replaced, the store is closed last (ADR 0028)."""

from __future__ import annotations

import asyncio
import hashlib
import stat
from dataclasses import replace
from typing import Any

import pytest
from dependency_injector import errors, providers

from tests.unit.test_container_node import Touched, surroundings
from vmafx.adapters.auth.disabled import EVERYONE, EveryoneVerifier
from vmafx.adapters.clock.steady import SteadyClock
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.adapters.store.memory import MemoryStore
from vmafx.adapters.store.sqlite import SqliteStore
from vmafx.app.container import controller as wiring
from vmafx.app.container.controller import (
    AUTH_DISABLED,
    ControllerContainer,
    ControllerPorts,
    open_reference_controller,
    read_controller_settings,
)
from vmafx.app.container.controller_check import check_controller_start
from vmafx.app.container.questionable import SETTING_QUESTIONABLE
from vmafx.app.controller.controller import ReferenceController
from vmafx.app.controller.events import STARTED
from vmafx.app.controller.policy import ControllerPolicy
from vmafx.app.settings.auth import AuthSettings
from vmafx.app.settings.controller import ControllerGrpcSettings, ControllerSettings
from vmafx.app.settings.store import StoreSettings
from vmafx.domain.address import HostPort
from vmafx.domain.errors import ConfigurationError, ControllerError
from vmafx.domain.job import JobSpec, NodeName, TenantId
from vmafx.domain.lease import LeasePolicy
from vmafx.domain.nodesession import Capability
from vmafx.domain.roots import RootTemplates
from vmafx.domain.session_state import Session
from vmafx.ports.controller import NodeIdentity

ROOTS = RootTemplates.parse(["/clips"])
SETTINGS = ControllerSettings(auth=AuthSettings(disabled=True), scoring_roots=ROOTS)


class FakeListener:
    """A way in that nobody uses; it knows what it was told."""

    def __init__(self, said: list[str] | None = None) -> None:
        self.said = [] if said is None else said

    @property
    def address(self) -> HostPort:
        return HostPort(host="h", port=1)

    async def start(self) -> None:
        self.said.append("start")

    async def stop(self, *, grace_s: float) -> None:
        self.said.append("stop")


def fakes(clock) -> dict[str, Any]:
    """Every port, without a file or a socket."""
    numbers = iter(range(1000))
    return {
        "store": MemoryStore(LeasePolicy()),
        "verifier": EveryoneVerifier(),
        "grpc": FakeListener(),
        "http": FakeListener(),
        "clock": clock,
        "telemetry": RecordingTelemetry(),
        "new_id": lambda: f"id-{next(numbers)}",
        "new_secret": lambda size: hashlib.sha256(b"x").digest()[:size],
    }


async def run_for_a_while(controller, clock) -> None:
    task = asyncio.create_task(controller.run())
    await clock.sleep(60.0)
    assert controller.ready_problem() is None
    controller.stop()
    await task


@pytest.mark.virtual_time
async def test_every_port_is_used_that_is_given(clock):
    given = {name: Touched(port) for name, port in fakes(clock).items() if not name.startswith("new_")}
    assert set(given) | {"new_id", "new_secret"} == set(ControllerPorts.__annotations__)
    async with open_reference_controller(SETTINGS, environment={}, **given) as controller:
        await run_for_a_while(controller, clock)
    # The listeners are what would ask the verifier.
    assert {name for name, port in given.items() if port.touched} == set(given) - {"verifier"}
    assert given["grpc"].said[0] == given["http"].said[0] == "start"


@pytest.mark.virtual_time
async def test_ids_and_secrets_come_from_where_they_are_given(clock):
    ports = fakes(clock)
    container = ControllerContainer(settings=SETTINGS)
    container.override_providers(**{name: providers.Object(port) for name, port in ports.items()})
    desk, jobs = container.desks().of(EVERYONE.tenant), container.jobs().of(EVERYONE.tenant)
    registered = await desk.register(NodeIdentity(name=NodeName("n")), Capability(), timeout_s=5.0)
    assert registered.node_id == "id-0"
    spec = JobSpec(reference="/clips/r", distorted="/clips/d")
    assert await jobs.submit(spec, timeout_s=5.0) == "id-1"
    session = Session(generation=1, node_id=registered.node_id, session_token=registered.session_token)
    assigned = await desk.pull(session, Capability(), timeout_s=5.0)
    assert assigned.job_id == "id-1"
    assert assigned.scoring_roots == ("/clips",)


def test_ids_are_uuids_unless_others_are_given():
    container = ControllerContainer(settings=SETTINGS)
    ids = {container.new_id()() for _ in range(3)}
    assert len(ids) == 3
    assert {each[14] for each in ids} == {"7"}
    assert len(container.new_secret()(32)) == 32
    assert isinstance(container.clock(), SteadyClock)


def test_what_is_not_given_is_named():
    with pytest.raises(errors.Error, match="settings"):
        ControllerContainer().check_dependencies()
    with pytest.raises(errors.Error, match="store"):
        ControllerContainer(settings=SETTINGS).check_dependencies()


def test_a_controller_works_as_the_settings_say():
    environment = {
        "VMAFX_AUTH_DISABLED": "1", "HOME": "/h", "VMAFX_SCORING_ROOTS": "/clips", "VMAFX_PULL_WAIT": "7s",
        "VMAFX_STORE_LEASE_TTL": "3s", "VMAFX_STORE_SESSION_TTL": "4s", "VMAFX_STORE_SWEEP_INTERVAL": "1s",
        "VMAFX_STORE_BACKOFF_BASE": "2s", "VMAFX_STORE_BACKOFF_MAX": "9s", "VMAFX_JOB_RETENTION": "1h",
        "VMAFX_TENANT_PENDING_MAX": "8", "VMAFX_HTTP_TIMEOUTS_SHUTDOWN": "6s",
    }  # fmt: skip
    assert ControllerContainer(settings=read_controller_settings(environment)).policy() == ControllerPolicy(
        lease=LeasePolicy(lease_ttl_s=3.0, session_ttl_s=4.0, backoff_base_s=2.0, backoff_max_s=9.0),
        roots=ROOTS,
        sweep_interval_s=1.0,
        pull_wait_s=7.0,
        retention_s=3600.0,
        tenant_pending_max=8,
        shutdown_s=6.0,
    )
    bare = read_controller_settings({"VMAFX_AUTH_DISABLED": "1", "HOME": "/h"})
    assert ControllerContainer(settings=bare).policy() == ControllerPolicy()


# ---------------------------------------------------------------- who is let in


async def test_nobody_is_let_in_by_settings_that_do_not_say_so():
    with pytest.raises(ConfigurationError, match="this version verifies no tokens") as refused:
        async with open_reference_controller(ControllerSettings(), environment={}):
            raise AssertionError
    assert refused.value.setting == "VMAFX_AUTH_DISABLED"


@pytest.mark.virtual_time
async def test_a_verifier_of_ones_own_needs_no_word_of_the_settings_and_brings_no_warning(clock):
    ports = fakes(clock)
    async with open_reference_controller(environment={}, **ports) as controller:
        await run_for_a_while(controller, clock)
    assert ports["telemetry"].events_of(AUTH_DISABLED) == ()
    del ports["verifier"]
    async with open_reference_controller(environment={}, **ports):
        pass  # nor does a listener of one's own
    del ports["grpc"]
    async with open_reference_controller(SETTINGS, environment={}, **ports):
        pass
    assert len(ports["telemetry"].events_of(AUTH_DISABLED)) == 2
    with pytest.raises(ConfigurationError, match="VMAFX_AUTH_DISABLED"):
        async with open_reference_controller(environment={}, **ports):
            raise AssertionError


@pytest.mark.virtual_time
async def test_tls_that_cannot_be_kept_to_13_is_refused(clock):
    tls = ControllerGrpcSettings(tls=True, cert_file="c", key_file="k")
    settings = replace(SETTINGS, grpc=tls)
    ports = fakes(clock)
    async with open_reference_controller(settings, environment={}, **ports):
        pass  # a listener of one's own is one's own affair
    del ports["grpc"]
    with pytest.raises(ConfigurationError, match="cannot be kept to TLS") as refused:
        async with open_reference_controller(settings, environment={}, **ports):
            raise AssertionError
    assert refused.value.setting == "VMAFX_GRPC_TLS"
    async with open_reference_controller(settings, environment={}, tls13_only=True, **ports):
        pass


# ---------------------------------------------------------------- the store


@pytest.fixture
def closings(monkeypatch):
    """What is closed, in order."""
    said: list[str] = []
    close = SqliteStore.close

    async def told(self) -> None:
        said.append("store closed")
        await close(self)

    monkeypatch.setattr(SqliteStore, "close", told)
    return said


async def test_the_store_is_closed_last(closings, tmp_path):
    listener = FakeListener(closings)
    settings = replace(SETTINGS, store=StoreSettings(path=str(tmp_path / "jobs.db")))
    async with open_reference_controller(
        settings, environment={}, grpc=listener, http=listener, telemetry=RecordingTelemetry()
    ) as controller:
        controller.stop()
        await controller.run()
        assert "store closed" not in closings
    assert closings[-1] == "store closed"
    assert closings.count("store closed") == 1


async def test_the_store_is_closed_when_the_opening_fails_later(closings, tmp_path, monkeypatch):
    def breaks(_) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(wiring, "auth_warnings", breaks)
    settings = replace(SETTINGS, store=StoreSettings(path=str(tmp_path / "jobs.db")))
    with pytest.raises(ZeroDivisionError):
        async with open_reference_controller(settings, environment={}):
            raise AssertionError
    assert closings == ["store closed"]
    SqliteStore.open(str(tmp_path / "jobs.db"), LeasePolicy())._file._file.let_go()


async def test_the_folders_of_the_default_are_made_for_their_owner_alone(tmp_path):
    (tmp_path / "old").mkdir(mode=0o755)
    environment = {"XDG_STATE_HOME": str(tmp_path / "old/new")}
    async with open_reference_controller(SETTINGS, environment=environment, telemetry=RecordingTelemetry()):
        assert (tmp_path / "old/new/vmafx/vmafx-controller.db").exists()
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("old", "old/new", "old/new/vmafx")]
    assert modes == [0o755, 0o700, 0o700]


@pytest.mark.parametrize("state", ["file", "file/below"])
async def test_a_default_that_cannot_be_made_is_refused_by_name(tmp_path, state):
    (tmp_path / "file").touch()
    environment = {"XDG_STATE_HOME": str(tmp_path / state)}
    for _ in range(2):
        with pytest.raises(ConfigurationError) as refused:
            async with open_reference_controller(SETTINGS, environment=environment):
                raise AssertionError
        assert refused.value.setting == "VMAFX_DB_PATH"
        assert state in str(refused.value)
    with pytest.raises(ConfigurationError, match="VMAFX_DB_PATH"):
        await check_controller_start(SETTINGS, environment=environment)


async def test_the_folder_of_a_given_path_is_not_made(tmp_path):
    settings = replace(SETTINGS, store=StoreSettings(path=str(tmp_path / "typo/jobs.db")))
    with pytest.raises(ConfigurationError, match="does not exist: make"):
        async with open_reference_controller(settings, environment={}):
            raise AssertionError
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- in a service


@pytest.mark.virtual_time
async def test_two_controllers_in_a_process_share_nothing(clock):
    ports = [fakes(clock), fakes(clock)]
    containers = [ControllerContainer(settings=SETTINGS) for _ in ports]
    for container, given in zip(containers, ports, strict=True):
        container.override_providers(**{name: providers.Object(port) for name, port in given.items()})
    jobs = containers[0].jobs().of(EVERYONE.tenant)
    await jobs.submit(JobSpec(reference="/clips/r", distorted="/clips/d"), timeout_s=5.0)
    submitted = b'vmafx_controller_jobs_submitted_total{tenant="dev"} 1'
    pages = [await container.scrape().page() for container in containers]
    assert [submitted in page.content for page in pages] == [True, False]


class StopsAtTheStart(RecordingTelemetry):
    """Has a controller stop as soon as it works."""

    controller: ReferenceController

    def event(self, level, message, fields=None, *, error=None) -> None:
        super().event(level, message, fields, error=error)
        if message == STARTED:
            self.controller.stop()


async def test_an_embedded_controller_tells_what_is_odd_and_which_database_it_serves(tmp_path):
    telemetry = StopsAtTheStart()
    ports = fakes(SteadyClock()) | {"telemetry": telemetry}
    del ports["store"]
    path = str(tmp_path / "jobs.db")
    settings = ControllerSettings(store=StoreSettings(path=path, lease_ttl_s=5.0))
    async with open_reference_controller(settings, **ports) as controller:
        odd = [event.fields["setting"] for event in telemetry.events_of(SETTING_QUESTIONABLE)]
        telemetry.controller = controller
        await controller.run()
    assert odd == ["VMAFX_SCORING_ROOTS", "VMAFX_STORE_LEASE_TTL"]
    (started,) = telemetry.events_of(STARTED)
    assert started.fields["database"] == path


@pytest.mark.virtual_time
async def test_an_embedded_controller_changes_nothing_of_its_process(clock):
    before = surroundings()
    async with open_reference_controller(SETTINGS, environment={}, **fakes(clock)) as controller:
        task = asyncio.create_task(controller.run())
        await clock.sleep(1.0)
        assert surroundings() == before
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert surroundings() == before
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.virtual_time
async def test_a_process_hands_jobs_in_and_answers_nodes_itself(clock):
    ports = fakes(clock)
    async with open_reference_controller(SETTINGS, environment={}, **ports) as controller:
        task = asyncio.create_task(controller.run())
        await clock.settle()
        jobs, desk = controller.jobs_of(EVERYONE.tenant), controller.desk_of(EVERYONE.tenant)
        job_id = await jobs.submit(JobSpec(reference="/clips/r", distorted="/clips/d"), timeout_s=5.0)
        registered = await desk.register(NodeIdentity(name=NodeName("n")), Capability(), timeout_s=5.0)
        session = Session(generation=0, node_id=registered.node_id, session_token=registered.session_token)
        assigned = await desk.pull(session, Capability(), timeout_s=5.0)
        assert assigned.job_id == job_id
        assert (await jobs.get(job_id, timeout_s=5.0)).assigned_node == "n"
        with pytest.raises(ControllerError, match="another tenant"):
            await controller.jobs_of(TenantId("another")).get(job_id, timeout_s=5.0)
        controller.stop()
        await task
