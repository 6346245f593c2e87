"""The embedded engine `vmafx-vmaf`: a `vmaf` command line over the libvmaf in the FFmpeg of imageio-ffmpeg.

It checks the clips, translates the arguments and replaces itself by FFmpeg, so that signals and descriptors
behave as with a real `vmaf` (ADR 0009). It also runs as `python -I -S engine.py ARGS`, which spares the time
that site packages take to load: this file then finds its own package.
"""

# The package can be imported only once its root is on the path, and pathlib would double the start-up time.
# ruff: noqa: PLC0415, PTH100, PTH120

from __future__ import annotations

import os.path
import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line of this process; returns the exit status only when FFmpeg did not take over."""
    from vmafx.adapters.vmaf_cli.engine_run import run

    return run(sys.argv[1:])


def _make_package_importable() -> None:
    root = os.path.abspath(__file__)
    for _ in range(4):
        root = os.path.dirname(root)
    if root not in sys.path:
        sys.path.append(root)


if __name__ == "__main__":
    _make_package_importable()
    sys.exit(main())
