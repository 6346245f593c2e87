"""What starting up costs, as medians of runs taken in turns: absolute times mean little on a shared machine.

`vmafx score` is compared with the bare executable that it runs, on the clips of the demo.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from demo import FOLDER, make_clips

from vmafx.adapters.vmaf_cli.engine_ffmpeg import find_engine

RUNS: Final = 5
SCORE_OVERHEAD_MAX_S: Final = 0.35
IMPORT_MAX_S: Final = 0.15
BIN: Final = Path(sys.executable).parent


def main() -> int:
    """Measure and print a table; returns 1 when an aim is missed."""
    reference, distorted = make_clips(FOLDER)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "import vmafx": [sys.executable, "-c", "import vmafx"],
            "vmafx --version": [str(BIN / "vmafx"), "--version"],
            "bare executable": bare(reference, distorted, report),
            "vmafx score": [str(BIN / "vmafx"), "score", str(reference), str(distorted)],
        }
        medians = measure({name: runner(command) for name, command in commands.items()})
    return show(medians)


def bare(reference: Path, distorted: Path, report: Path) -> Sequence[str]:
    """The command that `vmafx score` runs, without anything around it."""
    engine = find_engine()
    if isinstance(engine, str):
        sys.exit(f"bench: {engine}")
    clips = ["-r", str(reference), "-d", str(distorted), "-m", "version=vmaf_v0.6.1"]
    return [*engine.argv, *clips, "-o", str(report), "--json", "--threads", "2"]


def runner(command: Sequence[str]) -> Callable[[], None]:
    """Something that runs the command once."""

    def run() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return run


def measure(what: Mapping[str, Callable[[], None]]) -> dict[str, float]:
    """The median time of each, in seconds; one run of all to warm up, then all in turns."""
    times: dict[str, list[float]] = {name: [] for name in what}
    for number in range(RUNS + 1):
        for name, run in what.items():
            start = time.perf_counter()
            run()
            if number:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) for name, taken in times.items()}


def show(medians: Mapping[str, float]) -> int:
    """Print the table and what became of the aims."""
    for name, seconds in medians.items():
        print(f"{name:<20} {seconds * 1000:8.1f} ms")
    aims = [
        (
            "vmafx score over the bare executable",
            medians["vmafx score"] - medians["bare executable"],
            SCORE_OVERHEAD_MAX_S,
        ),
        ("import vmafx over bare Python", medians["import vmafx"] - medians["python -c pass"], IMPORT_MAX_S),
    ]
    missed = 0
    for name, seconds, limit in aims:
        verdict = " MISSED" if seconds > limit else ""
        missed += bool(verdict)
        print(f"{name}: +{seconds * 1000:.1f} ms, aim {limit * 1000:.0f} ms{verdict}")
    ratio = medians["vmafx score"] / medians["bare executable"]
    print(f"vmafx score / bare executable: {ratio:.2f}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
