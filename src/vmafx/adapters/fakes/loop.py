"""VirtualTimeLoop: an event loop on which an hour passes in milliseconds (ADR 0014)."""

from __future__ import annotations

import asyncio
import itertools
import math
import selectors
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, TypeVarTuple

from vmafx.adapters.fakes.clock import STUCK, TURNS_MAX, VirtualClock, VirtualTimeError, waiting_tasks
from vmafx.adapters.fakes.timers import Timers

if TYPE_CHECKING:
    from vmafx.adapters.fakes.clock import Driver

__all__ = ["VirtualTimeLoop", "run_virtual"]

_DEADLOCK: Final = "deadlock in virtual time: no timer is set, and every task waits:"
_REFUSAL: Final = (
    "virtual time knows no sockets, pipes or children: use fakes, "
    "or an ordinary event loop and a VirtualClock that is moved by hand"
)

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time: when every task waits, time jumps to the next timer.

    Everything that asyncio itself does with time works: `call_later`, `asyncio.sleep`, `asyncio.timeout`.
    When no timer is set either, nothing can ever happen, and the loop raises `VirtualTimeError` instead of
    waiting for ever. Histories repeat: timers fire in the order of their deadlines, and sets of tasks are
    walked in the same order in every run.

    The world outside is left out: sockets, pipes and children are refused. Calls in executors
    (`asyncio.to_thread`) take no virtual time. Calls from other threads (`call_soon_threadsafe`) are served
    as they come; a thread that the loop has to wait for is announced with `standing_still`.

    Args:
        clock: The clock to drive; None makes one.
    """

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self.clock: Final = VirtualClock() if clock is None else clock
        self._deadlines = Timers[asyncio.TimerHandle]()
        self._task_numbers = itertools.count()
        self._outside = 0
        self._turns = 0
        selector = _Selector(self._count_turn, self._jump)
        super().__init__(selector)
        selector.seal()
        self.set_task_factory(self._numbered_task)

    def time(self) -> float:
        """Return the clock's monotonic time."""
        return self.clock.monotonic()

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call `callback` when virtual time has come to `when`.

        Returns:
            A handle that can cancel the call.
        """
        handle = super().call_at(when, callback, *args, context=context)
        if math.isfinite(when):  # what never comes is nothing to wait for
            self._deadlines.add(when, handle)
        return handle

    @contextmanager
    def standing_still(self) -> Generator[None, None, None]:
        """Keep time from moving, and wait for calls from other threads instead.

        Yields:
            Nothing; time moves on when the context is left.
        """
        self._outside += 1
        try:
            yield
        finally:
            self._outside -= 1

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Ts], _T], *args: *_Ts
    ) -> asyncio.Future[_T]:
        """Call `func` in a thread; virtual time stands still until it is done.

        Returns:
            A future of the call's result.
        """
        future = super().run_in_executor(executor, func, *args)
        self._outside += 1
        future.add_done_callback(self._executor_call_ended)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109
        """Wait for the default executor's threads to end; `timeout`, of newer Pythons, is not used."""
        with self.standing_still():
            await super().shutdown_default_executor()

    async def subprocess_exec(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Refuse to start a child.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(_REFUSAL)

    async def subprocess_shell(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Refuse to start a child.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(_REFUSAL)

    @property
    def timers(self) -> int:
        """How many timers are set and not yet due."""
        self._deadlines.pop_due(self.time())
        return len(self._deadlines)

    @property
    def next_wake_s(self) -> float | None:
        """The instant of the next timer; None when none is set."""
        self._deadlines.pop_due(self.time())
        return self._deadlines.next_s

    @property
    def _clock_resolution(self) -> float:
        # asyncio fires the timers due within its clock's resolution: with one step of the float none fires
        # early, and none is out of reach once a float's steps are coarser than the system clock's.
        return math.ulp(self.clock.monotonic())

    @_clock_resolution.setter
    def _clock_resolution(self, _: float) -> None:
        """Pass over the system clock's resolution, which asyncio sets."""

    def _jump(self) -> float | None:
        if self._outside:
            return None
        next_s = self.next_wake_s
        if next_s is None:
            raise VirtualTimeError(_DEADLOCK, waiting_tasks(self))
        self.clock.move_to(next_s)
        self._turns = 0
        return 0.0

    def _count_turn(self) -> None:
        self._turns = 0 if self._outside else self._turns + 1
        if self._turns > TURNS_MAX:
            self._turns = 0
            raise VirtualTimeError(STUCK, waiting_tasks(self))

    def _executor_call_ended(self, _: asyncio.Future[Any]) -> None:
        self._outside -= 1

    def _numbered_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, _T] | Generator[Any, None, _T],
        **options: Any,  # noqa: ANN401 - grows with Python's versions
    ) -> asyncio.Task[_T]:
        return _NumberedTask(next(self._task_numbers), coroutine, loop=loop, **options)


def run_virtual(
    main: Callable[[VirtualClock], Coroutine[Any, Any, _T]], *, clock: VirtualClock | None = None
) -> _T:
    """Run a coroutine function on a `VirtualTimeLoop` of its own and return what it returns.

    Args:
        main: Gets the clock that the loop drives.
        clock: The clock to drive; None makes one.

    Raises:
        VirtualTimeError: Nothing could ever happen, or a task never waited.
    """
    driven = VirtualClock() if clock is None else clock
    with asyncio.Runner(loop_factory=partial(VirtualTimeLoop, driven)) as runner:
        return runner.run(main(driven))


class _Selector(selectors.DefaultSelector):
    """Asks before it would wait; once sealed it takes no further file."""

    def __init__(self, turn: Callable[[], None], idle: Callable[[], float | None]) -> None:
        super().__init__()
        self._turn = turn
        self._idle = idle
        self._sealed = False

    def seal(self) -> None:
        self._sealed = True

    def register(self, fileobj: Any, events: int, data: object = None) -> selectors.SelectorKey:  # noqa: ANN401 - as the standard library has it
        if self._sealed:
            raise NotImplementedError(_REFUSAL)
        return super().register(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._turn()
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            return found
        return super().select(self._idle())


class _NumberedTask(asyncio.Task[_T]):
    """A task hashed and named by its number in the loop: sets of tasks have one order in every run."""

    def __init__(
        self,
        number: int,
        coroutine: Coroutine[Any, Any, _T] | Generator[Any, None, _T],
        name: str | None = None,
        **options: Any,  # noqa: ANN401 - those of asyncio.Task
    ) -> None:
        self._number = number  # first: creating the task puts it into a set
        super().__init__(coroutine, name=name or f"Task-{number}", **options)

    def __hash__(self) -> int:
        return self._number

    def set_name(self, value: object, /) -> None:
        if value is not None:  # Python 3.13.0 to 3.13.2 name every task of a task factory
            super().set_name(value)


if TYPE_CHECKING:
    _port: type[Driver] = VirtualTimeLoop
