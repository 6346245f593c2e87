"""What a store does for its upkeep; the one place for every store (ADR 0023).

Each function is the work of one transaction, as in `keeping`: arguments, answers and errors are those of the
port's methods of the same names.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from operator import itemgetter
from typing import Final

from vmafx.adapters.store.steps import check_limit, play, told
from vmafx.adapters.store.transaction import Transaction
from vmafx.domain.job import JobId, SessionId
from vmafx.domain.job_events import JobEvent, LeaseExpired, LeaseExtended, SessionLost, WaitJudged
from vmafx.domain.lease import LeasePolicy
from vmafx.domain.nodesession import NodeSession
from vmafx.ports.jobstore import SWEEP_JOBS_MAX, Change, ResumeCursor, SweepAnswer

__all__ = ["purge", "resume", "sweep"]

_BEGINNING: Final = ResumeCursor(session=SessionId(""))
_BEFORE_LEASES: Final = (SessionId(""), JobId(""))


def sweep(books: Transaction, *, now: datetime, policy: LeasePolicy) -> SweepAnswer:
    """End the attempts whose session or lease has run out, then remove the sessions that have.

    One that finds nothing must fail, too, while nothing can be stored: by it the controller knows since when
    no heartbeat was kept.
    """
    books.try_writing()
    sessions = books.sessions_over(at=now, limit=SWEEP_JOBS_MAX)
    leases = books.leases_over(at=now, limit=SWEEP_JOBS_MAX)
    over: list[tuple[datetime, NodeSession | JobId]] = [(it.expires_at, it) for it in sessions]
    over.extend(leases)
    over.sort(key=itemgetter(0))
    changes: list[Change] = []
    ended: list[NodeSession] = []
    more = SWEEP_JOBS_MAX in {len(sessions), len(leases)}
    for _, what in over:
        jobs = books.held(what.id) if isinstance(what, NodeSession) else (what,)
        room = SWEEP_JOBS_MAX - len(changes)
        for job_id in jobs[:room]:
            changes.extend(_lost(books, job_id, now=now, policy=policy))
        if len(jobs) > room:
            more = True
            break
        if isinstance(what, NodeSession):
            books.remove_session(what.id)
            ended.append(what)
    return SweepAnswer(changes=tuple(changes), sessions_ended=tuple(ended), more=more)


def resume(
    books: Transaction, *, now: datetime, after: ResumeCursor | None, policy: LeasePolicy
) -> ResumeCursor | None:
    """Shorten waits that no loss warrants, then give the next sessions and leases their whole time anew."""
    place, room = after or _BEGINNING, SWEEP_JOBS_MAX
    if place == _BEGINNING:
        longest = timedelta(seconds=policy.backoff_max_s)
        waits = books.waits_beyond(now + longest, limit=room)
        _play_each(books, waits, WaitJudged(at=now), policy)
        if len(waits) == room:
            return place  # those are out of the way now
        room -= len(waits)
    leases_after = _BEFORE_LEASES
    if place.job_id is None:
        sessions = books.sessions(after=place.session, limit=room)
        for session in sessions:
            books.write_session(session.extended(now, ttl_s=policy.session_ttl_s))
        if len(sessions) == room:
            return ResumeCursor(session=sessions[-1].id)
        room -= len(sessions)
    else:
        leases_after = (place.session, place.job_id)
    leases = books.leases(after=leases_after, limit=room)
    _play_each(books, tuple(job_id for _, job_id in leases), LeaseExtended(at=now), policy)
    if len(leases) < room:
        return None
    last_session, last_job = leases[-1]
    return ResumeCursor(session=last_session, job_id=last_job)


def purge(books: Transaction, *, finished_before: datetime, limit: int) -> int:
    """Delete jobs that ended before an instant.

    Raises:
        ValueError: `limit` is outside its range.
    """
    check_limit(limit, SWEEP_JOBS_MAX)
    return books.purge(finished_before=finished_before, limit=limit)


def _play_each(books: Transaction, jobs: tuple[JobId, ...], event: JobEvent, policy: LeasePolicy) -> None:
    for job_id in jobs:
        before = books.history(job_id)
        if before is not None:
            play(books, before, event, policy)


def _lost(books: Transaction, job_id: JobId, *, now: datetime, policy: LeasePolicy) -> tuple[Change, ...]:
    """End the running attempt of a job whose session or lease has run out."""
    before = books.history(job_id)
    current = None if before is None else before.current
    if before is None or current is None:
        return ()
    holder = books.session(current.session)
    event: JobEvent = (
        LeaseExpired(at=now, attempt=current.number, session=current.session)
        if holder is not None and holder.session.live(now)
        else SessionLost(at=now, session=current.session)
    )
    return (told(play(books, before, event, policy)),)
