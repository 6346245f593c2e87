"""Stands in for the `vmaf` command and misbehaves in one chosen way; the standard library only.

The way is told by a JSON file beside it, named as it was called plus `.json`, so that it can be changed
between two runs and no environment needs to reach it. `FakeVmaf` makes such a pair of files.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

USAGE = (
    "Usage: vmaf [options]\n --reference/-r $path\n --distorted/-d $path\n --model/-m $params\n"
    " --output/-o $path\n --json\n --threads $n\n --subsample $n\n"
)


class FakeVmaf:
    """A fake that was put somewhere; `tell` changes its ways."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "vmaf"
        self.log = folder / "log"
        self._ways: dict[str, object] = {}
        script = Path(__file__).read_text(encoding="utf-8")
        self.path.write_text(f"#!{os.path.realpath(sys.executable)} -IS\n{script}", encoding="utf-8")
        self.path.chmod(0o755)
        self.tell()

    def tell(self, **ways: object) -> None:
        """Behave so from the next start on; what was told before and is not told now still holds."""
        self._ways |= ways
        told = {"mode": "ok", "log": str(self.log), "options": []} | self._ways
        self.path.with_name("vmaf.json").write_text(json.dumps(told), encoding="utf-8")

    def forget(self) -> None:
        """Behave well again, and forget every start."""
        self._ways.clear()
        for path in self.log.parent.glob("log*"):
            path.unlink()
        self.tell()

    def runs(self) -> list[dict[str, object]]:
        """Every start with clips so far: its process, arguments and environment."""
        if not self.log.exists():
            return []
        starts = [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]
        return [start for start in starts if "-r" in start["arguments"]]


@dataclass(frozen=True)
class Run:
    """One start: what was told, where the report goes, and what it would hold."""

    ways: Mapping[str, Any]
    output: Path
    report: bytes

    def write(self) -> None:
        """Leave the report."""
        self.output.write_bytes(self.report)

    def write_half(self) -> None:
        """Leave the first half of the report."""
        self.output.write_bytes(self.report[: len(self.report) // 2])


def main() -> int:
    """Behave as told."""
    ways = json.loads(Path(sys.argv[0] + ".json").read_text(encoding="utf-8"))
    arguments = sys.argv[1:]
    with Path(ways["log"]).open("a", encoding="utf-8") as log:
        start = {"pid": os.getpid(), "arguments": arguments, "environment": dict(os.environ)}
        log.write(json.dumps(start) + "\n")
    if "--version" in arguments:
        say(ways.get("version", "fake 0.0"))
        return 0
    if "-r" not in arguments:
        say(USAGE + "".join(f" --{option} $value\n" for option in ways["options"]))
        if ways["mode"] == "mute":
            time.sleep(600)
        return 1
    if "--progress-fd" in arguments:
        descriptor = int(arguments[arguments.index("--progress-fd") + 1])
        os.write(descriptor, ways.get("progress", "frame=2\nframe=1\nrubbish\nframe=4\n").encode())
    output = Path(arguments[arguments.index("-o") + 1])
    run = Run(ways=ways, output=output, report=Path(ways["report"]).read_bytes())
    status = MODES[ways["mode"]](run)
    if status is not None:
        return status
    run.write()
    return 0


def say(text: str) -> None:
    """Write a line to standard error."""
    os.write(2, text.encode() + b"\n")


def no_report(run: Run) -> int:
    """Say why and leave with 0, as the real command does when the disk is full."""
    say(f"could not open file: {run.output}")
    return 0


def fails(_: Run) -> int:
    """Refuse the pair."""
    say("dimensions do not match: 64x48, 48x64\nvideos are incompatible, 1 problem.")
    return 255


def says(run: Run) -> int:
    """Fail with words of the test's choice."""
    os.write(2, run.ways["words"].encode("utf-8", errors="surrogateescape"))
    return 3


def fails_after_report(run: Run) -> int:
    """Leave a good report, and fail."""
    run.write()
    say("problem after the report")
    return 1


def dies(run: Run) -> int:
    """Leave half a report and die of a signal."""
    run.write_half()
    os.kill(os.getpid(), run.ways["signal"])
    return 0


def stays(run: Run) -> None:
    """Say that it is ready, and never end."""
    Path(run.ways["log"] + ".ready").touch()
    time.sleep(600)


def waits(run: Run) -> None:
    """Say that it is ready, and end well once the file of the test's choice is there."""
    Path(run.ways["log"] + ".ready").touch()
    while not Path(run.ways["until"]).exists():
        time.sleep(0.005)


def ignores_term(run: Run) -> None:
    """Stay, whatever signal says to go."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stays(run)


def stuck_after(run: Run) -> None:
    """Leave a good report, and stay."""
    run.write()
    say("Error reading YUV frame data.")
    stays(run)


def floods(_: Run) -> None:
    """Write 8 MB of progress without a line end."""
    for _number in range(200):
        os.write(2, b"\r000001 frames 0000000000000000 FPS\x1b[K" * 1000)


def bad_bytes(_: Run) -> None:
    """Say something that is no UTF-8."""
    os.write(2, b"could not open file: latin1-\xe9t\xe9-\xff\xfe.y4m\n")


def grandchild(run: Run) -> None:
    """Leave a process behind that keeps every descriptor open."""
    if os.fork() == 0:
        if run.ways.get("new_session"):
            os.setsid()
        with Path(run.ways["log"] + ".grandchild").open("w", encoding="utf-8") as file:
            file.write(str(os.getpid()))
        time.sleep(600)
        os._exit(0)
    while not Path(run.ways["log"] + ".grandchild").exists():
        time.sleep(0.005)


def changes(run: Run) -> None:
    """Do something to a clip while it is scored."""
    clip = Path(run.ways["clip"])
    match run.ways["change"]:
        case "grown":
            with clip.open("ab") as file:
                file.write(b"more")
        case "truncated":
            os.truncate(clip, clip.stat().st_size - 1)
        case "replaced":
            other = clip.with_suffix(".new")
            other.write_bytes(clip.read_bytes())
            other.replace(clip)
        case "touched":
            os.utime(clip, ns=(1, 1))
        case "removed":
            clip.unlink()
        case how:
            raise ValueError(how)


def huge(run: Run) -> int:
    """Leave a report of over 100 MB that is about the same frames."""
    with run.output.open("wb") as file:
        file.write(b'{"provenance": "' + b"x" * (8 << 20) + b'",')
        file.writelines(b" " * (1 << 20) for _ in range(95))
        file.write(run.report.lstrip()[1:])
    return 0


def too_large(run: Run) -> int:
    """Leave a report of so many bytes, of which no block is written."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    with run.output.open("wb") as file:
        file.truncate(run.ways["bytes"])
    return 0


MODES: Mapping[str, Callable[[Run], int | None]] = {
    "bad_bytes": bad_bytes,
    "changes": changes,
    "dies": dies,
    "fails": fails,
    "fails_after_report": fails_after_report,
    "floods": floods,
    "grandchild": grandchild,
    "huge": huge,
    "ignores_term": ignores_term,
    "no_report": no_report,
    "ok": lambda _: None,
    "says": says,
    "stays": stays,
    "stuck_after": stuck_after,
    "too_large": too_large,
    "waits": waits,
}

if __name__ == "__main__":
    sys.exit(main())
