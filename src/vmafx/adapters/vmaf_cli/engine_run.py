"""A run of the embedded engine, up to the moment when FFmpeg takes the process over (ADR 0009)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from collections.abc import Iterable, Sequence
from typing import Final, NoReturn

from vmafx.adapters.vmaf_cli.engine_arguments import Arguments, parse_arguments
from vmafx.adapters.vmaf_cli.engine_clips import CheckedClip, check_pair, look_at
from vmafx.adapters.vmaf_cli.engine_command import ffmpeg_arguments, ffmpeg_environment
from vmafx.adapters.vmaf_cli.engine_ffmpeg import check_libvmaf, ffmpeg_path
from vmafx.adapters.vmaf_cli.engine_files import handed_down, open_model, open_report
from vmafx.adapters.vmaf_cli.engine_options import USAGE, read_options
from vmafx.domain.errors import ConfigurationError, VmafxError
from vmafx.domain.text import quoted
from vmafx.domain.version import __version__

__all__ = ["EXIT_FAILED", "EXIT_USAGE", "run"]

EXIT_USAGE: Final = 1
"""Exit status when the command line makes no sense or asks for what cannot be honoured."""
EXIT_FAILED: Final = 255
"""Exit status when anything else stops a run before FFmpeg starts."""

_STANDARD_OUTPUT: Final = 1
_STANDARD_ERROR: Final = 2
_PROGRAM: Final = "vmafx-vmaf"


def run(argv: Sequence[str]) -> int:
    """Score as the command line says: FFmpeg takes this process over.

    Args:
        argv: The command line, without the program's name.

    Returns:
        The exit status, when FFmpeg did not take over: 0 after `--help` and `--version`, else `EXIT_USAGE` or
        `EXIT_FAILED`, with a line on standard error that says why.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback when interrupted
    _occupy_standard_descriptors()
    try:
        options = read_options(argv)
        if "help" in options:
            _say(USAGE.rstrip("\n"), to=_STANDARD_OUTPUT)
            return 0
        arguments = None if "version" in options else parse_arguments(options)
    except ConfigurationError as error:
        _say(f"{USAGE}\n{_PROGRAM}: {error}")
        return EXIT_USAGE
    try:
        if arguments is None:
            return _tell_version()
        _become_ffmpeg(arguments)
    except (VmafxError, OSError) as error:
        _say(f"{_PROGRAM}: {error}")
        return EXIT_FAILED


def _occupy_standard_descriptors() -> None:
    """Open the standard descriptors that are closed, lest a report takes the place of standard error."""
    for descriptor in range(_STANDARD_ERROR + 1):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
            os.set_inheritable(descriptor, True)  # noqa: FBT003 - the only way to call it


def _say(text: str, *, to: int = _STANDARD_ERROR) -> None:
    with contextlib.suppress(OSError):
        os.write(to, (text + "\n").encode(errors="backslashreplace"))


def _tell_version() -> int:
    ffmpeg = ffmpeg_path()
    check_libvmaf(ffmpeg)
    _say(f"{_PROGRAM} {__version__} (libvmaf of {os.path.basename(ffmpeg)})")  # noqa: PTH119 - pathlib would double the start-up time
    return 0


def _become_ffmpeg(arguments: Arguments) -> NoReturn:
    ffmpeg = ffmpeg_path()
    _check_progress(arguments.progress_fd)
    reference, distorted = look_at(arguments.reference), look_at(arguments.distorted)
    report = open_report(arguments, (reference, distorted))
    clips = check_pair(reference, distorted, arguments.raw)
    models = [open_model(model) for model in arguments.models]
    _tell_shorter(arguments, clips)
    command = ffmpeg_arguments(
        arguments,
        report=handed_down(report),
        models=[handed_down(model) for model in models],
        terminal=os.isatty(_STANDARD_ERROR),
    )
    environment = ffmpeg_environment(os.environ)
    # Python ignores these two, and FFmpeg would inherit it: a report cut by a limit would end in success.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    os.execve(ffmpeg, [ffmpeg, *command], environment)  # noqa: S606 - no shell is wanted


def _check_progress(descriptor: int | None) -> None:
    if descriptor is None:
        return
    try:
        mode = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
    except OSError as error:
        raise ConfigurationError("--progress-fd", f"descriptor {descriptor} is not open") from error
    if mode == os.O_RDONLY:
        raise ConfigurationError("--progress-fd", f"descriptor {descriptor} cannot be written to")


def _tell_shorter(arguments: Arguments, clips: Iterable[CheckedClip]) -> None:
    """Say which clip ends first, as a stock `vmaf` does; the frames that both have are scored."""
    reference, distorted = (clip.frames for clip in clips)
    if reference is None or distorted is None or reference == distorted:
        return
    common = min(reference, distorted)
    if arguments.frames_max is not None and arguments.frames_max <= common:
        return
    names = sorted(
        ((reference, arguments.reference), (distorted, arguments.distorted)), key=lambda clip: clip[0]
    )
    (few, shorter), (many, longer) = names
    _say(f"{quoted(shorter)} ended before {quoted(longer)}. {few} of {many} frames are scored.")
