"""Runs of the embedded engine as a process of its own, and clips for them."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.clips import raw, y4m
from vmafx.adapters.vmaf_cli.engine_ffmpeg import ffmpeg_path

GUARD_S = 60.0
"""A limit on hangs in seconds; nothing is asserted about speed."""
ENGINE = (
    sys.executable,
    "-I",
    "-S",
    str(Path(__file__).parents[1] / "src/vmafx/adapters/vmaf_cli/engine.py"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended."""

    status: int
    err: str

    @property
    def refusal(self) -> str:
        """The one line of a run that ended before FFmpeg started."""
        assert self.status == 255, self
        assert self.err.startswith("vmafx-vmaf: "), self
        assert self.err.endswith("\n"), self
        assert self.err.count("\n") == 1, self
        return self.err.removeprefix("vmafx-vmaf: ").rstrip("\n")

    @property
    def misuse(self) -> str:
        """The last line of a run whose command line was refused."""
        assert self.status == 1, self
        assert self.err.startswith("usage: "), self
        return self.err.splitlines()[-1].removeprefix("vmafx-vmaf: ")


def engine(
    *arguments: str,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    descriptors: tuple[int, ...] = (),
    before: Callable[[], None] | None = None,
) -> Ended:
    """Run the engine to its end."""
    done = subprocess.run(
        [*ENGINE, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=os.environ | (environment or {}),
        pass_fds=descriptors,
        preexec_fn=before,
        timeout=GUARD_S,
        check=False,
    )
    return Ended(status=done.returncode, err=done.stderr.decode(errors="replace"))


def report_of(path: Path, frames: int | None = None) -> dict:
    """Return a report without what differs from run to run; check its number of frames."""
    report = json.loads(path.read_bytes())
    report.pop("fps", None)
    if frames is not None:
        assert len(report["frames"]) == frames
    return report


def mean(report: dict, name: str = "vmaf") -> float:
    """Return a pooled value of a report."""
    return report["pooled_metrics"][name]["mean"]


@cache
def clip(*, distorted: bool, **more) -> bytes:
    """Return a Y4M clip; made once for all tests."""
    return y4m(distorted=distorted, **more)


def whole_model() -> dict:
    """Return the smallest content of a model file that is whole; no real model."""
    return {
        "model_dict": {
            "feature_names": ["a", "b"],
            "slopes": [1.0, 2, 3.5],
            "intercepts": [0.0, 0, 0.5],
            "norm_type": "linear_rescale",
            "model": "svm_type nu_svr\nand so on",
        }
    }


@cache
def built_in_model() -> bytes:
    """Return the file of the model vmaf_v0.6.1, as it lies in the program of FFmpeg."""
    with (
        Path(ffmpeg_path()).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as program,
    ):
        name = program.find(b'"model_dict"')
        while name >= 0:
            text = program[program.rfind(b'"param_dict"', 0, name) : name + 100_000].decode("latin-1")
            model, end = json.JSONDecoder().raw_decode("{" + text)
            parts = model["model_dict"]
            if parts["feature_names"][0].startswith("VMAF_integer") and "feature_opts_dicts" not in parts:
                return ("{" + text)[:end].encode()
            name = program.find(b'"model_dict"', name + 1)
    raise AssertionError("there is no such model in FFmpeg")


class Pairs:
    """Writes pairs of clips into a folder and scores them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, data: bytes) -> str:
        """Write a file and return its path."""
        path = self.folder / name
        path.write_bytes(data)
        return str(path)

    def pair(self, *, other: Mapping[str, object] | None = None, **more) -> tuple[str, str]:
        """Write a pair, whose distorted clip may differ in `other`, and return its paths."""
        ref = self.write("ref.y4m", clip(distorted=False, **more))
        dis = self.write("dis.y4m", clip(distorted=True, **(more | (other or {}))))
        return ref, dis

    def raw_pair(self, **more) -> tuple[str, str]:
        """Write a pair of raw clips and return its paths."""
        ref = self.write("ref.yuv", raw(distorted=False, **more))
        return ref, self.write("dis.yuv", raw(distorted=True, **more))

    def run(self, ref: str, dis: str, *more: str, **how) -> Ended:
        """Score two files into `report.json`."""
        return engine("-r", ref, "-d", dis, "--json", "-o", str(self.folder / "report.json"), *more, **how)

    def score(self, ref: str, dis: str, *more: str, frames: int | None = None, **how) -> dict:
        """Score two files and return the report."""
        ended = self.run(ref, dis, *more, **how)
        assert ended.status == 0, ended
        return report_of(self.folder / "report.json", frames)


def through_pipes(reference: bytes, distorted: bytes, report: Path, *more: str) -> Ended:
    """Score two clips that come through pipes, each filled by a thread of its own."""
    ends = [os.pipe(), os.pipe()]
    command = [*ENGINE, "-r", f"/dev/fd/{ends[0][0]}", "-d", f"/dev/fd/{ends[1][0]}"]
    child = subprocess.Popen(
        [*command, "--json", "-o", str(report), *more],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=[ends[0][0], ends[1][0]],
    )
    for read_end, _ in ends:
        os.close(read_end)
    writers = [
        threading.Thread(target=_fill, args=(end[1], data), daemon=True)
        for end, data in zip(ends, (reference, distorted), strict=True)
    ]
    for writer in writers:
        writer.start()
    try:
        err = child.communicate(timeout=GUARD_S)[1]
    finally:
        child.kill()
        child.wait()
        for writer in writers:
            writer.join(GUARD_S)
    return Ended(status=child.returncode, err=err.decode(errors="replace"))


def _fill(descriptor: int, data: bytes) -> None:
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except BrokenPipeError:
        pass
    finally:
        os.close(descriptor)
