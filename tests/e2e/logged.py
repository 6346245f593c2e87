"""A program of ours that writes its log into a file, run as a process of its own and watched."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from signal import SIGTERM, Signals
from typing import Any, Final

from tests.e2e.program import HANG_S, Program, eventually

__all__ = ["LoggedProcess"]

_LEVELS: Final = {"DEBUG", "INFO", "WARN", "ERROR"}


class LoggedProcess:
    """A program whose log goes to a file; every line of it must be a record."""

    def __init__(
        self, program: Program, name: str, command: Sequence[str], settings: Mapping[str, str]
    ) -> None:
        # Everything that it starts has this folder for temporary files, and so can be told from others.
        self.temporary = program.temporary / name
        self.temporary.mkdir()
        self.log = program.folder / f"{name}.log"
        environment = {**program.environment, "TMPDIR": str(self.temporary), **settings}
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
        """What is left of it."""
        return [path.name for path in self.temporary.iterdir()]

    def end(self) -> None:
        """End it, however it is."""
        self.process.kill()
        self.process.wait(HANG_S)
