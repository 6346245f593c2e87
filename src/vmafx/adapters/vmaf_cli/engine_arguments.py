"""The command line of the embedded engine as a checked value (ADR 0009).

The values of the engine are named tuples: making a dataclass takes a millisecond, at every start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from vmafx.adapters.vmaf_cli.engine_features import FEATURE_OPTIONS
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.text import quoted
from vmafx.domain.y4m import DIMENSION_MAX, Subsampling, Y4mHeader

__all__ = ["DEPTHS", "Arguments", "Feature", "Model", "parse_arguments"]

DEPTHS: Final = frozenset({8, 10, 12})
"""Bits per sample at which FFmpeg's report is known to equal that of a stock `vmaf`."""

_COUNT_MAX: Final = 2**31 - 1
_MASK_MAX: Final = 2**64 - 1
_THREADS_MAX: Final = 1024
_DESCRIPTOR_MAX: Final = 2**20
_DEFAULT_VERSION: Final = "vmaf_v0.6.1"
_DEFAULT_NAME: Final = "vmaf"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_VALUE: Final = re.compile(r"[A-Za-z0-9.+-]{1,64}")
_COLLECTION: Final = re.compile(r"(?:^|_)r?b_v")
_GEOMETRY: Final[Mapping[str, str]] = {"width": "-w", "height": "-h", "pixel_format": "-p", "bitdepth": "-b"}
_PIXEL_FORMATS: Final[Mapping[str, Subsampling]] = {
    "420": Subsampling.S420,
    "422": Subsampling.S422,
    "444": Subsampling.S444,
}
_FORMATS: Final = ("xml", "json", "csv", "sub")


class Feature(NamedTuple):
    """A metric to extract, or settings of one that the model uses.

    Attributes:
        name: The extractor's name.
        options: The extractor's options and their values.
    """

    name: str
    options: tuple[tuple[str, str], ...] = ()


class Model(NamedTuple):
    """A model to score with.

    Attributes:
        version: The name of a model built into libvmaf; None when `path` names a file.
        path: The model's file; None when `version` names a model.
        name: What the report calls its score.
        flags: `disable_clip` and `enable_transform`, where they are set.
        features: Settings of the extractors that the model uses.
    """

    version: str | None = None
    path: str | None = None
    name: str = _DEFAULT_NAME
    flags: frozenset[str] = frozenset()
    features: tuple[Feature, ...] = ()


class Arguments(NamedTuple):
    """One run of the engine.

    Attributes:
        reference: Path of the reference clip.
        distorted: Path of the distorted clip.
        raw: The format of both clips when they are raw YUV; None when they are Y4M.
        models: The models to score with, at least one; their names differ.
        features: Further metrics.
        output: Path of the report; None when there is to be none.
        format: The report's format: xml, json, csv or sub.
        threads: Threads of libvmaf; 0 means none beside the reading one.
        subsample: Every how many frames are scored.
        frames_max: How many frames are scored at most; None means all.
        progress_fd: The descriptor that progress is written to; None means none.
        quiet: Whether a terminal sees no progress.
    """

    reference: str
    distorted: str
    raw: Y4mHeader | None = None
    models: tuple[Model, ...] = (Model(version=_DEFAULT_VERSION),)
    features: tuple[Feature, ...] = ()
    output: str | None = None
    format: str = "xml"
    threads: int = 0
    subsample: int = 1
    frames_max: int | None = None
    progress_fd: int | None = None
    quiet: bool = False


def parse_arguments(options: Mapping[str, list[str]]) -> Arguments:
    """Check the options and what they say.

    Args:
        options: The values of each option by its long name, as `read_options` gives them.

    Raises:
        ConfigurationError: Something is missing, makes no sense or cannot be honoured; names the option.
    """
    values = {name: given[-1] for name, given in options.items()}
    _check_backend(values.get("backend", "cpu"))
    for mask in ("cpumask", "gpumask"):
        _number(values, mask, 0, least=-1, most=_MASK_MAX)
    return Arguments(
        reference=_path(values, "reference"),
        distorted=_path(values, "distorted"),
        raw=_raw(values),
        models=_models(options.get("model", [])),
        features=tuple(_feature(text) for text in options.get("feature", [])),
        output=_path(values, "output") if "output" in values else None,
        format=_format(values),
        threads=_number(values, "threads", 0, least=0, most=_THREADS_MAX),
        subsample=_number(values, "subsample", 1, least=1, most=_COUNT_MAX),
        frames_max=_number(values, "frame_cnt", 0, least=0, most=_COUNT_MAX) or None,
        progress_fd=_number(values, "progress-fd", 0, least=1, most=_DESCRIPTOR_MAX) or None,
        quiet="quiet" in values,
    )


def _check_backend(name: str) -> None:
    if name != "cpu":
        raise ConfigurationError(
            "--backend", f"{quoted(name)}: the embedded engine runs on the backend cpu only"
        )


def _path(values: Mapping[str, str], name: str) -> str:
    if not values.get(name):
        raise ConfigurationError(f"--{name}", "a path is needed")
    return values[name]


def _format(values: Mapping[str, str]) -> str:
    given = [name for name in _FORMATS if name in values]
    if len(given) > 1:
        raise ConfigurationError(f"--{given[1]}", f"--{given[0]} is given too")
    return given[0] if given else _FORMATS[0]


def _number(values: Mapping[str, str], name: str, default: int, *, least: int, most: int) -> int:
    text = values.get(name)
    if text is None:
        return default
    # One way to read it: no leading zeros, which C takes for octal, no spaces, no underscores.
    if not re.fullmatch(r"0|-?[1-9][0-9]{0,19}|0[xX][0-9a-fA-F]{1,16}", text):
        raise ConfigurationError(f"--{name}", f"{quoted(text)} is no whole number")
    number = int(text, 0)
    if not least <= number <= most:
        raise ConfigurationError(f"--{name}", f"{text} must be from {least} to {most}")
    return number


def _raw(values: Mapping[str, str]) -> Y4mHeader | None:
    if not any(name in values for name in _GEOMETRY):
        return None
    missing = [f"{short} (--{name})" for name, short in _GEOMETRY.items() if name not in values]
    if missing:
        raise ConfigurationError(missing[0], "raw YUV needs all of -w, -h, -p and -b")
    subsampling = _PIXEL_FORMATS.get(values["pixel_format"])
    if subsampling is None:
        raise ConfigurationError(
            "--pixel_format", f"{quoted(values['pixel_format'])}: 420, 422 and 444 are supported"
        )
    depth = _number(values, "bitdepth", 0, least=0, most=_COUNT_MAX)
    if depth not in DEPTHS:
        raise ConfigurationError("--bitdepth", f"{depth}: 8, 10 and 12 are supported")
    return Y4mHeader(
        width=_number(values, "width", 0, least=1, most=DIMENSION_MAX),
        height=_number(values, "height", 0, least=1, most=DIMENSION_MAX),
        frame_rate=(25, 1),
        subsampling=subsampling,
        depth=depth,
        full_range=False,
        header_bytes=0,
    )


def _models(texts: list[str]) -> tuple[Model, ...]:
    if not texts:
        return (Model(version=_DEFAULT_VERSION),)
    models = tuple(_model(text) for text in texts)
    names = [model.name for model in models]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError("--model", f"two models are named {quoted(name)}: give each a name=")
    return models


def _model(text: str) -> Model:
    given: dict[str, str] = {}
    for key, value in _entries(text):
        if key in given:
            raise ConfigurationError("--model", f"{quoted(text)}: {quoted(key)} is given twice")
        given[key] = value
    path, version = given.pop("path", None), given.pop("version", None)
    if bool(path) == bool(version):
        raise ConfigurationError("--model", f"{quoted(text)}: one of path= and version= is needed")
    if version is not None:
        _check_version(version)
    name = given.pop("name", _DEFAULT_NAME)
    if not _NAME.fullmatch(name):  # libvmaf writes it into the report as it is
        raise ConfigurationError("--model", f"name={quoted(name)}: letters, digits and . _ - only")
    flags = frozenset(
        flag for flag in ("disable_clip", "enable_transform") if _switch(given.pop(flag, "false"))
    )
    features = tuple(_overload(key, value) for key, value in given.items())
    return Model(version=version, path=path, name=name, flags=flags, features=features)


def _entries(text: str) -> Iterator[tuple[str, str]]:
    r"""Yield the pairs of `key=value:key=value`, where `\\`, `\:` and `\=` stand for `\`, `:` and `=`."""
    key: str | None = None
    part = ""
    rest = iter(text)
    for char in rest:
        if char == "\\":
            part += _escaped(text, next(rest, ""))
        elif char == "=" and key is None:
            key, part = part, ""
        elif char == ":":
            yield _entry(text, key, part)
            key, part = None, ""
        else:
            part += char
    yield _entry(text, key, part)


def _escaped(text: str, char: str) -> str:
    if char not in {"\\", ":", "="}:
        raise ConfigurationError("--model", f"{quoted(text)}: a backslash stands before \\ : or = only")
    return char


def _entry(text: str, key: str | None, part: str) -> tuple[str, str]:
    if key is not None:
        return key, part
    if part in {"disable_clip", "enable_transform"}:
        return part, "true"
    raise ConfigurationError("--model", f"{quoted(text)}: {quoted(part)} is no key=value")


def _check_version(version: str) -> None:
    if not _NAME.fullmatch(version):
        raise ConfigurationError("--model", f"version={quoted(version)}: no name of a model")
    if _COLLECTION.search(version):
        raise ConfigurationError("--model", f"version={version}: collections of models are not supported")


def _switch(value: str) -> bool:
    if value not in {"true", "false"}:
        raise ConfigurationError("--model", f"{quoted(value)} is neither true nor false")
    return value == "true"


def _overload(key: str, value: str) -> Feature:
    name, separator, option = key.partition(".")
    if not separator:
        raise ConfigurationError("--model", f"{quoted(key)}: unknown key")
    return _checked("--model", name, ((option, value),))


def _feature(text: str) -> Feature:
    name, separator, rest = text.partition("=")
    pairs: list[tuple[str, str]] = []
    for entry in rest.split(":") if separator else ():
        option, equals, value = entry.partition("=")
        if not equals:
            raise ConfigurationError("--feature", f"{quoted(text)}: {quoted(entry)} is no OPTION=VALUE")
        pairs.append((option, value))
    if len(dict(pairs)) < len(pairs):
        raise ConfigurationError("--feature", f"{quoted(text)}: an option is given twice")
    return _checked("--feature", name, tuple(pairs))


def _checked(setting: str, name: str, options: tuple[tuple[str, str], ...]) -> Feature:
    if name not in FEATURE_OPTIONS:
        raise ConfigurationError(setting, f"{quoted(name)}: no such feature")
    for option, value in options:
        if option not in FEATURE_OPTIONS[name]:
            raise ConfigurationError(setting, f"{quoted(option)}: the feature {name} has no such option")
        if not _VALUE.fullmatch(value):
            raise ConfigurationError(setting, f"{name}.{option}: {quoted(value)} is no number or word")
    return Feature(name=name, options=options)
