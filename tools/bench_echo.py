"""A server that answers a controller's calls and does nothing: what gRPC alone costs.

It speaks the controller's messages, and its answers are as long as a controller's. Its port is its first line
on standard output; it runs until it is killed.
"""

from __future__ import annotations

import asyncio

import grpc
import grpc.aio
from google.protobuf.message import Message

from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb

SERVICE = "vmafx.controller.v1.VmafxController"
ID = "0d9d3f1e-6c0b-4f7e-9d39-8f7d3c1f2a5b"
JOB = pb.Job(
    id=ID,
    status=pb.JobStatus.RUNNING,
    scoring=pb.ScoringParams(reference="/clips/reference.y4m", distorted="/clips/distorted.y4m"),
    assigned_node="node-0",
    created_at=1_900_000_000,
    updated_at=1_900_000_000,
    scoring_roots=["/clips"],
)


async def main() -> None:
    server = grpc.aio.server()
    handlers = {
        "SubmitJob": handler(pb.SubmitJobRequest, pb.SubmitJobResponse(job_id=ID)),
        "RegisterNode": handler(
            pb.RegisterNodeRequest, pb.RegisterNodeResponse(node_id=ID, session_token="x" * 43)
        ),
        "PullWork": handler(pb.PullWorkRequest, pb.PullWorkResponse(job=JOB)),
        "ReportResult": handler(pb.ReportResultRequest, pb.ReportResultResponse(ok=True)),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


def handler(request: type[Message], answer: Message) -> grpc.RpcMethodHandler[Message, Message]:
    async def answering(_request: Message, _context: object) -> Message:
        return answer

    return grpc.unary_unary_rpc_method_handler(
        answering, request_deserializer=request.FromString, response_serializer=type(answer).SerializeToString
    )


if __name__ == "__main__":
    asyncio.run(main())
