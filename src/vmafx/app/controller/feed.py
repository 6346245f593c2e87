"""JobFeed: those who follow the jobs of a tenant, and what has changed that they were not shown (ADR 0025).

A follower that is slow misses states and no last state: of each job that changed, only the latest is kept for
it. What it may have open is bounded all the same; one that falls behind further is ended and may begin anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from typing import Final, TypeAlias

from vmafx.domain.errors import ControllerError
from vmafx.domain.job import Job, JobCursor, JobId, JobStatus, TenantId
from vmafx.domain.refusals import STOPPING
from vmafx.domain.retry import StatusCode, controller_error

__all__ = [
    "CHANGED_JOBS_MAX",
    "FELL_BEHIND",
    "FOLLOWERS_MAX",
    "TOO_MANY_FOLLOW",
    "Age",
    "Follower",
    "JobFeed",
    "age",
    "older",
]

CHANGED_JOBS_MAX: Final = 10_000
"""How many changed jobs a follower may have open."""
FELL_BEHIND: Final = f"more than {CHANGED_JOBS_MAX} changed jobs were not read; begin again"
"""What a follower is told that was too slow."""
FOLLOWERS_MAX: Final = 256
"""How many may follow at once: each costs something at every change, and changes must not wait for them."""
TOO_MANY_FOLLOW: Final = f"{FOLLOWERS_MAX} followers are served already; try again later"
"""What a follower is told that is one too many."""
Age: TypeAlias = tuple[datetime, int, bool]


class JobFeed:
    """Shows each change of a job to those who follow its tenant.

    Whoever learns of a change publishes it, whether it was made by this process or by another one on the same
    store. Changes of one job should come in their order; a follower sorts out what does not.
    """

    def __init__(self) -> None:
        self._followers: dict[TenantId, set[Follower]] = {}
        self._count = 0
        self._ended = False

    def publish(self, job: Job) -> None:
        """Show a job as it is now."""
        for follower in self._followers.get(job.tenant, ()):
            follower.show(job)

    @contextmanager
    def subscribe(
        self, tenant: TenantId, statuses: frozenset[JobStatus] = frozenset()
    ) -> Generator[Follower]:
        """Return a context in which a follower is shown what changes.

        Args:
            tenant: Whose jobs.
            statuses: Only jobs that come to one of these; none means all.

        Yields:
            The follower.

        Raises:
            ControllerError: `RESOURCE_EXHAUSTED`: there are too many already.
        """
        if self._count >= FOLLOWERS_MAX:
            refused: ControllerError = controller_error(StatusCode.RESOURCE_EXHAUSTED, TOO_MANY_FOLLOW)
            raise refused
        follower = Follower(statuses)
        if self._ended:
            follower.end(_ending())
        self._count += 1
        self._followers.setdefault(tenant, set()).add(follower)
        try:
            yield follower
        finally:
            self._count -= 1
            following = self._followers[tenant]
            following.remove(follower)
            if not following:
                del self._followers[tenant]

    def end(self) -> None:
        """End all followers, and every later one as it begins."""
        self._ended = True
        for following in self._followers.values():
            for follower in following:
                follower.end(_ending())


class Follower:
    """The changes that one follower was not shown yet: of each job the latest, the first to change first.

    Args:
        statuses: Only jobs that come to one of these; none means all.
    """

    def __init__(self, statuses: frozenset[JobStatus] = frozenset()) -> None:
        self._statuses = statuses
        self._open: dict[JobId, Job] = {}
        self._until: tuple[datetime, JobId] | None = None
        self._error: ControllerError | None = None
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        """Return how many changed jobs are open."""
        return len(self._open)

    def show(self, job: Job) -> None:
        """Keep a job as it is now; one that came to a status that nobody asked for is no longer shown."""
        if self._error is not None or self._beyond(job):
            return
        if self._statuses and job.status not in self._statuses:
            self._open.pop(job.id, None)
            return
        known = self._open.get(job.id)
        if known is not None and older(job, known):
            return
        self._open[job.id] = job
        if len(self._open) > CHANGED_JOBS_MAX:
            self.end(controller_error(StatusCode.RESOURCE_EXHAUSTED, FELL_BEHIND))
        self._changed.set()

    def end(self, error: ControllerError) -> None:
        """Show nothing more; `next` raises the first such error from now on."""
        self._error = self._error or error
        self._open.clear()
        self._changed.set()

    def take(self, job_id: JobId | None = None) -> Job | None:
        """Take a change out, without a wait.

        Args:
            job_id: Which job's; None for the job that was the first to change.

        Returns:
            The latest state of the job; None when there is no such change.

        Raises:
            ControllerError: The follower was ended.
        """
        if self._error is not None:
            raise self._error
        if job_id is None:
            job_id = next(iter(self._open), None)
        return None if job_id is None else self._open.pop(job_id, None)

    def keep_until(self, place: JobCursor | None) -> None:
        """Keep from now on no changes of jobs beyond a place of a listing: they are read when it comes there.

        Args:
            place: The place; None keeps every change, as is due while a page is read and after the last.
        """
        self._until = None if place is None else (place.created_at, place.job_id)
        for job in [each for each in self._open.values() if self._beyond(each)]:
            del self._open[job.id]

    async def next(self) -> Job:
        """Return the latest state of the job that was the first to change, as soon as there is one.

        Raises:
            ControllerError: The follower was ended.
        """
        while (job := self.take()) is None:
            self._changed.clear()
            await self._changed.wait()
        return job

    def _beyond(self, job: Job) -> bool:
        return self._until is not None and (job.created_at, job.id) > self._until


def older(job: Job, than: Job) -> bool:
    """Return whether one state of a job surely came before another state of it.

    `updated_at` never goes back, attempts are counted up, and an end is final; states that are equal in all
    of that are told apart by nothing but their arrival.
    """
    return age(job) < age(than)


def age(job: Job) -> Age:
    """Return by what states of one job are told apart: the larger one is surely the later one."""
    return job.updated_at, job.attempt, job.status.terminal


def _ending() -> ControllerError:
    return controller_error(StatusCode.UNAVAILABLE, STOPPING)
