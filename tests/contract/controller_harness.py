"""What the contract suite of `Controller` needs around one, and the makers of those it is run on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.controller import ControllerMode, FakeController
from vmafx.domain.job import JobId, JobSpec, JobStatus
from vmafx.ports.controller import Controller

ROOTS = ("/clips", "https://clips.invalid/")


class Trait(Enum):
    """Where controllers may differ, and why: the original knows no metadata."""

    WAITS_FOR_WORK = "a pull that finds nothing waits for work"
    NUMBERS_ATTEMPTS = "assignments carry the number of the attempt"
    NAMES_CANCELLED = "heartbeats name cancelled jobs"
    FIRST_SUCCESS_WINS = "a success counts although the lease was lost"
    TAKES_OVER = "a newer session of the same process takes an attempt over"
    RETRIES_FAILURES = "a failure may ask for another try"
    GIVES_BACK_UNSTARTED = "a job that no heartbeat ever lists goes back"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A job as its owner sees it."""

    status: JobStatus
    score: float | None
    error: str


class Harness(Protocol):
    """A controller with an empty queue, one tenant whose roots are `ROOTS`, and a hand on its time."""

    @property
    def controller(self) -> Controller: ...

    @property
    def traits(self) -> frozenset[Trait]: ...

    async def submit(self, spec: JobSpec) -> JobId: ...

    async def cancel(self, job_id: JobId) -> None: ...

    async def look(self, job_id: JobId) -> Seen: ...

    async def pass_time(self, seconds: float) -> None:
        """Let time pass for the controller and for the calls that wait; 0 lets them come to rest."""
        ...


Maker: TypeAlias = Callable[[VirtualClock], Harness]


class FakeHarness:
    """A `FakeController` on a virtual clock."""

    def __init__(self, clock: VirtualClock, mode: ControllerMode) -> None:
        self.controller = FakeController(clock, mode=mode, roots=ROOTS)
        self.traits = frozenset(Trait) if mode is ControllerMode.CURRENT else frozenset[Trait]()
        self._clock = clock

    async def submit(self, spec: JobSpec) -> JobId:
        return self.controller.submit(spec)

    async def cancel(self, job_id: JobId) -> None:
        self.controller.cancel(job_id)

    async def look(self, job_id: JobId) -> Seen:
        assert self.controller.violations() == ()
        job = self.controller.job(job_id)
        return Seen(
            status=job.status, score=None if job.result is None else job.result.score, error=job.error or ""
        )

    async def pass_time(self, seconds: float) -> None:
        await self._clock.advance(seconds)


def fake(clock: VirtualClock) -> Harness:
    return FakeHarness(clock, ControllerMode.CURRENT)


def fake_original(clock: VirtualClock) -> Harness:
    return FakeHarness(clock, ControllerMode.ORIGINAL)


MAKERS: tuple[Maker, ...] = (fake, fake_original)
