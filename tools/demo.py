"""Scores a real pair of clips twice: through a controller and a node, and directly; both give the same score.

Everything is made here: the clips (a moving pattern, and its low-bitrate encode decoded again), the database,
and the two programs, which are stopped at the end, also by Ctrl-C.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import grpc
from google.protobuf.message import Message

from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb
from vmafx.adapters.vmaf_cli.engine_ffmpeg import ffmpeg_path
from vmafx.domain.errors import ScorerUnavailableError

Answer = TypeVar("Answer", bound=Message)

FOLDER: Final = Path("build/demo")
PATTERN: Final = "testsrc2=size=320x240:rate=25:duration=2"
BITRATE: Final = "150k"
PROGRAMS: Final = Path(sys.executable).parent
SERVICE: Final = "/vmafx.controller.v1.VmafxController/"
PATIENCE_S: Final = 60.0
"""How long the job may take, from its submission to its score."""


def main() -> int:
    """Score the pair in both ways; returns 0 when the scores are equal."""
    try:
        reference, distorted = make_clips(FOLDER)
    except ScorerUnavailableError as error:
        return fail(f"there is no FFmpeg to make the clips with: {error.problem}")
    with tempfile.TemporaryDirectory(prefix="vmafx-demo-") as folder:
        job = score_with_a_node(reference.resolve(), distorted.resolve(), Path(folder))
    if job is None or job.status != pb.COMPLETED:
        return fail("the job was not scored" if job is None else f"the job failed: {job.error}")

    words = ["score", str(reference), str(distorted)]
    say("$ vmafx", *words)
    shown = subprocess.run([PROGRAMS / "vmafx", *words], check=False, stdout=subprocess.PIPE, text=True)
    say(shown.stdout.rstrip())
    if shown.returncode != 0:
        return shown.returncode
    directly = shown.stdout.split()[1]
    if f"{job.final_score:.6f}" != directly:
        return fail(f"the node reported {job.final_score:.6f}, not {directly}")
    say(f"The node reported the same score: {directly}")
    return 0


def score_with_a_node(reference: Path, distorted: Path, folder: Path) -> pb.Job | None:
    """Start a controller and a node, hand a job in, and return it once it has ended, if it does."""
    calls, pages = free_addresses()
    controller = {
        "VMAFX_AUTH_DISABLED": "true",  # this version verifies no tokens, and wants that to be known
        "VMAFX_GRPC_LISTEN": calls,
        "VMAFX_HTTP_ADDR": pages,
        "VMAFX_DB_PATH": str(folder / "jobs.db"),
        "VMAFX_SCORING_ROOTS": str(reference.parent),  # jobs may name clips in there and nowhere else
    }
    node = {"VMAFX_CONTROLLER_ADDR": calls, "VMAFX_NODE_ID": "demo-node"}
    with (
        running("vmafx-controller", controller, folder),
        running("vmafx-node", node, folder),
        grpc.insecure_channel(calls, options=[("grpc.enable_http_proxy", 0)]) as channel,
    ):
        scoring = pb.ScoringParams(reference=str(reference), distorted=str(distorted))
        submitted = call(channel, "SubmitJob", pb.SubmitJobRequest(scoring=scoring), pb.SubmitJobResponse)
        say(f"submitted  job {submitted.job_id}")
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            job = call(channel, "GetJob", pb.GetJobRequest(job_id=submitted.job_id), pb.Job)
            if job.status not in {pb.PENDING, pb.RUNNING}:
                say(f"ended      {pb.JobStatus.Name(job.status)}, scored by {job.assigned_node}")
                return job
            time.sleep(0.05)
    return None


def call(channel: grpc.Channel, name: str, request: Message, answer: type[Answer]) -> Answer:
    """Make one call of a client; it waits for a controller that still starts."""
    method = channel.unary_unary(SERVICE + name, type(request).SerializeToString, answer.FromString)
    return method(request, timeout=PATIENCE_S, wait_for_ready=True)


@contextmanager
def running(program: str, settings: dict[str, str], folder: Path) -> Generator[None]:
    """Run a program for the body, then stop it as an operator would; its log is shown when it fails."""
    words = " ".join(f"{name}={value}" for name, value in settings.items())
    say(f"$ {words} {program}")
    ours = {name: value for name, value in os.environ.items() if not name.startswith("VMAFX_")}
    log = folder / f"{program}.log"
    with (
        log.open("wb") as output,
        subprocess.Popen([PROGRAMS / program], env=ours | settings, stdout=output, stderr=output) as process,
    ):
        try:
            yield
        finally:
            if process.poll() is None:
                process.terminate()
            try:
                code = process.wait(PATIENCE_S)
            except BaseException:  # a second Ctrl-C, too: nothing stays behind
                process.kill()
                raise
            if code != 0:
                say(log.read_text(encoding="utf-8", errors="replace"))


def free_addresses() -> tuple[str, str]:
    """Two addresses of this machine that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        first, second = (f"127.0.0.1:{each.getsockname()[1]}" for each in (one, other))
    return first, second


def make_clips(folder: Path) -> tuple[Path, Path]:
    """Make the pair in a folder, unless it is there; returns the reference and the distorted clip."""
    folder.mkdir(parents=True, exist_ok=True)
    reference, encoded, distorted = (folder / name for name in ("ref.y4m", "encoded.mp4", "dis.y4m"))
    ffmpeg = ffmpeg_path()
    y4m = ["-pix_fmt", "yuv420p", "-fps_mode", "passthrough", "-f", "yuv4mpegpipe"]
    if not reference.exists():
        run(ffmpeg, "-f", "lavfi", "-i", PATTERN, *y4m, to=reference)
    if not distorted.exists():
        codec = ["-c:v", "libx264", "-preset", "veryfast", "-b:v", BITRATE, "-f", "mp4"]
        run(ffmpeg, "-i", str(reference), *codec, to=encoded)
        run(ffmpeg, "-i", str(encoded), *y4m, to=distorted)
    return reference, distorted


def run(ffmpeg: str, *arguments: str, to: Path) -> None:
    """Run FFmpeg so that its output is there as a whole or not at all."""
    unfinished = to.with_suffix(".part")
    command = [ffmpeg, "-nostdin", "-hide_banner", "-loglevel", "error", "-y", *arguments, str(unfinished)]
    subprocess.run(command, check=True)
    os.replace(unfinished, to)  # noqa: PTH105 - says what it does


def say(*words: str) -> None:
    print(*words, flush=True)


def fail(problem: str) -> int:
    print(f"demo: {problem}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    try:
        code = main()
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
