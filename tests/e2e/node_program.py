"""Runs `vmafx-node` and the controller it works for, each in a process of its own, and watches both."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from signal import SIGTERM, Signals
from typing import Any, Final

from tests.e2e.program import HANG_S, Program, alive, eventually

__all__ = ["NODE", "ControllerProcess", "NodeProcess"]

NODE: Final = Path(sys.executable).parent / "vmafx-node"
_ROOT: Final = Path(__file__).parents[2]
_LEVELS: Final = {"DEBUG", "INFO", "WARN", "ERROR"}


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


class NodeProcess:
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
        # Everything that the node starts has this folder for temporary files, and so can be told from others.
        self.temporary = program.temporary / f"node-{number}"
        self.temporary.mkdir()
        self.log = program.folder / f"node-{number}.log"
        environment = program.environment | {"TMPDIR": str(self.temporary)}
        environment |= node_settings(address, number) | settings
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, env=environment, cwd=program.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def records(self) -> list[dict[str, Any]]:
        """What it logged so far; a line that is no record is the test's failure."""
        whole = self.log.read_bytes().rpartition(b"\n")[0]
        records = [json.loads(line) for line in whole.splitlines()]
        for record in records:
            assert record["level"] in _LEVELS
            assert record["time"].endswith("Z")
            assert record["msg"]
        return records

    def told(self, message: str, **fields: object) -> list[dict[str, Any]]:
        """The records of a message that have these fields."""
        return [r for r in self.records() if r["msg"] == message and fields.items() <= r.items()]

    def wait_told(self, message: str, *, times: int = 1, **fields: object) -> list[dict[str, Any]]:
        """The same, once there are as many."""

        def so() -> bool:
            told = len(self.told(message, **fields)) >= times
            assert told or self.process.poll() is None, self.text()
            return told

        eventually(so, what=f"{message} {fields}")
        return self.told(message, **fields)

    def send(self, number: Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def wait(self) -> int:
        """Return its exit code, once it ended."""
        return self.process.wait(HANG_S)

    def stop(self, number: Signals = SIGTERM) -> int:
        """End it with a signal and return its exit code; nothing of it may be left then."""
        self.send(number)
        code = self.wait()
        assert self.left() == [], self.text()
        return code

    def text(self) -> str:
        """The whole log, for messages of tests."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def left(self) -> list[str]:
        """Processes and temporary files of it."""
        processes = [str(pid) for pid in self.descendants() if alive(pid)]
        return processes + [path.name for path in self.temporary.iterdir()]

    def descendants(self) -> list[int]:
        """The processes that it started, and those that they started, dead ones not counted."""
        mark = f"TMPDIR={self.temporary}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                marked = mark in path.read_bytes().split(b"\0")
            except OSError:  # gone meanwhile
                continue
            if marked and int(path.parent.name) != self.process.pid:
                found.append(int(path.parent.name))
        return found

    def end(self) -> None:
        """End it, however it is, and see that nothing stays."""
        self.process.kill()
        self.process.wait(HANG_S)
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
