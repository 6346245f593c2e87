"""Answering: what every call has in common that comes to its end, whoever makes it (ADR 0025)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from vmafx.app.controller import events
from vmafx.app.controller.outage import Outage
from vmafx.domain.errors import ControllerError, ForeignJobError, JobNotFoundError, StoreError
from vmafx.domain.job import JobId, TenantId
from vmafx.domain.refusals import refused
from vmafx.domain.retry import StatusCode, controller_error
from vmafx.ports.clock import Clock
from vmafx.ports.telemetry import Fields

__all__ = ["Answering", "Asked"]

_STORE_TROUBLE: Final = frozenset({StatusCode.UNAVAILABLE.value, StatusCode.INTERNAL.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a caller asked for.

    Attributes:
        doing: In the words that begin the errors of the call.
        call: As the log names it.
        job_id: The job that it is about; None when it is about none.
    """

    doing: str
    call: str
    job_id: JobId | None = None


class Answering:
    """Answers the calls of one tenant.

    Args:
        tenant: Whose calls.
        clock: What deadlines are kept with.
        outage: Is told when the store fails.
    """

    def __init__(self, tenant: TenantId, *, clock: Clock, outage: Outage) -> None:
        self._tenant = tenant
        self._clock = clock
        self._outage = outage

    @asynccontextmanager
    async def within(self, timeout_s: float, asked: Asked) -> AsyncGenerator[None]:
        """Bound a call by its caller's deadline, and give what fails the form that callers know.

        Args:
            timeout_s: How long the caller waits, in seconds.
            asked: What the call is.

        Raises:
            ControllerError: The time is over, or the store refused or failed.
        """
        try:
            async with self._clock.timeout(timeout_s):
                yield
        except TimeoutError as error:
            raise self.late(asked) from error
        except StoreError as error:
            raise self.refusal(error, asked) from error

    def refusal(self, error: StoreError, asked: Asked) -> ControllerError:
        """Return what a caller is told; a store that failed is an outage, too."""
        if isinstance(error, JobNotFoundError | ForeignJobError):
            return refused(error)
        refusal = refused(error, about=asked.doing)
        if refusal.code in _STORE_TROUBLE:
            self._outage.call_failed(error, self._about(asked))
        return refusal

    def late(self, asked: Asked) -> ControllerError:
        """Return what a caller is told whose time is over."""
        return controller_error(StatusCode.DEADLINE_EXCEEDED, f"{asked.doing}: deadline exceeded")

    def _about(self, asked: Asked) -> Fields:
        fields = {"tenant": events.shown_id(self._tenant), "call": asked.call}
        return fields if asked.job_id is None else {**fields, "job_id": events.shown_id(asked.job_id)}
