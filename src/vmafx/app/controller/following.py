"""Following: the jobs of a tenant as they are, and then each that changes, without a gap (ADR 0025).

Changes are collected from before the first job is read. What is read after a change is at least as new, so
that nothing lies between the two; what comes twice, or late, is recognised by the age of the state. While
pages are still being read, changes of what was shown already are shown between them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final, TypeAlias

from vmafx.app.controller.feed import Age, JobFeed, age, older
from vmafx.domain.job import Job, JobId, JobStatus, TenantId
from vmafx.ports.jobstore import JobStore

__all__ = ["LISTING_PAGE_JOBS", "STATES_REMEMBERED", "follow", "listing"]

LISTING_PAGE_JOBS: Final = 1000
"""How many jobs a listing reads, and holds, at a time."""
STATES_REMEMBERED: Final = 4096
"""Of how many jobs a follower's latest state is remembered; a change is told later than it can be read, but
only by the time that a call takes, and so few others come in between."""

_State: TypeAlias = tuple[Age, JobStatus]


async def listing(
    jobs: JobStore, tenant: TenantId, statuses: frozenset[JobStatus]
) -> AsyncGenerator[tuple[Job, ...]]:
    """Iterate over all jobs of a tenant, one page after another, the oldest first.

    Each page is read when it is asked for; its jobs are as they are at one instant.

    Args:
        jobs: Where they are kept.
        tenant: Whose.
        statuses: Only these; none means all.

    Yields:
        At most 1000 jobs; only the last page has fewer, and possibly none.
    """
    place = None
    while True:
        page = await jobs.page(tenant, statuses=statuses, after=place, limit=LISTING_PAGE_JOBS)
        yield page
        if len(page) < LISTING_PAGE_JOBS:
            return
        place = page[-1].cursor


async def follow(
    jobs: JobStore, feed: JobFeed, tenant: TenantId, statuses: frozenset[JobStatus]
) -> AsyncGenerator[Job]:
    """Iterate over the jobs of a tenant, the oldest first, and over each one that changes, without an end.

    Args:
        jobs: Where they are kept.
        feed: Tells of changes.
        tenant: Whose.
        statuses: Only jobs in one of these, and those that come to one; none means all. A job that leaves
            them is not shown again.

    Yields:
        A job; never the state that was shown last of it, nor an older one.

    Raises:
        ControllerError: The controller stops, too many follow already, or the caller fell too far behind.
    """
    shown = _Shown()
    with feed.subscribe(tenant, statuses) as follower:
        async for page in listing(jobs, tenant, statuses):
            full = len(page) == LISTING_PAGE_JOBS
            follower.keep_until(page[-1].cursor if full else None)
            for read in page:
                changed = follower.take(read.id)
                job = read if changed is None or older(changed, read) else changed
                shown.note(job)
                yield job
            for _ in range(len(follower)):  # not those that come meanwhile: the next page has its turn
                changed = follower.take()
                if changed is not None and shown.news(changed):
                    yield changed
            follower.keep_until(None)
        while True:
            changed = await follower.next()
            if shown.news(changed):
                yield changed


class _Shown:
    """The latest states that a follower was shown, those shown last."""

    def __init__(self) -> None:
        self._states: dict[JobId, _State] = {}

    def news(self, job: Job) -> bool:
        """Return whether a state is to be shown, and note it then."""
        known = self._states.get(job.id)
        if known is not None and (age(job) < known[0] or _state(job) == known):
            return False
        self.note(job)
        return True

    def note(self, job: Job) -> None:
        """Remember a state as shown."""
        self._states.pop(job.id, None)
        self._states[job.id] = _state(job)
        if len(self._states) > STATES_REMEMBERED:
            del self._states[next(iter(self._states))]


def _state(job: Job) -> _State:
    return age(job), job.status
