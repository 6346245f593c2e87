"""Server reflection: which services there are, and what their messages look like (ADR 0026)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Collection, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FileDescriptor
from grpc_reflection.v1alpha import reflection_pb2 as pb
from grpc_reflection.v1alpha.reflection import aio

from vmafx.adapters.grpc.calls import Context, Incoming, Method, Stream, read
from vmafx.adapters.grpc.waits import Waits

if TYPE_CHECKING:
    from vmafx.adapters.grpc.calls import ServicePart

__all__ = ["REFLECTION_SERVICE", "Reflection"]

REFLECTION_SERVICE: Final = "grpc.reflection.v1alpha.ServerReflection"

_Answers: TypeAlias = Callable[
    [AsyncIterable[pb.ServerReflectionRequest], Context], AsyncGenerator[pb.ServerReflectionResponse]
]


class Reflection:
    """The one call of the reflection service.

    It tells of the services it was given and of itself, and of nothing else that the process has loaded.

    Args:
        services: The other services that are served; their messages are loaded.
    """

    def __init__(self, services: Collection[str]) -> None:
        names = (*services, REFLECTION_SERVICE)
        servicer = aio.ReflectionServicer(names, pool=_pool_of(names))
        # The stubs take the generator for a coroutine, and leave its context without a type.
        self._answers = cast("_Answers", servicer.ServerReflectionInfo)  # pyright: ignore[reportUnknownMemberType]
        self._waits = Waits()

    def methods(self) -> Mapping[str, Method]:
        """Return the call."""
        return {f"/{REFLECTION_SERVICE}/ServerReflectionInfo": Stream(self._info, reads=True)}

    def end_waits(self) -> None:
        """End the calls: most wait for a question that does not come."""
        self._waits.end()

    async def drained(self) -> None:
        """Return at once: a call that has ended leaves nothing behind."""

    async def _info(self, call: Incoming) -> None:
        with self._waits.one():
            questions = _questions(call)
            async with aclosing(questions), aclosing(self._answers(questions, call.context)) as answers:
                async for answer in answers:
                    await call.send(answer)


async def _questions(call: Incoming) -> AsyncGenerator[pb.ServerReflectionRequest]:
    while isinstance(content := cast("object", await call.context.read()), bytes):  # else the end
        yield read(pb.ServerReflectionRequest, content)


def _pool_of(services: Collection[str]) -> descriptor_pool.DescriptorPool:
    """Return the files that define the services, with what they need."""
    loaded, pool = descriptor_pool.Default(), descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(file: FileDescriptor) -> None:
        if file.name not in added:
            added.add(file.name)
            for needed in file.dependencies:
                add(needed)
            pool.AddSerializedFile(file.serialized_pb)

    for service in services:
        add(loaded.FindServiceByName(service).file)
    return pool


if TYPE_CHECKING:
    _part: type[ServicePart] = Reflection
