"""What a node costs until it registers, and while it has nothing to do."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

__all__ = ["MIB", "Idle", "NodeBench"]

MIB: Final = 1024 * 1024
ROOT: Final = Path(__file__).parents[1]
NODE: Final = Path(sys.executable).parent / "vmafx-node"
SETTLE_S: Final = 2.0
IDLE_S: Final = 10.0
"""One look at an idle node: a heartbeat and two pulls that wait for work."""
LOOKS: Final = 5
END_MAX_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """What a node uses that is connected and has no job.

    Attributes:
        core_share: The share of one core, median of all looks.
        memory_bytes: Its resident memory.
    """

    core_share: float
    memory_bytes: int


class NodeBench:
    """Starts nodes against the tests' controller, which runs in a process of its own.

    Args:
        folder: Where the success of self-tests is remembered.
    """

    def __init__(self, folder: Path) -> None:
        self._cache = folder / "cache"
        self._registered = 0
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        self._controller = self._opened.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "tests.controller_server"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        self._address = self._line().strip()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._controller.kill()
        self._opened.close()

    def start_remembered(self) -> float:
        """Return the seconds from exec to the RegisterNode call, the self-test's success being remembered."""
        with self._node(self._cache) as (_, taken_s):
            return taken_s

    def start_tested(self) -> float:
        """Return the same, when the self-test has to run."""
        with tempfile.TemporaryDirectory() as cache, self._node(Path(cache)) as (_, taken_s):
            return taken_s

    def idle(self) -> Idle:
        """Return what a node uses while its pulls wait for work."""
        with self._node(self._cache) as (node, _):
            time.sleep(SETTLE_S)
            shares = [self._look(node.pid) for _ in range(LOOKS)]
            status = Path(f"/proc/{node.pid}/status").read_text(encoding="utf-8")
            (resident,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
        return Idle(core_share=statistics.median(shares), memory_bytes=int(resident.split()[1]) * 1024)

    @staticmethod
    def _look(pid: int) -> float:
        processor_clock = (~pid << 3) | 2  # as clock_getcpuclockid(3) makes it: Python has no call for that
        used_s, began_s = time.clock_gettime(processor_clock), time.perf_counter()
        time.sleep(IDLE_S)
        return (time.clock_gettime(processor_clock) - used_s) / (time.perf_counter() - began_s)

    @contextmanager
    def _node(self, cache: Path) -> Generator[tuple[subprocess.Popen[bytes], float]]:
        """A node that has just registered, and how many seconds that took."""
        environment = {
            **os.environ,
            "VMAFX_CONTROLLER_ADDR": self._address,
            "XDG_CACHE_HOME": str(cache),
        }
        self._registered += 1
        start = time.perf_counter()
        with subprocess.Popen([str(NODE)], env=environment, stderr=subprocess.DEVNULL) as node:
            try:
                self._do("wait_calls", call="RegisterNode", count=self._registered)
                yield node, time.perf_counter() - start
            finally:
                node.terminate()
                node.wait(END_MAX_S)

    def _do(self, what: str, **words: object) -> None:
        assert self._controller.stdin is not None
        self._controller.stdin.write(json.dumps({"do": what, **words}) + "\n")
        self._controller.stdin.flush()
        answer = json.loads(self._line())
        if not answer["ok"]:
            sys.exit(f"bench: the controller: {answer['error']}")

    def _line(self) -> str:
        assert self._controller.stdout is not None
        return self._controller.stdout.readline()
