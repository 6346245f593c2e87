"""A client of the controller that knows nothing but the wire: bare messages, any metadata, any bytes.

    async with wire_client("127.0.0.1:9090", token="abc") as client:
        job_id = (await client.submit("/clips/a.y4m", "/clips/b.y4m", key="mine")).job_id
        session = await client.session("node-a")
        pull = client.pull(session)
        job, trailing = (await pull).job, await pull.trailing_metadata()
        async for job in client.stream(follow=True): ...

Every method begins one call and hands out grpc's own object of it: awaited (iterated over, for `stream`) it
gives the message, and it can be cancelled or asked for metadata, code and details.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message

from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb

SERVICE = "vmafx.controller.v1.VmafxController"
TIMEOUT_S = 20.0
CPU = pb.NodeCapability(gpu_vendor="cpu", backends=["cpu"], concurrency=2)
ANSWERS: Mapping[str, type[Message]] = {
    "SubmitJob": pb.SubmitJobResponse,
    "GetJob": pb.Job,
    "CancelJob": pb.CancelJobResponse,
    "StreamJobs": pb.Job,
    "RegisterNode": pb.RegisterNodeResponse,
    "Heartbeat": pb.HeartbeatResponse,
    "PullWork": pb.PullWorkResponse,
    "ReportResult": pb.ReportResultResponse,
}

Metadata = tuple[tuple[str, str | bytes], ...]


class WireClient:
    """All eight calls over one channel; `token` and `metadata` go with each of them."""

    def __init__(
        self, channel: grpc.aio.Channel, *, token: str | None = None, metadata: Metadata = ()
    ) -> None:
        self.channel = channel
        self.metadata = metadata if token is None else (("authorization", f"Bearer {token}"), *metadata)

    # ------------------------------------------------------------ any call

    def call(
        self,
        method: str,
        request: Message | bytes = b"",
        *,
        timeout_s: float | None = TIMEOUT_S,
        metadata: Metadata = (),
    ) -> Any:
        """Begin a unary call; `method` is a name of the service, or a whole path that begins with `/`."""
        path = method if method.startswith("/") else f"/{SERVICE}/{method}"
        answer = ANSWERS.get(method)
        ask = self.channel.unary_unary(
            path,
            request_serializer=_written,
            response_deserializer=None if answer is None else answer.FromString,
        )
        return ask(request, timeout=timeout_s, metadata=(*self.metadata, *metadata))

    async def refusal(self, method: str, request: Message | bytes = b"", **options: Any) -> tuple[str, str]:
        """Make a call that must fail, and return its code and its message."""
        return await refusal(self.call(method, request, **options))

    # ------------------------------------------------------------ clients

    def submit(  # one argument per field
        self,
        reference: str,
        distorted: str,
        *,
        model: str = "",
        backend: str = "",
        key: str | None = None,
        **options: Any,
    ) -> Any:
        scoring = pb.ScoringParams(reference=reference, distorted=distorted, model=model, backend=backend)
        if key is not None:
            options["metadata"] = (*options.get("metadata", ()), ("vmafx-idempotency-key", key))
        return self.call("SubmitJob", pb.SubmitJobRequest(scoring=scoring), **options)

    def get(self, job_id: str, **options: Any) -> Any:
        return self.call("GetJob", pb.GetJobRequest(job_id=job_id), **options)

    def cancel(self, job_id: str, **options: Any) -> Any:
        return self.call("CancelJob", pb.CancelJobRequest(job_id=job_id), **options)

    def stream(
        self,
        *statuses: int,
        follow: bool = False,
        timeout_s: float | None = TIMEOUT_S,
        metadata: Metadata = (),
    ) -> Any:
        """Begin a `StreamJobs`: the jobs, and with `follow` what becomes of them."""
        ask = self.channel.unary_stream(
            f"/{SERVICE}/StreamJobs",
            request_serializer=_written,
            response_deserializer=pb.Job.FromString,
        )
        told = (("vmafx-follow", "true"),) if follow else ()
        request = pb.StreamJobsRequest()
        request.status_filter.extend(statuses)
        return ask(request, timeout=timeout_s, metadata=(*self.metadata, *told, *metadata))

    # ------------------------------------------------------------ nodes

    def register(
        self, name: str, *, capability: pb.NodeCapability = CPU, instance: str | None = None, **options: Any
    ) -> Any:
        if instance is not None:
            options["metadata"] = (*options.get("metadata", ()), ("vmafx-instance", instance))
        return self.call("RegisterNode", pb.RegisterNodeRequest(name=name, capability=capability), **options)

    async def session(self, name: str = "node-a", **options: Any) -> dict[str, str]:
        """Register, and return the fields that show the session in other requests of nodes."""
        answer = await self.register(name, **options)
        return {"node_id": answer.node_id, "session_token": answer.session_token}

    def heartbeat(
        self, session: Mapping[str, str], *job_ids: str, jobs_running: int | None = None, **options: Any
    ) -> Any:
        count = len(job_ids) if jobs_running is None else jobs_running
        request = pb.HeartbeatRequest(**session, jobs_running=count, running_job_ids=job_ids)
        return self.call("Heartbeat", request, **options)

    def pull(self, session: Mapping[str, str], *, capability: pb.NodeCapability = CPU, **options: Any) -> Any:
        return self.call("PullWork", pb.PullWorkRequest(**session, capability=capability), **options)

    def report(  # one argument per field
        self,
        session: Mapping[str, str],
        job_id: str,
        score: float = 0.0,
        *,
        features: Mapping[str, float] | None = None,
        error: str = "",
        final: bool = True,
        partial_scores: Iterable[float] = (),
        attempt: int | str | None = None,
        retryable: str | None = None,
        **options: Any,
    ) -> Any:
        request = pb.ReportResultRequest(
            **session,
            job_id=job_id,
            final=final,
            score=score,
            features=features,
            partial_scores=partial_scores,
            error=error,
        )
        told: Metadata = () if attempt is None else (("vmafx-attempt", str(attempt)),)
        if retryable is not None:
            told = (*told, ("vmafx-retryable", retryable))
        options["metadata"] = (*options.get("metadata", ()), *told)
        return self.call("ReportResult", request, **options)


@asynccontextmanager
async def wire_client(
    address: str,
    *,
    credentials: grpc.ChannelCredentials | None = None,
    token: str | None = None,
    metadata: Metadata = (),
    options: tuple[tuple[str, Any], ...] = (),
) -> AsyncGenerator[WireClient, None]:
    """A client of the server at `host:port`, over a channel of its own."""
    options = (("grpc.use_local_subchannel_pool", 1), *options)
    if credentials is None:
        channel = grpc.aio.insecure_channel(address, options=options)
    else:
        channel = grpc.aio.secure_channel(address, credentials, options=options)
    async with channel:
        yield WireClient(channel, token=token, metadata=metadata)


async def refusal(call: Any) -> tuple[str, str]:
    """Await a unary call that must fail, and return its code and its message."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return refused.value.code().name, refused.value.details()


async def raw_pull(address: str) -> asyncio.StreamWriter:
    """Send an empty PullWork to `host:port` over a mere socket: it answers nothing, and may just break."""

    def text(name: str, value: str) -> bytes:
        return b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()

    def frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
        head = len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
        return head + content

    host, port = address.split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    headers = b"".join(
        (
            text(":method", "POST"),
            text(":scheme", "http"),
            text(":path", "/vmafx.controller.v1.VmafxController/PullWork"),
            text(":authority", "test"),
            text("content-type", "application/grpc"),
            text("te", "trailers"),
        )
    )
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
    writer.write(frame(1, 4, 1, headers) + frame(0, 1, 1, b"\x00\x00\x00\x00\x00"))
    await writer.drain()
    return writer


def _written(request: Message | bytes) -> bytes:
    return request if isinstance(request, bytes) else request.SerializeToString()
