"""Runs `vmafx-node` and the controller it works for, each in a process of its own, and watches both."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from tests.e2e.logged import LoggedProcess
from tests.e2e.program import HANG_S, Program, alive, processes_with

__all__ = ["NODE", "ControllerProcess", "NodeProcess"]

NODE: Final = Path(sys.executable).parent / "vmafx-node"
_ROOT: Final = Path(__file__).parents[2]


class ControllerProcess:
    """`tests.controller_server` as a process; `do` gives it a command."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.controller_server", *arguments],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.address = self._line().strip()

    def do(self, do: str, **words: object) -> dict[str, Any]:
        """Return the answer to a command; one that fails is the test's failure."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **words}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self._line())
        assert answer.pop("ok"), answer
        return answer

    def submit(self, folder: Path, reference: str = "ref.y4m", distorted: str = "dis.y4m", **more) -> str:
        """Hand in a job about two clips of a folder."""
        return self.do(
            "submit", reference=str(folder / reference), distorted=str(folder / distorted), **more
        )["job"]

    def calls(self, call: str) -> int:
        """How many of a call came so far."""
        return self.do("calls")["received"].get(call, 0)

    def end(self) -> None:
        """End it, however it is."""
        self.process.kill()
        self.process.communicate()

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the controller's process ended"
        return line


class NodeProcess(LoggedProcess):
    """A `vmafx-node`; its log goes to a file, and every line of it must be a record."""

    def __init__(
        self,
        program: Program,
        address: str,
        *,
        number: int = 0,
        command: tuple[str, ...] = (str(NODE),),
        **settings: str,
    ) -> None:
        super().__init__(program, f"node-{number}", command, node_settings(address, number) | settings)

    def left(self) -> list[str]:
        """Processes and temporary files of it."""
        processes = [str(pid) for pid in self.descendants() if alive(pid)]
        return processes + [path.name for path in self.temporary.iterdir()]

    def descendants(self) -> list[int]:
        """The processes that it started, and those that they started, dead ones not counted."""
        return [pid for pid in processes_with(self.temporary) if pid != self.process.pid]

    def end(self) -> None:
        """End it, however it is, and see that nothing stays."""
        super().end()
        end = time.monotonic() + HANG_S
        while any(alive(pid) for pid in self.descendants()):
            assert time.monotonic() < end, "a process of an ended node runs on"
            time.sleep(0.01)


def node_settings(address: str, number: int = 0) -> dict[str, str]:
    """The settings of a node that beats and pulls often."""
    return {
        "VMAFX_CONTROLLER_ADDR": address,
        "VMAFX_CONTROLLER_HEARTBEAT_INTERVAL": "200ms",
        "VMAFX_CONTROLLER_POLL_INTERVAL": "50ms",
        "VMAFX_NODE_ID": f"node-{number}",
    }
