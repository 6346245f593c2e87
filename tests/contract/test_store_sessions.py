"""SessionStore: which nodes are registered, and what a session must show (ADR 0012, 0023)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.contract.store_harness import NOBODYS, POLICY, Desk, digest, key_of
from tests.histories import ACME, RIVAL, TICK_S, a_session, after
from vmafx.domain.errors import SessionNotFoundError
from vmafx.domain.job import JobStatus, SessionId, TenantId
from vmafx.domain.nodesession import Capability, InstanceId, SessionKey
from vmafx.domain.scoring import Backend

WRONG = {
    "secret": lambda key: replace(key, token_sha256=digest("another")),
    "no secret": lambda key: replace(key, token_sha256=bytes(32)),
    "tenant": lambda key: replace(key, tenant=RIVAL),
    **{
        f"id {number}": lambda key, name=name: replace(key, session=SessionId(name))
        for number, name in enumerate(NOBODYS)
    },
}


async def test_a_session_is_stored_as_it_registered(desk: Desk) -> None:
    capability = Capability(
        backends=frozenset({Backend.CPU, Backend.CUDA}), gpu_vendor="nvidia", concurrency=3
    )
    session = replace(a_session(live_s=90.0), capability=capability, instance=InstanceId("process-1"))
    stored = await desk.sessions.register(session, token_sha256=digest("s1"))
    assert stored == session
    assert await desk.sessions.look_up(key_of(session), now=after(1.0)) == session
    assert await desk.sessions.live(ACME, now=after(1.0)) == (session,)


async def test_a_session_without_instance_and_capability_is_stored_as_well(desk: Desk) -> None:
    session = a_session(live_s=90.0)
    await desk.sessions.register(session, token_sha256=digest("s1"))
    assert await desk.sessions.look_up(key_of(session), now=after(0.0)) == session


@pytest.mark.parametrize("length", [0, 31, 33])
async def test_a_digest_of_another_length_is_refused(desk: Desk, length: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        await desk.sessions.register(a_session(), token_sha256=bytes(length))
    assert await desk.live() == []


async def test_the_same_session_once_more_is_answered_and_not_stored_twice(desk: Desk) -> None:
    await desk.register("s0")
    first = await desk.sessions.register(a_session(), token_sha256=digest("s1"))
    assert await desk.sessions.register(a_session(), token_sha256=digest("s1")) == first
    assert await desk.live() == ["s0", "s1"]


@pytest.mark.parametrize(
    ("session", "secret"),
    [
        (a_session(), "other"),
        (a_session(node="node-b"), "s1"),
        (a_session(tenant=RIVAL), "s1"),
    ],
)
async def test_the_id_of_another_session_is_no_new_session(desk: Desk, session, secret: str) -> None:
    await desk.register("s1")
    with pytest.raises(ValueError, match="s1"):
        await desk.sessions.register(session, token_sha256=digest(secret))
    assert await desk.sessions.live_count(now=desk.now) == 1


async def test_sessions_of_one_name_never_register_at_one_instant(desk: Desk) -> None:
    for name in ("s1", "s2", "s3"):
        await desk.register(name)
    registered = [session.registered_at for session in await desk.sessions.live(ACME, now=desk.now)]
    assert registered == [after(0.0), after(TICK_S), after(2 * TICK_S)]


async def test_a_clock_that_steps_back_does_not_turn_the_order_of_sessions(desk: Desk) -> None:
    desk.now_s = 100.0
    await desk.register("s1")
    desk.now_s = 20.0
    await desk.register("s2")
    assert await desk.live() == ["s1", "s2"]
    newer = (await desk.sessions.live(ACME, now=desk.now))[1]
    assert newer.registered_at == after(100.0 + TICK_S)
    assert newer.expires_at == after(20.0 + POLICY.session_ttl_s)


async def test_only_sessions_of_the_same_tenant_and_name_move_a_registration(desk: Desk) -> None:
    await desk.register("s1")
    await desk.register("s2", node="node-b")
    await desk.register("s3", tenant=RIVAL)
    for tenant in (ACME, RIVAL):
        assert {it.registered_at for it in await desk.sessions.live(tenant, now=desk.now)} == {after(0.0)}


async def test_a_session_that_ran_out_and_was_not_swept_still_counts_for_the_order(desk: Desk) -> None:
    desk.now_s = 10.0
    await desk.register("s1")
    desk.now_s = 500.0
    assert await desk.live() == []
    desk.now_s = 5.0
    await desk.register("s2")
    assert (await desk.sessions.live(ACME, now=desk.now))[-1].registered_at == after(10.0 + TICK_S)


async def test_a_session_that_was_swept_no_longer_moves_a_registration(desk: Desk) -> None:
    desk.now_s = 10.0
    await desk.register("s1")
    desk.now_s = 500.0
    await desk.sweep()
    desk.now_s = 5.0
    await desk.register("s2")
    assert [it.registered_at for it in await desk.sessions.live(ACME, now=desk.now)] == [after(5.0)]


async def test_a_session_is_live_at_its_last_instant_and_not_after_it(desk: Desk) -> None:
    key = await desk.register()
    last = after(POLICY.session_ttl_s)
    assert (await desk.sessions.look_up(key, now=last)).id == "s1"
    assert len(await desk.sessions.live(ACME, now=last)) == 1
    assert await desk.sessions.live_count(now=last) == 1
    just_after = last + timedelta(seconds=TICK_S)
    with pytest.raises(SessionNotFoundError):
        await desk.sessions.look_up(key, now=just_after)
    assert await desk.sessions.live(ACME, now=just_after) == ()
    assert await desk.sessions.live_count(now=just_after) == 0


async def test_looking_up_does_not_renew_a_session(desk: Desk) -> None:
    key = await desk.register()
    desk.now_s = POLICY.session_ttl_s
    await desk.sessions.look_up(key, now=desk.now)
    desk.now_s += TICK_S
    with pytest.raises(SessionNotFoundError):
        await desk.sessions.look_up(key, now=desk.now)


async def test_live_sessions_are_the_tenants_own_the_earliest_registered_first(desk: Desk) -> None:
    for at_s, name, node, tenant in (
        (3.0, "s1", "node-a", ACME),
        (1.0, "s2", "node-b", ACME),
        (2.0, "s3", "node-c", ACME),
        (2.0, "s4", "node-d", RIVAL),
    ):
        desk.now_s = at_s
        await desk.register(name, node=node, tenant=tenant)
    assert await desk.live() == ["s2", "s3", "s1"]
    assert await desk.live(RIVAL) == ["s4"]
    assert await desk.live(TenantId("nobody")) == []
    assert await desk.sessions.live_count(now=desk.now) == 4


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_a_session_that_is_not_the_callers_is_refused_by_every_call_and_changes_nothing(
    desk: Desk, wrong
) -> None:
    await desk.submit("job-1")
    await desk.submit("job-2")
    right = await desk.register()
    await desk.claim(right)
    before = await desk.everything()
    desk.now_s = 1.0
    shown: SessionKey = wrong(right)
    for call in (
        desk.sessions.look_up(shown, now=desk.now),
        desk.pull(shown),
        desk.beat(shown, "job-1"),
        desk.succeed(shown),
        desk.fail(shown),
    ):
        with pytest.raises(SessionNotFoundError) as caught:
            await call
        assert caught.value.session_id == shown.session
    assert await desk.everything() == before
    assert (await desk.sessions.look_up(right, now=desk.now)).last_heartbeat_at is None


@pytest.mark.parametrize("late_s", [0.0, TICK_S])
async def test_a_session_works_at_its_last_instant_and_not_after_it(desk: Desk, late_s: float) -> None:
    for number in range(3):
        await desk.submit(f"job-{number}")
    key = await desk.register()
    await desk.claim(key)
    desk.now_s = POLICY.session_ttl_s + late_s
    if late_s:
        for call in (desk.pull(key), desk.beat(key, "job-0"), desk.succeed(key, "job-0")):
            with pytest.raises(SessionNotFoundError):
                await call
        assert await desk.listed(ACME, JobStatus.RUNNING) == ["job-0"]
    else:
        await desk.claim(key)
        await desk.succeed(key, "job-0")
        await desk.beat(key, "job-1")
        assert await desk.status("job-0") is JobStatus.COMPLETED


async def test_a_secret_is_never_shown(desk: Desk) -> None:
    key = await desk.register()
    session = await desk.sessions.look_up(key, now=desk.now)
    for text in (repr(session), repr(key), str(await desk.sessions.live(ACME, now=desk.now))):
        assert digest("s1").hex() not in text
        assert repr(digest("s1"))[2:-1] not in text
