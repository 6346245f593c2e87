"""Everything that a server serves, behind one gate (ADR 0026)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NoReturn, TypeAlias

import grpc

from vmafx.adapters.grpc.calls import Context, Incoming, Method, ServicePart, Stream, Unary
from vmafx.adapters.grpc.gate import Gate
from vmafx.adapters.grpc.status import wire_code
from vmafx.domain.errors import VmafxError
from vmafx.domain.refusals import refusal_of
from vmafx.ports.telemetry import Level, Telemetry

__all__ = ["CALL_FAILED", "Services"]

CALL_FAILED: Final = "call failed unexpectedly"
"""The log message of a call whose work raised what it must not."""

_Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"


class Services(grpc.GenericRpcHandler):
    """The methods of some parts; a call reaches its method through the gate, or not at all.

    A method of no part is answered `UNIMPLEMENTED` by grpc itself. A caller that goes away, or whose deadline
    passes, cancels the work.

    Args:
        gate: Lets calls pass.
        parts: The parts, which have no method in common.
        telemetry: Is told of errors that nobody foresaw; callers are told nothing of them.

    Raises:
        ValueError: Two parts have a method in common; names it.
    """

    def __init__(self, gate: Gate, *parts: ServicePart, telemetry: Telemetry) -> None:
        self._gate = gate
        self._telemetry = telemetry
        self._handlers: dict[str, _Handler] = {}
        for part in parts:
            for path, method in part.methods().items():
                if path in self._handlers:
                    raise ValueError(f"two parts serve {path}")
                self._handlers[path] = self._handler(path, method)

    @property
    def methods(self) -> frozenset[str]:
        """The paths of all methods that are served."""
        return frozenset(self._handlers)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> _Handler | None:
        """Return the handler of a call, as grpc asks for it; None when the method is not served."""
        return self._handlers.get(handler_call_details.method)

    def _handler(self, path: str, method: Method) -> _Handler:
        """Return the handler that does a method's work, or ends with the status of what it raises."""
        match method:
            case Unary():
                return grpc.unary_unary_rpc_method_handler(self._answering(path, method))
            case Stream(reads=True):
                return grpc.stream_stream_rpc_method_handler(self._streaming(path, method))
            case Stream():
                return grpc.unary_stream_rpc_method_handler(self._streaming(path, method))

    def _answering(self, path: str, method: Unary) -> Callable[[bytes, Context], Awaitable[bytes]]:
        async def answer(content: bytes, context: Context) -> bytes:
            try:
                message = await method.work(await self._admitted(path, content, context))
                return message.SerializeToString()
            except Exception as error:  # noqa: BLE001 - grpc would tell the caller whatever the error says
                return await self._refuse(path, error, context)

        return answer

    def _streaming(self, path: str, method: Stream) -> Callable[[object, Context], Awaitable[None]]:
        async def answer(content: object, context: Context) -> None:
            try:
                sent = content if isinstance(content, bytes) else b""
                await method.work(await self._admitted(path, sent, context))
            except Exception as error:  # noqa: BLE001 - the same
                await self._refuse(path, error, context)

        return answer

    async def _admitted(self, path: str, content: bytes, context: Context) -> Incoming:
        metadata = context.invocation_metadata() or ()
        caller = await self._gate.admit(path, metadata)
        return Incoming(caller=caller, content=content, metadata=metadata, context=context)

    async def _refuse(self, path: str, error: Exception, context: Context) -> NoReturn:
        if not isinstance(error, VmafxError):
            self._telemetry.event(Level.ERROR, CALL_FAILED, {"call": path}, error=error)
        refusal = refusal_of(error)
        await context.abort(wire_code(refusal.code), refusal.message)
