"""Signals that end a run: the first cancels it, so that nothing of it is left behind (ADR 0015)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Final, TypeVar

from vmafx.app.cli.exits import SIGNALLED, InterruptedRunError
from vmafx.app.cli.kept_signals import find_kept, heard_signals

__all__ = ["FORCE_AFTER_S", "until_signalled"]

Answer = TypeVar("Answer")

FORCE_AFTER_S: Final = 3.0
"""How long a cancelled run may clean up before a further signal ends the process at once, in seconds."""


async def until_signalled(work: Coroutine[object, object, Answer]) -> Answer:
    """Return what `work` returns, unless SIGINT, SIGTERM or SIGHUP comes first and cancels it.

    A signal that the program kept counts as the first. Signals that were ignored when the program started
    stay ignored, as `nohup` and shells want it. The signals that often follow the first do not disturb the
    cleaning up.

    Raises:
        InterruptedRunError: A signal came, and the work has ended.
        CancelledError: The work was cancelled by something else.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    first: list[tuple[signal.Signals, float]] = []

    def note(number: signal.Signals) -> None:
        if not first:
            first.append((number, loop.time()))
            task.cancel()
        elif loop.time() - first[0][1] > FORCE_AFTER_S:
            os._exit(SIGNALLED + number)

    kept, heard = find_kept(), heard_signals()
    for number in heard:
        loop.add_signal_handler(number, note, number)
    for number in kept.take():
        note(number)
    try:
        return await task
    except (asyncio.CancelledError, Exception) as error:
        if first:
            raise InterruptedRunError(first[0][0]) from error
        raise
    finally:
        for number in heard:
            loop.remove_signal_handler(number)
