"""The wiring of a node: every port can be replaced, nothing is left open or changed (ADR 0022)."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import warnings
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from dependency_injector import errors, providers

from tests.node_world import score_of, spec
from vmafx.adapters.auth.bearer import InlineToken, NoToken, TokenFile
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.controller import FakeController
from vmafx.adapters.fakes.scorer import FakeRun, FakeScorer
from vmafx.adapters.fakes.sources import FakeSource, FakeSources
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.adapters.vmaf_cli.scorer import CliScorer
from vmafx.app.container import node as wiring
from vmafx.app.container.node import NodeContainer, NodePorts, check_start, open_node, read_node_settings
from vmafx.app.node.node import Node
from vmafx.app.settings.node import NodeSettings
from vmafx.domain.errors import ConfigurationError, ScorerUnavailableError, TokenError
from vmafx.domain.job import JobStatus
from vmafx.ports.clock import Clock

SETTINGS = NodeSettings(name="n")
ADDRESSED = {"VMAFX_NODE_ID": "n", "VMAFX_CONTROLLER_ADDR": "127.0.0.1:1"}


class Touched:
    """Passes everything on to a port, and knows whether anybody asked."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.touched = 0

    def __getattr__(self, name: str) -> Any:
        self.touched += 1
        return getattr(self._port, name)

    def __call__(self) -> Any:
        self.touched += 1
        return self._port()


def fakes(clock: Clock) -> dict[str, Any]:
    """Every port but the tokens, which belong to the controller that is replaced."""
    return {
        "controller": FakeController(clock, roots=("/clips",)),
        "scorer": FakeScorer(clock, lambda r: FakeRun(score=score_of(r.distorted.name), takes_s=3.0)),
        "sources": FakeSources(clock, lambda _: FakeSource()),
        "clock": clock,
        "telemetry": RecordingTelemetry(),
        "chance": Random(5).random,
    }


async def run_one_job(node: Node, controller: FakeController) -> None:
    """Let a node do one job, and stop it."""
    job = controller.submit(spec("a"))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(node.run())
        (done,) = await controller.until_ended(job)
        node.stop()
    assert done.status is JobStatus.COMPLETED
    assert done.result is not None
    assert done.result.score == score_of("/clips/a.y4m")


@pytest.mark.virtual_time
async def test_every_port_is_used_that_is_given(clock):
    given = {name: Touched(port) for name, port in fakes(clock).items()}
    async with open_node(SETTINGS, environment={}, **given) as node:
        await run_one_job(node, given["controller"])
    assert {name for name, port in given.items() if port.touched} == set(given)
    assert set(given) | {"tokens"} == set(NodePorts.__annotations__)


async def test_the_token_source_that_is_given_is_used():
    asked = asyncio.Event()

    class Tokens:
        async def token(self) -> str | None:
            asked.set()
            raise TokenError("there is none")

    settings = read_node_settings(ADDRESSED)
    clock = SystemClock()
    async with (
        open_node(settings, environment={}, tokens=Tokens(), scorer=FakeScorer(clock)) as node,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(node.run())
        async with asyncio.timeout(30):
            await asked.wait()
        node.stop()


@pytest.mark.virtual_time
async def test_two_nodes_in_a_process_share_nothing(clock):
    ports = [fakes(clock), fakes(clock)]
    async with (
        open_node(NodeSettings(name="a"), environment={}, **ports[0]) as first,
        open_node(NodeSettings(name="b", slots=3), environment={}, **ports[1]) as second,
    ):
        await asyncio.gather(
            run_one_job(first, ports[0]["controller"]), run_one_job(second, ports[1]["controller"])
        )
    started = [port["telemetry"].events_of("controller client started")[0].fields for port in ports]
    assert [(fields["node"], fields["slots"]) for fields in started] == [("a", 1), ("b", 3)]


def test_what_is_not_given_is_named():
    with pytest.raises(errors.Error, match="settings"):
        NodeContainer().check_dependencies()
    container = NodeContainer(settings=SETTINGS, environment={})
    with pytest.raises(errors.Error, match="controller"):
        container.check_dependencies()
    container.override_providers(controller=providers.Object(object()))
    container.check_dependencies()


@pytest.mark.parametrize("text", ["", "token", "file"])
def test_the_settings_choose_the_token_source(text, tmp_path):
    more = {
        "token": {"VMAFX_CONTROLLER_TOKEN": "t"},
        "file": {"VMAFX_CONTROLLER_TOKEN_FILE": str(tmp_path / "t")},
    }
    kinds = {"": NoToken, "token": InlineToken, "file": TokenFile}
    settings = read_node_settings({**ADDRESSED, **more.get(text, {})})
    container = NodeContainer(settings=settings, environment={}, controller=providers.Object(None))
    assert isinstance(container.tokens(), kinds[text])
    assert isinstance(container.scorer(), CliScorer)
    assert container.about()["bearer_token"] is (text != "")
    assert container.about()["controller"] == "127.0.0.1:1"


def test_each_process_of_a_node_is_another_instance():
    def instance():
        return NodeContainer(settings=SETTINGS, environment={}).identity().instance

    assert len({instance() for _ in range(3)}) == 3


async def test_a_node_without_a_controller_is_refused():
    with pytest.raises(ConfigurationError, match="VMAFX_CONTROLLER_ADDR") as refused:
        async with open_node(SETTINGS, environment={}):
            raise AssertionError
    assert refused.value.setting == "VMAFX_CONTROLLER_ADDR"


async def test_settings_come_from_the_environment_where_none_are_given():
    wrong = {**ADDRESSED, "VMAFX_NODE_SLOTS": "0"}
    with pytest.raises(ConfigurationError, match="from 1 to 64"):
        async with open_node(environment=wrong):
            raise AssertionError


async def test_what_was_opened_is_closed_when_the_opening_fails_later(monkeypatch):
    said: list[str] = []

    @asynccontextmanager
    async def opens(*_: object, **__: object):
        said.append("opened")
        try:
            yield object()
        finally:
            said.append("closed")

    monkeypatch.setattr(wiring, "open_controller", opens)
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ScorerUnavailableError):
        async with open_node(read_node_settings(ADDRESSED), environment={}):
            raise AssertionError
    assert said == ["opened", "closed"]


async def test_a_body_that_fails_is_heard_and_everything_is_closed():
    with pytest.raises(ZeroDivisionError):
        async with open_node(read_node_settings(ADDRESSED), environment={}):
            raise ZeroDivisionError
    assert asyncio.all_tasks() == {asyncio.current_task()}


def surroundings() -> dict[str, object]:
    """What a service has one of, and no node may change."""
    loggers = [logging.getLogger(), logging.getLogger("vmafx")]
    return {
        "signals": {n: signal.getsignal(n) for n in signal.valid_signals()},
        "loggers": [(log.level, list(log.handlers), log.propagate, log.disabled) for log in loggers],
        "warnings": warnings.showwarning,
        "environment": dict(os.environ),
        "excepthook": sys.excepthook,
        "folder": Path.cwd(),
    }


@pytest.mark.virtual_time
async def test_an_embedded_node_changes_nothing_of_its_process(clock):
    before = surroundings()
    ports = fakes(clock)
    async with open_node(SETTINGS, environment={}, **ports) as node:
        assert surroundings() == before
        ports["controller"].submit(spec("b"))
        task = asyncio.create_task(node.run())
        await clock.sleep(1.0)
        assert node.state.jobs_running == 1
        assert surroundings() == before
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert surroundings() == before
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_check_that_finds_no_controller_starts_nothing():
    with pytest.raises(ConfigurationError, match="VMAFX_CONTROLLER_ADDR"):
        await check_start(SETTINGS, environment={})


@pytest.mark.virtual_time
async def test_a_check_looks_at_the_parts_that_a_node_is_made_of(clock):
    class Expired:
        async def token(self) -> str | None:
            raise TokenError("it has expired")

    given = {name: Touched(port) for name, port in (fakes(clock) | {"tokens": Expired()}).items()}
    found = await check_start(SETTINGS, environment={}, **given)
    assert found.warnings == ("it has expired",)
    assert {name for name, port in given.items() if port.touched} == {"scorer", "tokens"}
    assert not given["controller"].touched


@pytest.mark.virtual_time
async def test_a_check_proves_the_scorer_that_the_container_gives(clock, monkeypatch):
    asked: list[str] = []

    class Broken:
        async def self_test(self) -> None:
            asked.append("self-test")
            raise ScorerUnavailableError("VMAFX_VMAF_BINARY", "gone")

    monkeypatch.setattr(NodeContainer, "scorer", providers.Object(Broken()))
    with pytest.raises(ScorerUnavailableError, match="gone"):
        await check_start(SETTINGS, environment={}, controller=FakeController(clock, roots=("/clips",)))
    assert asked == ["self-test"]


async def test_a_check_closes_what_it_opened():
    settings = read_node_settings(ADDRESSED)
    found = await check_start(settings, environment={}, scorer=FakeScorer(SystemClock()))
    assert found.warnings == ()
    assert found.scorer == "FakeScorer"
    assert asyncio.all_tasks() == {asyncio.current_task()}
