"""Whether this machine is fit to score: after three faults in a row it has to prove it again (ADR 0018)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from vmafx.app.node import events
from vmafx.app.node.calls import ours_to_cancel
from vmafx.app.node.events import EventLog, seconds
from vmafx.app.node.gate import Gate
from vmafx.app.node.outcome import CancelCause, Outcome, words_of
from vmafx.domain.backoff import BackoffPolicy
from vmafx.domain.error_text import report_text
from vmafx.domain.job import JobResult
from vmafx.domain.scoring import Retry
from vmafx.ports.clock import Clock
from vmafx.ports.scorer import Scorer
from vmafx.ports.telemetry import Fields, Level

__all__ = ["FAULTS_MAX", "Fitness"]

FAULTS_MAX: Final = 3
"""How many jobs in a row may fail by the machine's fault before the node pulls no more."""


class Fitness:
    """Counts the faults of the machine, and closes the gate until the scorer has passed its self-test.

    Args:
        tasks: Owns the self-tests.
        gate: What pulls pass.
        scorer: What is tested.
        waits: The waits between self-tests that fail.
        clock: What it waits with.
        chance: Gives numbers from 0 to 1.
        log: Hears of events.
    """

    def __init__(  # noqa: PLR0913 -- one argument per thing that it works with
        self,
        *,
        tasks: asyncio.TaskGroup,
        gate: Gate,
        scorer: Scorer,
        waits: BackoffPolicy,
        clock: Clock,
        chance: Callable[[], float],
        log: EventLog,
    ) -> None:
        self._tasks = tasks
        self._gate = gate
        self._scorer = scorer
        self._waits = waits
        self._clock = clock
        self._chance = chance
        self._log = log
        self._faults = 0
        self._proving: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def fit(self) -> bool:
        """Whether nothing is held against the machine."""
        return self._proving is None

    def heard(self, outcome: Outcome, cause: CancelCause | None) -> None:
        """Take note of how a job ended; a job that was stopped tells nothing of the machine.

        Args:
            outcome: How it ended.
            cause: Who stopped it; None when nobody did.
        """
        if isinstance(outcome, JobResult):
            self._faults = 0
        elif cause is None:
            self._faults = self._faults + 1 if outcome.retry is Retry.ELSEWHERE else 0
        if self._faults >= FAULTS_MAX and self.fit and not self._stopped:
            self._suspend()

    def stop(self) -> None:
        """Test no more."""
        self._stopped = True
        if self._proving is not None:
            self._proving.cancel("the node stops")

    def _suspend(self) -> None:
        self._log.tell(Level.ERROR, events.PULLING_SUSPENDED, {"faults": self._faults})
        self._gate.close()
        self._proving = self._tasks.create_task(self._prove(), name="self-test")

    async def _prove(self) -> None:
        backoff = self._waits.start()
        while (error := await self._tested()) is not None:
            wait_s, backoff = backoff.draw(self._chance())
            told: Fields = {"retry_in": seconds(wait_s), "error": error}
            self._log.tell(Level.WARN, events.SELF_TEST_FAILED, told)
            await self._clock.sleep(wait_s)
        self._log.tell(Level.INFO, events.PULLING_AGAIN)
        self._faults = 0
        self._proving = None
        self._gate.open()

    async def _tested(self) -> str | None:
        try:
            await ours_to_cancel(self._scorer.self_test())
        except Exception as error:  # noqa: BLE001 -- whatever it is, this scorer is not fit yet
            return report_text(words_of(error) or type(error).__name__)
        return None
