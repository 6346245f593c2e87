"""Two nodes that live under one name are noticed, and a node that starts anew is none (ADR 0025)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.app.controller import events
from vmafx.app.controller.namesakes import Namesakes
from vmafx.domain.job import NodeName, SessionId, TenantId
from vmafx.domain.nodesession import InstanceId, NodeSession

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def telemetry() -> RecordingTelemetry:
    return RecordingTelemetry()


@pytest.fixture
def names(telemetry: RecordingTelemetry) -> Namesakes:
    return Namesakes(telemetry)


def session(name: str, instance: str | None, *, node: str = "gpu-1", tenant: str = "dev") -> NodeSession:
    return NodeSession(
        id=SessionId(name),
        tenant=TenantId(tenant),
        node=NodeName(node),
        registered_at=NOW,
        expires_at=NOW + timedelta(seconds=60),
        instance=None if instance is None else InstanceId(instance),
    )


def test_a_session_that_goes_on_after_another_process_took_its_name_is_told_once(names, telemetry):
    names.registered(session("one", "a"))
    names.beat(SessionId("one"))
    names.registered(session("two", "b"))
    assert telemetry.events_of(events.NAME_SHARED) == ()
    for _ in range(3):
        names.beat(SessionId("two"))
        names.beat(SessionId("one"))
    (told,) = telemetry.events_of(events.NAME_SHARED)
    assert told.fields == {"tenant": "dev", "node": "gpu-1", "node_id": "one", "other_node_id": "two"}


def test_a_node_that_starts_anew_is_no_namesake(names, telemetry):
    names.registered(session("one", "a"))
    names.registered(session("two", "b"))
    names.beat(SessionId("two"))
    assert telemetry.events_of(events.NAME_SHARED) == ()


@pytest.mark.parametrize(
    "other",
    [
        session("two", "a"),
        session("two", None),
        session("two", "b", node="gpu-2"),
        session("two", "b", tenant="rival"),
    ],
    ids=["same process", "tells none", "other name", "other tenant"],
)
def test_others_are_no_namesakes(names, telemetry, other):
    names.registered(session("one", "a"))
    names.registered(other)
    names.beat(SessionId("one"))
    assert telemetry.events_of(events.NAME_SHARED) == ()


def test_what_is_remembered_is_bounded(names, telemetry):
    names.registered(session("one", "a"))
    for number in range(4096):
        names.registered(session(f"s{number}", "b", node=f"node-{number}"))
    names.registered(session("two", "b"))
    names.beat(SessionId("one"))
    assert telemetry.events_of(events.NAME_SHARED) == ()
