"""What tests of the command line scorer share: scorers, requests, and a look at what a run left behind."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests import clips
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.processes.posix import PosixProcesses
from vmafx.adapters.vmaf_cli.options import ScorerOptions
from vmafx.adapters.vmaf_cli.scorer import CliScorer
from vmafx.domain.scoring import ClipFile, ScoreRequest

RUN_IDS = f"vmafx-test-{os.getpid()}-"
"""What the ids of all runs of this test session begin with."""


def cli_scorer(*, environment: Mapping[str, str] | None = None, **options: Any) -> CliScorer:
    """A scorer as programs make it."""
    clock = SystemClock()
    return CliScorer(
        ScorerOptions(environment=dict(os.environ) if environment is None else environment, **options),
        processes=PosixProcesses(clock),
        clock=clock,
        new_run_id=lambda: RUN_IDS + secrets.token_hex(8),
    )


def clip(path: Path, data: bytes | None = None) -> ClipFile:
    """A clip by path, written first when there is data."""
    if data is not None:
        path.write_bytes(data)
    return ClipFile(path=str(path), name=path.name)


def plain_request(folder: Path, **parts: Any) -> ScoreRequest:
    """The plain pair, in the folder."""
    return pair_request(folder, plain(distorted=False), plain(distorted=True), **parts)


@cache
def plain(*, distorted: bool) -> bytes:
    """One clip of the plain pair."""
    return clips.y4m(distorted=distorted)


def pair_request(folder: Path, reference: bytes, distorted: bytes, **parts: Any) -> ScoreRequest:
    """Two clips, in the folder."""
    return ScoreRequest(
        reference=clip(folder / "ref.y4m", reference), distorted=clip(folder / "dis.y4m", distorted), **parts
    )


def endless_request(folder: Path, **parts: Any) -> ScoreRequest:
    """A pair that takes minutes: black pictures of 1080p in a file with holes, which takes no space."""
    path = folder / "endless.y4m"
    frame_bytes = 1920 * 1080 * 3 // 2
    with path.open("wb") as file:
        file.write(b"YUV4MPEG2 W1920 H1080 F25:1 Ip C420\n")
        for _ in range(2000):
            file.write(b"FRAME\n")
            file.seek(frame_bytes, os.SEEK_CUR)
        file.truncate(file.tell())
    return ScoreRequest(reference=clip(path), distorted=clip(path), **parts)


def descriptors() -> dict[str, str]:
    """The open descriptors of this process and what they are."""
    found: dict[str, str] = {}
    for entry in Path("/dev/fd").iterdir():
        try:
            found[entry.name] = str(entry.readlink())
        except OSError:  # the descriptor of the listing itself
            continue
    return {number: what for number, what in found.items() if not what.startswith(("/proc/", "/dev/fd"))}


def processes_of_runs() -> list[str]:
    """The processes that carry the id of a run, or were children of this one and are not reaped."""
    found: list[str] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            if RUN_IDS.encode() in (folder / "environ").read_bytes():
                found.append(f"{folder.name} carries a run")
            elif state[1] == str(os.getpid()) and state[0] == "Z":
                found.append(f"{folder.name} was not reaped")
        except OSError:  # gone meanwhile
            continue
    return found
