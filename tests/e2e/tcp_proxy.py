"""A cable between two programs that can be told to swallow what comes back, and to break."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

__all__ = ["TcpProxy"]

_CHUNK_BYTES = 65536


class TcpProxy:
    """Listens at `address` and passes everything on to `target` and back.

    Args:
        target: `host:port` of the program that is called.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._mute = threading.Event()
        self._lock = threading.Lock()
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def mute(self) -> None:
        """Pass nothing back to the caller any more; what is swallowed is lost."""
        self._mute.set()

    def cut(self) -> None:
        """Break all connections, and pass everything again on later ones."""
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._connections.clear()
            self._mute.clear()

    def close(self) -> None:
        """Break all connections and take no more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        self.cut()
        for thread in self._threads[1:]:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:  # closed
                return
            try:
                called = socket.create_connection(self._target)
            except OSError:
                caller.close()
                continue
            ends = (caller, called)
            with self._lock:
                self._connections += ends
            closing = threading.Barrier(2, action=lambda ends=ends: [end.close() for end in ends])
            for source, target in (ends, ends[::-1]):
                mute = self._mute if target is caller else threading.Event()
                thread = threading.Thread(target=_pump, args=(source, target, mute, closing))
                self._threads.append(thread)
                thread.start()


def _pump(
    source: socket.socket, target: socket.socket, mute: threading.Event, closing: threading.Barrier
) -> None:
    with suppress(OSError):
        while data := source.recv(_CHUNK_BYTES):
            if not mute.is_set():
                target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
    closing.wait()
