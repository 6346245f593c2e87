"""Makes two small real clips and scores them: a moving pattern, and its low-bitrate encode decoded again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from vmafx.adapters.vmaf_cli.engine_ffmpeg import ffmpeg_path
from vmafx.domain.errors import ScorerUnavailableError

FOLDER: Final = Path("build/demo")
PATTERN: Final = "testsrc2=size=320x240:rate=25:duration=2"
BITRATE: Final = "150k"


def main() -> int:
    """Make the clips and score them; returns the exit code of `vmafx score`."""
    try:
        reference, distorted = make_clips(FOLDER)
    except ScorerUnavailableError as error:
        print(f"demo: there is no FFmpeg to make the clips with: {error.problem}", file=sys.stderr)
        return 1
    command = [str(Path(sys.executable).parent / "vmafx"), "score", str(reference), str(distorted)]
    print("$ vmafx", *command[1:], flush=True)
    return subprocess.run(command, check=False).returncode


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


if __name__ == "__main__":
    sys.exit(main())
