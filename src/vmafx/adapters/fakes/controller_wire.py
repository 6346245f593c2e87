"""The wire between nodes and a FakeController: every call passes here, and here it goes wrong (ADR 0014)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NoReturn, TypeVar, cast

from vmafx.adapters.fakes.controller_calls import Answer, NodeCall
from vmafx.adapters.fakes.controller_faults import (
    Delay,
    Fail,
    Fault,
    FaultRule,
    Hang,
    LoseAnswer,
    Substitute,
)
from vmafx.adapters.fakes.script import Script
from vmafx.domain.errors import ControllerError
from vmafx.domain.retry import Call, StatusCode, controller_error
from vmafx.ports.clock import Clock

__all__ = ["EndedCall", "Wire"]

_AnswerT = TypeVar("_AnswerT", bound=Answer)
_CallT = TypeVar("_CallT", bound=NodeCall)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedCall:
    """A call that is over.

    Attributes:
        call: What was asked.
        ended_s: When it ended, on the clock's monotonic time.
        fault: What was done to it; None when nothing was.
        outcome: The answer, or the error that the caller saw.
        cancelled: Whether the caller gave up, so that there is no outcome.
    """

    call: NodeCall
    ended_s: float
    fault: Fault | None
    outcome: Answer | ControllerError = None
    cancelled: bool = False


class Wire:
    """Carries calls, writes them down, and does to them what was cued or what a rule says.

    Args:
        clock: Whose time calls take.
        rule: What goes wrong with calls that nothing was cued for; None lets all be.
    """

    received: list[NodeCall]
    """Every call so far, in the order they came."""
    ended: list[EndedCall]
    """Every call that is over, in the order they ended."""

    def __init__(self, clock: Clock, rule: FaultRule | None = None) -> None:
        self.received = []
        self.ended = []
        self._clock = clock
        self._scripts = {kind: Script[NodeCall, Fault | None](rule or _no_fault) for kind in Call}
        self._away: Fail | None = None
        self._released = asyncio.Event()
        self._hanging = 0

    def cue(self, kind: Call, *faults: Fault | None) -> None:
        """Do this to the next calls of that kind, one each and in order, before the rule is asked again.

        Args:
            kind: Which calls.
            faults: What is done to them; None lets one be.
        """
        self._scripts[kind].cue(*faults)

    def break_down(self, fault: Fail | None = None) -> None:
        """Fail every call that is about to be served from now on, as if the controller were away."""
        self._away = fault or Fail(message="controller is away")

    def heal(self) -> None:
        """Serve again; what was cued and not yet met stays cued."""
        self._away = None

    def release(self) -> None:
        """Let every call that hangs go on."""
        self._released.set()
        self._released = asyncio.Event()

    @property
    def hanging(self) -> int:
        """How many calls hang until they are released."""
        return self._hanging

    def received_as(self, kind: type[_CallT]) -> list[_CallT]:
        """Return the calls of one kind so far, in the order they came."""
        return [call for call in self.received if isinstance(call, kind)]

    def check(self) -> None:
        """Pass while the controller is there.

        Raises:
            ControllerError: It is away.
        """
        if self._away is not None:
            _fail(self._away)

    async def carry(
        self,
        call: NodeCall,
        work: Callable[[], Awaitable[_AnswerT]],
        undo: Callable[[_AnswerT], None] | None = None,
    ) -> _AnswerT:
        """Return what `work` answers to a call, unless something goes wrong.

        Args:
            call: The call.
            work: What the controller does about it.
            undo: What it does when the caller is gone before it is answered; None for nothing.

        Raises:
            ControllerError: What the work raised, a fault, or `DEADLINE_EXCEEDED`.
        """
        self.received.append(call)
        fault = self._scripts[call.kind].answer(call)
        outcome: Answer | ControllerError = None
        cancelled = True
        try:
            answer = await self._in_time(call, fault, work, undo)
            outcome, cancelled = answer, False
        except ControllerError as error:
            outcome, cancelled = error, False
            raise
        finally:
            ended_s = self._clock.monotonic()
            self.ended.append(
                EndedCall(call=call, ended_s=ended_s, fault=fault, outcome=outcome, cancelled=cancelled)
            )
        return answer

    async def _in_time(
        self,
        call: NodeCall,
        fault: Fault | None,
        work: Callable[[], Awaitable[_AnswerT]],
        undo: Callable[[_AnswerT], None] | None,
    ) -> _AnswerT:
        try:
            async with self._clock.timeout(call.timeout_s):
                await self._clock.sleep(0)
                return await self._through(fault, work, undo)
        except TimeoutError as error:
            raise controller_error(StatusCode.DEADLINE_EXCEEDED, "deadline exceeded") from error

    async def _through(
        self,
        fault: Fault | None,
        work: Callable[[], Awaitable[_AnswerT]],
        undo: Callable[[_AnswerT], None] | None,
    ) -> _AnswerT:
        if isinstance(fault, Substitute):
            return cast("_AnswerT", fault.answer)  # whoever cued it says that it fits
        await self._before(fault)
        self.check()
        answer = await work()
        try:
            await self._after(fault)
        except asyncio.CancelledError:
            if undo is not None:
                undo(answer)
            raise
        return answer

    async def _before(self, fault: Fault | None) -> None:
        match fault:
            case Fail():
                _fail(fault)
            case Delay(before_s=before_s):
                await self._clock.sleep(before_s)
            case Hang(answered=False):
                await self._hang()
            case _:
                pass

    async def _after(self, fault: Fault | None) -> None:
        match fault:
            case LoseAnswer():
                _fail(fault)
            case Delay(after_s=after_s):
                await self._clock.sleep(after_s)
            case Hang(answered=True):
                await self._hang()
            case _:
                pass

    async def _hang(self) -> None:
        self._hanging += 1
        try:
            await self._released.wait()
        finally:
            self._hanging -= 1


def _fail(fault: Fail | LoseAnswer) -> NoReturn:
    raise controller_error(fault.code, fault.message)


def _no_fault(_call: NodeCall) -> Fault | None:
    return None
