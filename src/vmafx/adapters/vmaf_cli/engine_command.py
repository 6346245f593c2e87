"""The command line of FFmpeg that does what a run of the embedded engine asks for (ADR 0009).

Frames are paired by number, whatever the clips say of time, and nothing is ever converted: FFmpeg itself then
refuses pairs that differ in size, format or range, also where they come through pipes and were not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from vmafx.adapters.vmaf_cli.engine_arguments import Arguments, Feature, Model
from vmafx.adapters.vmaf_cli.engine_clips import SIDE_MIN
from vmafx.domain.y4m import Subsampling, Y4mHeader

__all__ = ["escape", "ffmpeg_arguments", "ffmpeg_environment"]

_GLOBAL: Final = (
    "-nostdin",
    "-hide_banner",
    "-xerror",
    "-noauto_conversion_filters",
    "-abort_on",
    "empty_output",  # else clips without frames end in success
)
_PIXEL_FORMATS: Final[Mapping[Subsampling, str]] = {
    Subsampling.S420: "yuv420p",
    Subsampling.S422: "yuv422p",
    Subsampling.S444: "yuv444p",
}
_DEPTH_SUFFIXES: Final[Mapping[int, str]] = {8: "", 10: "10le", 12: "12le"}
_ALL_PIXEL_FORMATS: Final = "|".join(
    base + suffix for base in _PIXEL_FORMATS.values() for suffix in _DEPTH_SUFFIXES.values()
)
_EVEN_AND_LARGE: Final = f"gte(iw,{SIDE_MIN})*gte(ih,{SIDE_MIN})*not(mod(iw,2)+mod(ih,2))"
_CHAIN: Final = (
    f"format=pix_fmts={_ALL_PIXEL_FORMATS}",
    f"crop=w='iw/({_EVEN_AND_LARGE})':h=ih",  # crops nothing: it fails on a size that is not supported
    "select='eq(interlace_type,PROGRESSIVE)'",  # nothing is left of an interlaced clip
    "settb=1/25",
    "setpts=N",
)
_SPECIAL_IN_PAIRS: Final = "\\':= \t\r\n"
_SPECIAL_IN_OPTION: Final = "\\': \t\r\n"
_SPECIAL_IN_GRAPH: Final = "\\'[],; \t\r\n"
_CLEARED: Final = ("FFREPORT", "AV_LOG_FORCE_")


def ffmpeg_arguments(
    arguments: Arguments, *, report: str | None, models: Sequence[str | None], terminal: bool
) -> list[str]:
    """Return FFmpeg's arguments, without the program's name.

    Args:
        arguments: The run.
        report: What FFmpeg opens as the report; None when there is to be none.
        models: What FFmpeg opens as the file of each model; None for a built-in one.
        terminal: Whether standard error is a terminal.
    """
    log_level = "error" if report else "info"  # the score is told at info only
    stats = "-stats" if terminal and not arguments.quiet else "-nostats"
    return [
        *_GLOBAL,
        "-loglevel",
        log_level,
        stats,
        *_progress(arguments.progress_fd),
        *_input(arguments.reference, arguments.raw),
        *_input(arguments.distorted, arguments.raw),
        "-filter_complex",
        _graph(arguments, report, models),
        "-fps_mode",
        "passthrough",
        "-f",
        "null",
        "-",
    ]


def ffmpeg_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what would make FFmpeg write files or speak another language."""
    kept = {name: value for name, value in environment.items() if not name.startswith(_CLEARED)}
    return kept | {"LC_ALL": "C"}


def escape(text: str, special: str) -> str:
    """Return `text` with a backslash before each of the characters `special`."""
    return "".join("\\" + char if char in special else char for char in text)


def _progress(descriptor: int | None) -> list[str]:
    return [] if descriptor is None else ["-progress", f"pipe:{descriptor}", "-stats_period", "0.2"]


def _input(path: str, raw: Y4mHeader | None) -> list[str]:
    if raw is None:
        return ["-f", "yuv4mpegpipe", "-i", f"file:{path}"]
    pixel_format = _PIXEL_FORMATS[raw.subsampling] + _DEPTH_SUFFIXES[raw.depth]
    form = ["-video_size", f"{raw.width}x{raw.height}", "-pixel_format", pixel_format, "-framerate", "25"]
    return ["-f", "rawvideo", *form, "-i", f"file:{path}"]


def _graph(arguments: Arguments, report: str | None, models: Sequence[str | None]) -> str:
    # The reference is the first input: a writer that fills both pipes in turn begins with it.
    limit = [f"trim=end_frame={arguments.frames_max}"] if arguments.frames_max else []
    chain = ",".join([*limit, *_CHAIN])
    options = ":".join(f"{key}={value}" for key, value in _libvmaf(arguments, report, models))
    return f"[0:v]{chain}[r];[1:v]{chain}[d];[d][r]libvmaf={escape(options, _SPECIAL_IN_GRAPH)}"


def _libvmaf(
    arguments: Arguments, report: str | None, models: Sequence[str | None]
) -> Iterable[tuple[str, str | int]]:
    yield from (("shortest", 1), ("repeatlast", 0), ("eof_action", "endall"))
    yield from (("n_threads", arguments.threads), ("n_subsample", arguments.subsample))
    yield "model", _groups(_model(model, path) for model, path in zip(arguments.models, models, strict=True))
    if arguments.features:
        yield "feature", _groups(_feature(feature) for feature in arguments.features)
    if report:
        yield from (("log_fmt", arguments.format), ("log_path", escape(report, _SPECIAL_IN_OPTION)))


def _groups(groups: Iterable[list[tuple[str, str]]]) -> str:
    """Return groups of pairs as libvmaf's filter wants them; there is no way to write a bar in a value."""
    texts = (
        ":".join(f"{key}={escape(value, _SPECIAL_IN_PAIRS)}" for key, value in pairs) for pairs in groups
    )
    return escape("|".join(texts), _SPECIAL_IN_OPTION)


def _model(model: Model, path: str | None) -> list[tuple[str, str]]:
    source = ("version", model.version) if model.version is not None else ("path", path or "")
    overloads = [
        (f"{feature.name}.{key}", value) for feature in model.features for key, value in feature.options
    ]
    return [source, ("name", model.name), *((flag, "true") for flag in sorted(model.flags)), *overloads]


def _feature(feature: Feature) -> list[tuple[str, str]]:
    return [("name", feature.name), *feature.options]
