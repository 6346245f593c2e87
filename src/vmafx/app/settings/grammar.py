"""The grammar of values in the environment (ADR 0019).

They are trimmed, empty means unset, booleans and durations are as in Go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Final, TypeVar

from vmafx.domain.errors import ConfigurationError

__all__ = [
    "NOT_A_BOOLEAN",
    "NOT_A_DURATION",
    "EnvironmentReader",
    "boolean",
    "choice",
    "duration_s",
    "integer",
    "items",
    "positive_duration_s",
    "ratio",
    "shown_duration",
    "together",
]

NOT_A_BOOLEAN: Final = "is not a boolean"
"""What is wrong with a value, in the words that the contract has."""
NOT_A_DURATION: Final = "is not a duration (examples: 500ms, 10s)"
"""The same."""

Value = TypeVar("Value")
Choice = TypeVar("Choice", bound=Enum)


class EnvironmentReader:
    """Reads variables one by one and keeps what is wrong with them, to be told all at once."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._problems: list[ConfigurationError] = []

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment itself."""
        return self._environment

    @property
    def problems(self) -> int:
        """How many problems are kept so far."""
        return len(self._problems)

    def text(self, name: str) -> str | None:
        """Return the trimmed value of a variable; None when it is unset or empty."""
        return self._environment.get(name, "").strip() or None

    def value(self, name: str, parse: Callable[[str, str], Value], default: Value) -> Value:
        """Return the parsed value of a variable, or `default` when it is unset, empty or wrong.

        Args:
            name: The variable.
            parse: Takes the variable's name and its trimmed value; refuses with `ConfigurationError`.
            default: The value otherwise.
        """
        text = self.text(name)
        if text is None:
            return default
        try:
            return parse(name, text)
        except ConfigurationError as problem:
            self._problems.append(problem)
            return default

    def wrong(self, name: str) -> bool:
        """Return whether a variable is already known to be wrong."""
        return any(problem.setting == name for problem in self._problems)

    @property
    def refused(self) -> tuple[ConfigurationError, ...]:
        """What is known to be wrong so far."""
        return tuple(self._problems)

    def refuse(self, *problems: ConfigurationError) -> None:
        """Keep what is wrong with the environment, to be told by `finish`.

        Args:
            problems: One for each wrong variable.
        """
        self._problems.extend(problems)

    def replace(self, retold: Callable[[ConfigurationError], ConfigurationError]) -> None:
        """Tell what was kept so far in other words.

        Args:
            retold: Takes a problem and returns what stands for it.
        """
        self._problems = [retold(problem) for problem in self._problems]

    def finish(self) -> None:
        """End the reading.

        Raises:
            ConfigurationError: At least one variable was wrong; the others are told in `others`.
        """
        if self._problems:
            told: ConfigurationError = together(self._problems)
            raise told


def together(problems: Sequence[ConfigurationError]) -> ConfigurationError:
    """Return one error that tells all problems, those of a group together and last.

    Args:
        problems: At least one.
    """
    first, *others = sorted(problems, key=lambda problem: problem.group)
    return ConfigurationError(
        first.setting,
        first.problem,
        value=first.value,
        others=tuple(others),
        group=first.group,
        named=first.named,
    )


def boolean(name: str, text: str) -> bool:
    """Return the boolean that `text` stands for.

    Raises:
        ConfigurationError: It is none of `1 t T TRUE true True 0 f F FALSE false False`.
    """
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ConfigurationError(name, NOT_A_BOOLEAN, value=text)


def duration_s(name: str, text: str) -> float:
    """Return a duration such as `300ms`, `1.5s` or `1h30m` in seconds; only `0` may go without a unit.

    Raises:
        ConfigurationError: It is not a duration, below 0, or longer than 64 bits of nanoseconds can tell.
    """
    match = _DURATION.fullmatch(text) if len(text) <= _TEXT_MAX else None
    if match is None and text != "0":
        raise ConfigurationError(name, NOT_A_DURATION, value=text)
    seconds = sum(
        (Decimal(number) * _UNITS_S[unit] for number, unit in _PART.findall(text)), start=Decimal(0)
    )
    if seconds > _DURATION_MAX_S:
        raise ConfigurationError(name, f"is too long (at most {_DURATION_MAX_S // 3600:f}h)", value=text)
    if text.startswith("-") and seconds:
        raise ConfigurationError(name, "must not be negative", value=text)
    return float(seconds)


def positive_duration_s(name: str, text: str) -> float:
    """Return a duration above 0 in seconds.

    Raises:
        ConfigurationError: It is not a duration, not positive, or too long.
    """
    if text.startswith("-") and _DURATION.fullmatch(text[:_TEXT_MAX]):
        raise ConfigurationError(name, "must be positive", value=text)
    seconds = duration_s(name, text)
    if not seconds:
        raise ConfigurationError(name, "must be positive", value=text)
    return seconds


def shown_duration(seconds: float) -> str:
    """Return a duration as `duration_s` reads it, such as `1h30m` or `0.3s`.

    Args:
        seconds: The duration, 0 or more and finite.
    """
    if seconds != int(seconds):
        return f"{Decimal(repr(seconds)):f}s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def ratio(name: str, text: str) -> float:
    """Return a decimal number from 0 to 1.

    Raises:
        ConfigurationError: It is none.
    """
    number = float(text) if _RATIO.fullmatch(text) else None
    if number is None or not number <= 1:
        raise ConfigurationError(name, "must be a number from 0 to 1", value=text)
    return number


def items(text: str) -> tuple[str, ...]:
    """Return the entries of a list with commas, trimmed; empty ones are left out."""
    return tuple(entry.strip() for entry in text.split(",") if entry.strip())


def integer(lowest: int, highest: int) -> Callable[[str, str], int]:
    """Return a parser of whole numbers; it raises `ConfigurationError` for anything else.

    Args:
        lowest: The lowest that it takes.
        highest: The highest.
    """

    def parse(name: str, text: str) -> int:
        number = int(text) if _INTEGER.fullmatch(text) else None
        if number is None or not lowest <= number <= highest:
            raise ConfigurationError(name, f"must be an integer from {lowest} to {highest}", value=text)
        return number

    return parse


def choice(kind: type[Choice], problem: str) -> Callable[[str, str], Choice]:
    """Return a parser of the values of an enum of words; it raises `ConfigurationError` for anything else.

    Case matters.

    Args:
        kind: The enum.
        problem: What to say of any other value; `{words}` becomes the list of all words.
    """
    words = ", ".join(str(member.value) for member in kind)

    def parse(name: str, text: str) -> Choice:
        try:
            return kind(text)
        except ValueError:
            raise ConfigurationError(name, problem.format(words=words), value=text) from None

    return parse


_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})

_TEXT_MAX: Final = 64
"""Longest duration in characters; a longer one is a mistake, and its digits would cost time."""
_DURATION_MAX_S: Final = Decimal(2**63 - 1).scaleb(-9)
"""Longest duration in seconds: what fits in 64 bits of nanoseconds, as in Go."""
_UNITS_S: Final[Mapping[str, Decimal]] = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "\u00b5s": Decimal("1e-6"),
    "\u03bcs": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}
_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_DURATION: Final = re.compile(rf"[+-]?(?:{_PART.pattern})+")
_RATIO: Final = re.compile(r"[0-9]{1,18}(\.[0-9]{0,18})?|\.[0-9]{1,18}")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
