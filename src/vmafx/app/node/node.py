"""The node: registers, beats, pulls, scores and reports until it is stopped (ADR 0018)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from vmafx.app.node import events
from vmafx.app.node.calls import ours_to_cancel
from vmafx.app.node.drain import drain
from vmafx.app.node.events import EventLog
from vmafx.app.node.executor import Executor
from vmafx.app.node.fitness import Fitness
from vmafx.app.node.gate import Gate
from vmafx.app.node.jobs import HeldJobs
from vmafx.app.node.keeper import Keeper
from vmafx.app.node.outcome import CancelCause
from vmafx.app.node.policy import NodePolicy
from vmafx.app.node.reporter import Reporter
from vmafx.app.node.slots import Slot, SlotParts
from vmafx.domain.job import JobId
from vmafx.ports.clock import Clock
from vmafx.ports.controller import Controller, NodeIdentity
from vmafx.ports.scorer import Scorer
from vmafx.ports.sources import SourceStore
from vmafx.ports.telemetry import Fields, Level, Telemetry

__all__ = ["Node", "NodeState"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """How a node is at one moment.

    Attributes:
        registered: Whether it ever had a session.
        in_session: Whether it has one now.
        fit: Whether its scorer passed the self-test, and too many faults of the machine are not held against
            it.
        draining: Whether it was told to stop.
        jobs_running: How many jobs run; those being reported do not.
    """

    registered: bool
    in_session: bool
    fit: bool
    draining: bool
    jobs_running: int

    @property
    def ready(self) -> bool:
        """Whether it takes jobs; a session that is lost for a while does not count against it."""
        return self.registered and self.fit and not self.draining


class Node:
    """Scores the jobs of a controller.

    It keeps nothing outside itself and handles no signals, so that any number of nodes may live in a process.
    Every method belongs to the event loop that it runs on.

    Args:
        identity: Who registers.
        policy: How it works.
        controller: Who hands out jobs and takes results.
        scorer: Scores pairs.
        sources: Makes clips of inputs.
        clock: All its time.
        telemetry: Hears what it does.
        chance: Gives numbers from 0 to 1, evenly spread; waits are drawn from it.
        about: What else the event of its start tells, such as the controller's address.
    """

    def __init__(  # noqa: PLR0913 -- one argument per port
        self,
        *,
        identity: NodeIdentity,
        policy: NodePolicy,
        controller: Controller,
        scorer: Scorer,
        sources: SourceStore,
        clock: Clock,
        telemetry: Telemetry,
        chance: Callable[[], float],
        about: Fields | None = None,
    ) -> None:
        self._identity = identity
        self._policy = policy
        self._controller = controller
        self._scorer = scorer
        self._sources = sources
        self._clock = clock
        self._telemetry = telemetry
        self._chance = chance
        self._about: Fields = about or {}
        self._log = EventLog(telemetry)
        self._jobs = HeldJobs()
        self._stopping = asyncio.Event()
        self._deadline_s = 0.0
        self._at_once = False
        self._began = False
        self._gate: Gate | None = None
        self._keeper: Keeper | None = None
        self._fitness: Fitness | None = None
        self._slots: list[asyncio.Task[None]] = []

    @property
    def state(self) -> NodeState:
        """How it is now."""
        return NodeState(
            registered=self._keeper is not None and self._keeper.registered,
            in_session=self._keeper is not None and self._keeper.current is not None,
            fit=self._fitness is not None and self._fitness.fit,
            draining=self._stopping.is_set(),
            jobs_running=self._jobs.running,
        )

    async def run(self) -> None:
        """Work until stopped, and return when nothing of it is left: no job, no call, no task.

        The scorer proves itself first. Told to stop, it pulls nothing more, lets jobs end until shortly
        before the shutdown timeout, interrupts the others, reports them, and ends the session last. A
        cancellation ends it at once; results that were not reported are in the log.

        Raises:
            ScorerUnavailableError: The scorer does not work: this node must take no jobs.
            RuntimeError: It ran before.
            ExceptionGroup: A part of it died, and so the whole was ended.
        """
        if self._began:
            raise RuntimeError("a node runs once")
        self._began = True
        if self._stopping.is_set():
            return
        fault: Exception | None = None
        async with asyncio.TaskGroup() as tasks:
            self._gate = Gate(tasks)
            fault = await self._gate.passing(self._self_test(), name="self-test")
            if fault is None and self._gate.is_open:
                await self._work(tasks, self._gate)
        if fault is not None:
            raise fault

    def stop(self) -> None:
        """Begin to stop; any time, also before `run`, and any number of times."""
        if self._stopping.is_set():
            return
        self._deadline_s = self._clock.monotonic() + self._policy.shutdown_timeout_s - self._policy.reserve_s
        self._stopping.set()
        if self._gate is not None:
            self._gate.shut()
        if self._fitness is not None:
            self._fitness.stop()

    def stop_now(self) -> None:
        """Stop without letting anything end: jobs are interrupted, and what was not reported is given up."""
        self.stop()
        if self._at_once:
            return
        self._at_once = True
        for slot in self._slots:
            slot.cancel("the node was told to stop at once")

    # ---------------------------------------------------------------- inside

    async def _self_test(self) -> Exception | None:
        try:
            await ours_to_cancel(self._scorer.self_test())
        except Exception as error:  # noqa: BLE001 -- raised by `run`, outside of the group of tasks
            return error
        return None

    async def _work(self, tasks: asyncio.TaskGroup, gate: Gate) -> None:
        keeper = self._keeper = self._made_keeper(tasks)
        fitness = self._fitness = self._made_fitness(tasks, gate)
        parts = self._slot_parts(tasks, gate, keeper, fitness)
        self._tell_start()
        keeper.start()
        numbers = range(self._policy.slots)
        self._slots = [tasks.create_task(Slot(n, parts).run(), name=f"slot {n}") for n in numbers]
        try:
            await self._stopping.wait()
            await drain(
                self._slots,
                self._jobs,
                deadline_s=self._deadline_s,
                reserve_s=self._policy.reserve_s,
                clock=self._clock,
                log=self._log,
            )
        finally:
            keeper.stop()
        self._log.tell(Level.INFO, events.CLIENT_STOPPED)

    def _made_keeper(self, tasks: asyncio.TaskGroup) -> Keeper:
        return Keeper(
            tasks=tasks,
            identity=self._identity,
            policy=self._policy,
            controller=self._controller,
            clock=self._clock,
            chance=self._chance,
            telemetry=self._telemetry,
            log=self._log,
            cancel=self._cancelled_by_controller,
        )

    def _made_fitness(self, tasks: asyncio.TaskGroup, gate: Gate) -> Fitness:
        return Fitness(
            tasks=tasks,
            gate=gate,
            scorer=self._scorer,
            waits=self._policy.self_test,
            clock=self._clock,
            chance=self._chance,
            log=self._log,
        )

    def _slot_parts(
        self, tasks: asyncio.TaskGroup, gate: Gate, keeper: Keeper, fitness: Fitness
    ) -> SlotParts:
        return SlotParts(
            tasks=tasks,
            policy=self._policy,
            controller=self._controller,
            keeper=keeper,
            gate=gate,
            jobs=self._jobs,
            executor=Executor(
                backend=self._policy.backend,
                scorer=self._scorer,
                sources=self._sources,
                telemetry=self._telemetry,
                log=self._log,
            ),
            reporter=Reporter(
                policy=self._policy,
                controller=self._controller,
                keeper=keeper,
                clock=self._clock,
                chance=self._chance,
                log=self._log,
            ),
            fitness=fitness,
            clock=self._clock,
            chance=self._chance,
            telemetry=self._telemetry,
            log=self._log,
        )

    def _cancelled_by_controller(self, job_id: JobId) -> None:
        job = self._jobs.get(job_id)
        if job is not None:
            job.stop(CancelCause.CONTROLLER)

    def _tell_start(self) -> None:
        self._telemetry.gauge("vmafx_node_slots", self._policy.slots)
        self._telemetry.gauge("vmafx_node_jobs_running", 0)
        told: Fields = {
            "node": self._identity.name,
            "slots": self._policy.slots,
            "backends": self._policy.backend.value,
            **self._about,
        }
        self._log.tell(Level.INFO, events.CLIENT_STARTED, told)
