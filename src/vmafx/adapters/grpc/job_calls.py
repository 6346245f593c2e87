"""The calls of clients, over `Jobs` (ADR 0016, 0026)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from google.protobuf.message import Message

from vmafx.adapters.grpc import codec_jobs as codec
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb
from vmafx.adapters.grpc.calls import CALL_TIMEOUT_MAX_S, Incoming, Method, Stream, Unary, read
from vmafx.adapters.grpc.codec import SERVICE
from vmafx.adapters.grpc.pace import FOLLOWED_PER_S, LISTED_PER_S, Pace
from vmafx.adapters.grpc.waits import Waits
from vmafx.domain.callers import Principal
from vmafx.domain.recent import Recent
from vmafx.ports.clock import Clock
from vmafx.ports.jobs import Jobs, JobView

if TYPE_CHECKING:
    from vmafx.adapters.grpc.calls import ServicePart

__all__ = ["WRITTEN_JOBS_MAX", "JobCalls"]

WRITTEN_JOBS_MAX: Final = 512
"""Of how many jobs the bytes are kept, for the next of those who follow them."""


class JobCalls:
    """The four calls of clients.

    Jobs are read as fast as their reader takes them: one that is slow or gone holds nothing but its place.
    However many read, they are sent so many a second together, so that other calls go on beside them; and a
    state that many are shown is written once.

    Args:
        of: Returns the jobs that a caller may see and hand in.
        clock: Sets the pace.
    """

    def __init__(self, of: Callable[[Principal], Jobs], *, clock: Clock) -> None:
        self._of = of
        self._waits = Waits()
        self._followed = Pace(clock, FOLLOWED_PER_S)
        self._listed = Pace(clock, LISTED_PER_S)
        self._written: Recent[JobView, bytes] = Recent(_written, count_max=WRITTEN_JOBS_MAX)

    def methods(self) -> Mapping[str, Method]:
        """Return the four calls."""
        return {
            f"/{SERVICE}/SubmitJob": Unary(self._submit),
            f"/{SERVICE}/GetJob": Unary(self._get),
            f"/{SERVICE}/CancelJob": Unary(self._cancel),
            f"/{SERVICE}/StreamJobs": Stream(self._stream),
        }

    def end_waits(self) -> None:
        """End listings that follow changes, as `UNAVAILABLE`; those that do not go on to their end."""
        self._waits.end()

    async def drained(self) -> None:
        """Return at once: a call that has ended leaves nothing behind."""

    async def _submit(self, call: Incoming) -> Message:
        spec = codec.spec_from(read(pb.SubmitJobRequest, call.content))
        key = codec.idempotency_key_from(call.metadata)
        job_id = await self._of(call.caller).submit(spec, idempotency_key=key, timeout_s=call.left_s())
        return pb.SubmitJobResponse(job_id=job_id)

    async def _get(self, call: Incoming) -> Message:
        job_id = codec.job_id_from(read(pb.GetJobRequest, call.content))
        return codec.job_message(await self._of(call.caller).get(job_id, timeout_s=call.left_s()))

    async def _cancel(self, call: Incoming) -> Message:
        job_id = codec.job_id_from(read(pb.CancelJobRequest, call.content))
        return codec.cancel_response(await self._of(call.caller).cancel(job_id, timeout_s=call.left_s()))

    async def _stream(self, call: Incoming) -> None:
        statuses = codec.statuses_from(read(pb.StreamJobsRequest, call.content))
        jobs = self._of(call.caller)
        if codec.follows(call.metadata):
            with self._waits.one():
                await call.begin()  # so that its caller sees that it is up, however long nothing changes
                await _send_all(call, jobs.followed(statuses), self._followed, self._written.of)
        else:
            listed = jobs.listed(statuses, timeout_s=call.left_s(CALL_TIMEOUT_MAX_S))
            await _send_all(call, listed, self._listed, _written)


async def _send_all(
    call: Incoming, views: AsyncIterator[JobView], pace: Pace, written: Callable[[JobView], bytes]
) -> None:
    async with _closing(views):
        async for view in views:
            await pace.one()
            await call.send_written(written(view))


def _written(view: JobView) -> bytes:
    return codec.job_message(view).SerializeToString()


@asynccontextmanager
async def _closing(views: AsyncIterator[JobView]) -> AsyncGenerator[None]:
    """End an iteration with the body, not when somebody collects what is left of it."""
    try:
        yield
    finally:
        if isinstance(views, AsyncGenerator):
            await views.aclose()


if TYPE_CHECKING:
    _part: type[ServicePart] = JobCalls
