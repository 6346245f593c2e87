"""The jobs that a node's session speaks for: taken, under report, released (ADR 0013)."""

from __future__ import annotations

from dataclasses import replace

from vmafx.domain.job import HEARTBEAT_JOBS_MAX
from vmafx.domain.session_events import JobReleased, JobReporting, JobTaken
from vmafx.domain.session_policy import SessionPolicy
from vmafx.domain.session_state import InSession, NoSession, Stopping, Work
from vmafx.domain.session_step import Step, refuse

__all__ = ["release_job", "report_job", "take_job"]


def take_job(state: NoSession | InSession, event: JobTaken, _policy: SessionPolicy) -> Step:
    """Speak for a job from now on.

    Raises:
        IllegalTransitionError: It is held, or as many are as a heartbeat may list.
    """
    if event.job_id in state.jobs or len(state.jobs) >= HEARTBEAT_JOBS_MAX:
        refuse(state, event)
    return Step(state=replace(state, jobs={**state.jobs, event.job_id: Work.RUNNING}))


def report_job(state: NoSession | InSession | Stopping, event: JobReporting, _policy: SessionPolicy) -> Step:
    """Note that a job has ended; it is held until its report is over.

    Raises:
        IllegalTransitionError: It is not held, or had ended before.
    """
    if state.jobs.get(event.job_id) not in {Work.RUNNING, Work.CANCELLING}:
        refuse(state, event)
    return Step(state=replace(state, jobs={**state.jobs, event.job_id: Work.REPORTING}))


def release_job(state: NoSession | InSession | Stopping, event: JobReleased, _policy: SessionPolicy) -> Step:
    """Speak for a job no longer.

    Raises:
        IllegalTransitionError: It is not held.
    """
    if event.job_id not in state.jobs:
        refuse(state, event)
    rest = {job_id: work for job_id, work in state.jobs.items() if job_id != event.job_id}
    return Step(state=replace(state, jobs=rest))
