"""JobDesks: the controller as clients see it, one view for each tenant (ADR 0025)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from math import inf
from typing import TYPE_CHECKING, Final

from vmafx.app.controller.aftermath import Aftermath
from vmafx.app.controller.answering import Answering, Asked
from vmafx.app.controller.events import SUBMISSIONS_REFUSED, shown_id
from vmafx.app.controller.feed import JobFeed
from vmafx.app.controller.following import follow, listing
from vmafx.app.controller.outage import Outage
from vmafx.app.controller.policy import ControllerPolicy
from vmafx.app.controller.unserved import Unserved
from vmafx.app.controller.whole import whole
from vmafx.domain.errors import OutsideRootsError, StoreError
from vmafx.domain.job import Job, JobId, JobSpec, JobStatus, TenantId
from vmafx.domain.job_events import Finished
from vmafx.domain.recent import Recent
from vmafx.domain.refusals import refused
from vmafx.domain.text import quoted
from vmafx.ports.clock import Clock
from vmafx.ports.jobs import CancelAnswer, Jobs, JobView
from vmafx.ports.jobstore import Change, JobStore, Submission
from vmafx.ports.telemetry import Fields, Level, Telemetry

__all__ = ["CANCELLATION_REQUESTED", "REFUSALS_TOLD_EVERY_S", "VIEWS_KEPT", "JobDesks"]

CANCELLATION_REQUESTED: Final = "cancellation requested"
"""What a caller is told whose call ended a job."""

REFUSALS_TOLD_EVERY_S: Final = 60.0
"""How often the log hears of jobs that are refused for their clips, in seconds."""

VIEWS_KEPT: Final = 512
"""Of how many jobs the view is kept, for the next of those who follow them."""

_ROOTS: Final = "VMAFX_SCORING_ROOTS"
_SUBMIT: Final = Asked(doing="submit job", call="submit job")
_LIST: Final = Asked(doing="StreamJobs: list jobs", call="StreamJobs: list jobs")


class JobDesks:
    """Gives each tenant its view of its jobs; a view holds nothing, so any number of them may be made.

    Args:
        jobs: Where jobs are kept.
        policy: How the controller works.
        clock: Whose time everything goes by; one that does not step.
        telemetry: Is told of what was refused.
        outage: Is told when the store fails.
        aftermath: Is passed whatever was stored.
        feed: Tells followers of changes.
        unserved: Is told what jobs ask for.
        new_job_id: Returns an id that no job has had.
    """

    def __init__(  # noqa: PLR0913 -- one argument per thing that a view needs
        self,
        jobs: JobStore,
        *,
        policy: ControllerPolicy,
        clock: Clock,
        telemetry: Telemetry,
        outage: Outage,
        aftermath: Aftermath,
        feed: JobFeed,
        unserved: Unserved,
        new_job_id: Callable[[], JobId],
    ) -> None:
        self.jobs: Final = jobs
        self.policy: Final = policy
        self.clock: Final = clock
        self.telemetry: Final = telemetry
        self.outage: Final = outage
        self.aftermath: Final = aftermath
        self.feed: Final = feed
        self.unserved: Final = unserved
        self.new_job_id: Final = new_job_id
        self.views: Final[Recent[Job, JobView]] = Recent(_view, count_max=VIEWS_KEPT)
        self._refused = 0
        self._tell_from_s = -inf

    def of(self, tenant: TenantId) -> Jobs:
        """Return the view of a tenant: it sees that tenant's jobs and no others."""
        return _TenantJobs(self, tenant)

    def tell_refused(self, tenant: TenantId, error: OutsideRootsError) -> None:
        """Tell the log of a job whose clips lie below no root; of one in a minute, with how many there were.

        Args:
            tenant: Whose job.
            error: Why.
        """
        self._refused += 1
        now_s = self.clock.monotonic()
        if now_s < self._tell_from_s:
            return
        fields: Fields = {"tenant": shown_id(tenant), "setting": _ROOTS, "jobs": self._refused}
        self.telemetry.event(Level.WARN, SUBMISSIONS_REFUSED, fields, error=error)
        self._tell_from_s = now_s + REFUSALS_TOLD_EVERY_S
        self._refused = 0


class _TenantJobs:
    """`Jobs` of one tenant."""

    def __init__(self, shared: JobDesks, tenant: TenantId) -> None:
        self._shared = shared
        self._tenant = tenant
        self._jobs = shared.jobs
        self._clock = shared.clock
        self._answering = Answering(tenant, clock=shared.clock, outage=shared.outage)

    # ------------------------------------------------------------ the port

    async def submit(self, spec: JobSpec, *, idempotency_key: str | None = None, timeout_s: float) -> JobId:
        """Store a job whose clips lie under the tenant's roots.

        Raises:
            ControllerError: They do not, the key was used for another job, too many are pending, or the call
                failed.
        """
        self._admit(spec)
        job = Job.submitted(
            job_id=self._shared.new_job_id(),
            tenant=self._tenant,
            spec=spec,
            at=self._clock.now(),
            idempotency_key=idempotency_key,
        )
        async with self._answering.within(timeout_s, _SUBMIT):
            submission = await whole(self._store(job), name=_SUBMIT.call)
        return submission.job.id

    async def get(self, job_id: JobId, *, timeout_s: float) -> JobView:
        """Return a job.

        Raises:
            ControllerError: There is none, it is another tenant's, or the call failed.
        """
        async with self._answering.within(timeout_s, _about("read job", job_id)):
            return _view(await self._jobs.get(self._tenant, job_id))

    async def cancel(self, job_id: JobId, *, timeout_s: float) -> CancelAnswer:
        """Cancel a job that has not ended.

        Raises:
            ControllerError: There is none, it is another tenant's, or the call failed.
        """
        asked = _about("cancel job", job_id)
        async with self._answering.within(timeout_s, asked):
            change = await whole(self._end(job_id), name=asked.call)
        if any(isinstance(effect, Finished) for effect in change.effects):
            return CancelAnswer(ok=True, message=CANCELLATION_REQUESTED)
        return CancelAnswer(ok=True, message=f"job is already {change.job.status.value}")

    async def listed(
        self, statuses: frozenset[JobStatus] = frozenset(), *, timeout_s: float
    ) -> AsyncGenerator[JobView]:
        """Iterate over the jobs, the oldest first, reading them as far as their reader has come.

        Yields:
            A job.

        Raises:
            ControllerError: The call failed, or its time is over.
        """
        until_s = self._clock.monotonic() + timeout_s
        async with aclosing(listing(self._jobs, self._tenant, statuses)) as pages:
            while True:
                async with self._answering.within(until_s - self._clock.monotonic(), _LIST):
                    page = await anext(pages, None)
                if page is None:
                    return
                for job in page:
                    self._check_time(until_s)
                    yield _view(job)

    async def followed(self, statuses: frozenset[JobStatus] = frozenset()) -> AsyncGenerator[JobView]:
        """Iterate over the jobs, and over each that changes.

        Yields:
            A job.

        Raises:
            ControllerError: The call failed, the controller stops, too many follow already, or the reader
                fell too far behind.
        """
        following = follow(self._jobs, self._shared.feed, self._tenant, statuses)
        try:
            async with aclosing(following) as jobs:
                async for job in jobs:
                    yield self._shared.views.of(job)
        except StoreError as error:
            raise self._answering.refusal(error, _LIST) from error

    # ------------------------------------------------------------ a store's call, and what follows from it

    async def _store(self, job: Job) -> Submission:
        submission = await self._jobs.submit(job, pending_max=self._shared.policy.tenant_pending_max)
        self._shared.aftermath.submitted(submission)
        self._shared.unserved.asked(job)
        return submission

    async def _end(self, job_id: JobId) -> Change:
        change = await self._jobs.cancel(self._tenant, job_id, now=self._clock.now())
        self._shared.aftermath.changed(change)
        return change

    # ------------------------------------------------------------ answers

    def _admit(self, spec: JobSpec) -> None:
        try:
            roots = self._shared.policy.roots.for_tenant(self._tenant)
            roots.admit(spec.reference)
            roots.admit(spec.distorted)
        except OutsideRootsError as error:
            self._shared.tell_refused(self._tenant, error)
            raise refused(error) from error

    def _check_time(self, until_s: float) -> None:
        if self._clock.monotonic() >= until_s:
            raise self._answering.late(_LIST)


def _about(call: str, job_id: JobId) -> Asked:
    return Asked(doing=f"{call} {quoted(job_id)}", call=call, job_id=job_id)


def _view(job: Job) -> JobView:
    return JobView(
        id=job.id,
        status=job.status,
        spec=job.spec,
        created_at=job.created_at,
        updated_at=job.updated_at,
        assigned_node=job.assigned_node,
        score=None if job.result is None else job.result.score,
        features=None if job.result is None else job.result.features,
        error=job.error or "",
    )


if TYPE_CHECKING:
    _port: type[Jobs] = _TenantJobs
