"""The options of the embedded engine: their names, the usage text, and a command line taken apart.

Nothing is ignored (ADR 0009): an unknown option, a stray argument, a value that is missing or not wanted and
an option given twice each end in an error that names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from vmafx.domain.errors import ConfigurationError
from vmafx.domain.text import quoted

__all__ = ["OPTIONS", "USAGE", "Option", "read_options"]


class Option(NamedTuple):
    """One option of the command line.

    Attributes:
        name: The long name, without its dashes.
        short: The letter of the short form; empty when there is none.
        value: What the value is, for the usage text; empty for a switch.
        text: What the option does, for the usage text.
        repeatable: Whether it may be given more than once.
    """

    name: str
    short: str
    value: str
    text: str
    repeatable: bool = False


OPTIONS: Final = (
    Option("reference", "r", "PATH", "the reference clip, Y4M or raw YUV"),
    Option("distorted", "d", "PATH", "the distorted clip, Y4M or raw YUV"),
    Option("width", "w", "PIXELS", "raw YUV: width; with any of these four, all four are needed"),
    Option("height", "h", "PIXELS", "raw YUV: height"),
    Option("pixel_format", "p", "FORMAT", "raw YUV: 420, 422 or 444"),
    Option("bitdepth", "b", "BITS", "raw YUV: 8, 10 or 12"),
    Option(
        "model",
        "m",
        "PARAMETERS",
        "path=FILE or version=NAME, then :name=NAME, :disable_clip,",
        repeatable=True,
    ),
    Option("output", "o", "PATH", "the report; without it FFmpeg's log shows the score"),
    Option("xml", "", "", "write the report as XML (the default)"),
    Option("json", "", "", "write the report as JSON"),
    Option("csv", "", "", "write the report as CSV"),
    Option("sub", "", "", "write the report as subtitles"),
    Option("threads", "", "COUNT", "threads of libvmaf"),
    Option("feature", "", "NAME", "one more metric: NAME or NAME=OPTION=VALUE:OPTION=VALUE", repeatable=True),
    Option("subsample", "", "N", "score every Nth frame only"),
    Option("frame_cnt", "", "COUNT", "score at most so many frames"),
    Option("cpumask", "", "MASK", "accepted, without effect"),
    Option("gpumask", "", "MASK", "accepted, without effect"),
    Option("backend", "", "NAME", "cpu; there is no other here"),
    Option(
        "progress-fd",
        "",
        "N",
        "write lines such as frame=12 to the open descriptor N, progress=end at the end",
    ),
    Option("quiet", "q", "", "show no progress on a terminal"),
    Option("version", "v", "", "show the version and end"),
    Option("help", "", "", "show this text and end"),
)
"""Every option that the engine honours."""

_MODEL_TEXT: Final = ":enable_transform or :FEATURE.OPTION=VALUE; \\\\ \\: \\= stand for \\ : = in it"
_TEXT_COLUMN: Final = 34


def _usage() -> str:
    lines = ["usage: vmafx-vmaf -r REFERENCE -d DISTORTED [options]", ""]
    for option in OPTIONS:
        short = f"-{option.short}, " if option.short else "    "
        lines.append(f"  {short}--{option.name} {option.value}".ljust(_TEXT_COLUMN) + option.text)
        if option.name == "model":
            lines.append(" " * _TEXT_COLUMN + _MODEL_TEXT)
    return "\n".join(lines) + "\n"


USAGE: Final = _usage()
"""The usage text. Callers look for option names in it, so it must name none that cannot be honoured."""

_REFUSED: Final[Mapping[str, str]] = {
    "no_prediction": "a report without a score is not supported by the embedded engine",
    "aom_ctc": "not supported by the embedded engine; give --model and --feature instead",
    "nflx_ctc": "not supported by the embedded engine; give --model and --feature instead",
    "frame_skip_ref": "not supported by the embedded engine",
    "frame_skip_dist": "not supported by the embedded engine",
    "precision": "not supported by the embedded engine; its reports have 6 decimals",
}
_REFUSED_SHORT: Final = {"n": "no_prediction"}
_BY_NAME: Final = {option.name: option for option in OPTIONS}
_BY_SHORT: Final = {option.short: option for option in OPTIONS if option.short}


def read_options(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Take a command line apart into the values of each option by its long name; a switch has the value "".

    Args:
        arguments: The command line, without the program's name.

    Raises:
        ConfigurationError: Something in it is no option, or not as the option wants it; names it.
    """
    values: dict[str, list[str]] = {}
    for option, value in _pairs(iter(arguments)):
        given = values.setdefault(option.name, [])
        if given and not option.repeatable:
            raise ConfigurationError(f"--{option.name}", "given twice")
        given.append(value)
    return values


def _pairs(rest: Iterator[str]) -> Iterator[tuple[Option, str]]:
    for argument in rest:
        if argument == "--":
            break
        if argument.startswith("--"):
            yield _long(argument, rest)
        elif argument.startswith("-") and argument != "-":
            yield from _short(argument, rest)
        else:
            raise _stray(argument)
    for argument in rest:
        raise _stray(argument)


def _long(argument: str, rest: Iterator[str]) -> tuple[Option, str]:
    name, separator, value = argument[2:].partition("=")
    option = _BY_NAME.get(name)
    if option is None:
        raise _unknown("--" + name, name)
    if not option.value:
        if separator:
            raise ConfigurationError(f"--{name}", f"takes no value: {quoted(value)}")
        return option, ""
    return option, value if separator else _next(f"--{name}", rest)


def _short(argument: str, rest: Iterator[str]) -> Iterator[tuple[Option, str]]:
    for position, letter in enumerate(argument[1:], start=1):
        option = _BY_SHORT.get(letter)
        if option is None:
            raise _unknown("-" + letter, _REFUSED_SHORT.get(letter, ""))
        if option.value:
            yield option, argument[position + 1 :] or _next(f"-{letter}", rest)
            return
        yield option, ""


def _next(shown: str, rest: Iterator[str]) -> str:
    value = next(rest, None)
    if value is None:
        raise ConfigurationError(shown, "needs a value")
    return value


def _stray(argument: str) -> ConfigurationError:
    return ConfigurationError(quoted(argument), "stray argument: only options are taken")


def _unknown(shown: str, name: str) -> ConfigurationError:
    if name in _REFUSED:
        return ConfigurationError(shown, _REFUSED[name])
    return ConfigurationError(quoted(shown), "unknown option")
