"""What starting up, idling and serving cost, as medians of runs taken in turns.

`vmafx score` is compared with the bare executable that it runs, on the clips of the demo, and a node with the
bare import of what it calls its controller with; its controller is that of the tests, in another process. The
SQLite store is compared with its SQL alone, and `vmafx-controller` with a gRPC server that only answers. Aims
are for a machine that does nothing else.
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

from bench_controller import rates, start_latencies
from bench_node import MIB, NodeBench
from bench_store import claim_costs, cycle_rates
from demo import FOLDER, make_clips

from vmafx.adapters.vmaf_cli.engine_ffmpeg import find_engine

RUNS: Final = 5
SCORE_OVERHEAD_MAX_S: Final = 0.35
IMPORT_MAX_S: Final = 0.15
NODE_REMEMBERED_MAX_S: Final = 1.0
NODE_TESTED_MAX_S: Final = 2.0
NODE_IDLE_MAX: Final = 0.005
NODE_MEMORY_MAX_BYTES: Final = 90 * MIB
ECHO_SHARES_MIN: Final = {1: 0.60, 8: 0.45, 64: 0.45}
"""What share of the rate of a server that only answers the controller reaches, by calls in flight."""
DEPTHS: Final = (1000, 100_000, 1_000_000)
DEPTH_MAX: Final = 1.3
"""How many times as much a claim costs when the most jobs are pending."""
START_MAX_S: Final = 0.020
REMEMBERED: Final = "node to RegisterNode, self-test remembered"
TESTED: Final = "node to RegisterNode, self-test run"
BIN: Final = Path(sys.executable).parent


def main() -> int:
    """Measure and print a table; returns 1 when an aim is missed."""
    reference, distorted = make_clips(FOLDER)
    with tempfile.TemporaryDirectory() as folder, NodeBench(Path(folder)) as node:
        report = Path(folder) / "report.json"
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "import vmafx": [sys.executable, "-c", "import vmafx"],
            "import grpc.aio": [sys.executable, "-c", "import grpc.aio"],
            "vmafx --version": [str(BIN / "vmafx"), "--version"],
            "bare executable": bare(reference, distorted, report),
            "vmafx score": [str(BIN / "vmafx"), "score", str(reference), str(distorted)],
        }
        runs = {name: runner(command) for name, command in commands.items()}
        medians = measure(runs | {REMEMBERED: node.start_remembered, TESTED: node.start_tested})
        idle = node.idle()
    missed = show(medians)
    print(f"idle node: {idle.core_share:.3%} of a core, {idle.memory_bytes / MIB:.1f} MiB resident")
    missed += verdict("idle node, share of a core", idle.core_share * 100, NODE_IDLE_MAX * 100, "%")
    missed += verdict("idle node, resident", idle.memory_bytes / MIB, NODE_MEMORY_MAX_BYTES / MIB, "MiB")
    missed += serving()
    return 1 if missed else 0


def serving() -> int:
    """Measure the store and the controller, and print a table; returns how many aims were missed."""
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        for callers, (store, sql) in cycle_rates(Path(folder)).items():
            print(
                f"SQLite store, {callers} callers: {store:.0f} cycles/s, its SQL {sql:.0f}: {store / sql:.2f}"
            )
        costs = claim_costs(Path(folder), DEPTHS)
        for depth, cost_s in costs.items():
            print(f"claim with {depth} pending jobs: {cost_s * 1000:.2f} ms")
        ratio = costs[DEPTHS[-1]] / costs[DEPTHS[0]]
        missed += verdict(f"claim with {DEPTHS[-1]} over {DEPTHS[0]} pending jobs", ratio, DEPTH_MAX, "times")
        starts = start_latencies(Path(folder))
        print(f"submit to start, idle, slowest of 100: {starts[-1] * 1000:.1f} ms")
        missed += verdict(
            "submit to start, idle, p50", statistics.median(starts) * 1000, START_MAX_S * 1000, "ms"
        )
        for name, by_calls in rates(Path(folder)).items():
            for calls, rate in by_calls.items():
                what = (
                    f"{name}, {calls} in flight: {rate.controller:.0f}/s, raw gRPC {rate.echo:.0f}/s; share"
                )
                share = rate.controller / rate.echo
                missed += verdict(what, share, ECHO_SHARES_MIN[calls], "of it", at_least=True)
    return missed


def bare(reference: Path, distorted: Path, report: Path) -> Sequence[str]:
    """The command that `vmafx score` runs, without anything around it."""
    engine = find_engine()
    if isinstance(engine, str):
        sys.exit(f"bench: {engine}")
    clips = ["-r", str(reference), "-d", str(distorted), "-m", "version=vmaf_v0.6.1"]
    return [*engine.argv, *clips, "-o", str(report), "--json", "--threads", "2"]


def runner(command: Sequence[str]) -> Callable[[], float]:
    """Something that runs the command once and returns how long it took, in seconds."""

    def run() -> float:
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.perf_counter() - start

    return run


def measure(what: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """The median time of each, in seconds; one run of all to warm up, then all in turns."""
    times: dict[str, list[float]] = {name: [] for name in what}
    for number in range(RUNS + 1):
        for name, run in what.items():
            taken_s = run()
            if number:
                times[name].append(taken_s)
    return {name: statistics.median(taken) for name, taken in times.items()}


def show(medians: Mapping[str, float]) -> int:
    """Print the table and what became of the aims; returns how many were missed."""
    width = max(map(len, medians))
    for name, seconds in medians.items():
        print(f"{name:<{width}} {seconds * 1000:8.1f} ms")
    overhead_s = medians["vmafx score"] - medians["bare executable"]
    import_s = medians["import vmafx"] - medians["python -c pass"]
    missed = verdict(
        "vmafx score over the bare executable", overhead_s * 1000, SCORE_OVERHEAD_MAX_S * 1000, "ms"
    )
    missed += verdict("import vmafx over bare Python", import_s * 1000, IMPORT_MAX_S * 1000, "ms")
    for name, limit_s in ((REMEMBERED, NODE_REMEMBERED_MAX_S), (TESTED, NODE_TESTED_MAX_S)):
        missed += verdict(name, medians[name] * 1000, limit_s * 1000, "ms")
    print(f"vmafx score / bare executable: {medians['vmafx score'] / medians['bare executable']:.2f}")
    print(f"node to RegisterNode / import grpc.aio: {medians[REMEMBERED] / medians['import grpc.aio']:.2f}")
    return missed


def verdict(name: str, value: float, limit: float, unit: str, *, at_least: bool = False) -> int:
    """Print a figure beside its aim; returns 1 when it is missed, else 0."""
    missed = value < limit if at_least else value > limit
    aim = f"aim {limit:.4g}{' or more' if at_least else ''}"
    print(f"{name}: {value:.4g} {unit}, {aim} {unit}{' MISSED' if missed else ''}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
