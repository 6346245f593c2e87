"""The forms that values take: how they are read, what they must be, and how they are shown (ADR 0019)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, TypeVar, cast

from pydantic import SecretStr

from vmafx.app.settings import grammar
from vmafx.app.settings.checks import check_is, check_seconds, check_whole, refused
from vmafx.domain.address import HostPort, is_host
from vmafx.domain.bearer import token_problem
from vmafx.domain.errors import ConfigurationError, SourceSyntaxError
from vmafx.domain.job import NODE_NAME_BYTES_MAX
from vmafx.domain.roots import RootTemplates, ScoringRoots
from vmafx.domain.source import shown_source

__all__ = [
    "ABSOLUTE_PATH",
    "ADDRESS",
    "BOOLEAN",
    "BYTES_MAX",
    "DURATION",
    "DURATION_OR_DEFAULT",
    "HOST",
    "LISTEN",
    "NODE_NAME",
    "PATH",
    "POSITIVE_DURATION",
    "PROGRAM",
    "RATIO",
    "ROOTS",
    "ROOT_TEMPLATES",
    "SCHEMES",
    "SECRET",
    "TEXT",
    "TOKEN",
    "Form",
    "whole",
    "word",
]

Value = TypeVar("Value")
Word = TypeVar("Word", bound=Enum)

BYTES_MAX: Final = 2**63 - 1
"""Largest number of bytes that a setting can tell: what fits in 64 bits with a sign."""
TEXT_BYTES_MAX: Final = 4096
"""Longest path or other text, in bytes of UTF-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form(Generic[Value]):
    """What the values of a variable have in common.

    Attributes:
        parse: Takes the variable's name and its trimmed text; refuses with `ConfigurationError`.
        check: Takes the variable's name and a value made by hand; refuses with `ConfigurationError`.
        show: Shows a value as its owner could have written it; a secret never.
    """

    parse: Callable[[str, str], Value]
    check: Callable[[str, object], None]
    show: Callable[[Value], str] = str


def whole(lowest: int, highest: int) -> Form[int]:
    """Return the form of whole numbers from `lowest` to `highest`."""
    return Form(parse=grammar.integer(lowest, highest), check=check_whole(lowest, highest))


def word(kind: type[Word], problem: str = "must be one of {words}") -> Form[Word]:
    """Return the form of the words of an enum; case matters.

    Args:
        kind: The enum.
        problem: What to say of any other value; `{words}` becomes the list of all words.
    """
    return Form(
        parse=grammar.choice(kind, problem), check=check_is(kind), show=lambda value: str(value.value)
    )


# ---------------------------------------------------------------- what values made by hand must be


def _check_positive(name: str, value: object) -> None:
    check_seconds(name, value)
    if not value:
        raise refused(name, "must be positive", value)


def _check_ratio(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise refused(name, "must be a number from 0 to 1", value)


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value or value != value.strip():
        raise refused(name, "is not a trimmed, non-empty text", value)
    _refuse_strange(name, value, TEXT_BYTES_MAX)


def _check_absolute(name: str, value: object) -> None:
    _check_text(name, value)
    if isinstance(value, str) and not value.startswith("/"):
        raise refused(name, "is no absolute path, and would depend on where the program is started", value)


def _check_program(name: str, value: object) -> None:
    _check_text(name, value)
    if isinstance(value, str) and "/" in value and not value.startswith("/"):
        raise refused(name, "is neither a name nor an absolute path", value)


def _check_node_name(name: str, value: object) -> None:
    if not isinstance(value, str) or not value or value != value.strip():
        raise refused(name, "is not a trimmed, non-empty text", value)
    _refuse_strange(name, value, NODE_NAME_BYTES_MAX)


def _refuse_strange(name: str, text: str, bytes_max: int) -> None:
    if _STRANGE.search(text):
        raise ConfigurationError(name, "holds control characters or bytes that are no UTF-8", value=text)
    if len(text.encode()) > bytes_max:
        raise ConfigurationError(name, f"is longer than {bytes_max} bytes", value=text)


def _check_token(name: str, value: object) -> None:
    # without a word of the value, whatever it is
    if not isinstance(value, SecretStr):
        raise ConfigurationError(name, "is not a SecretStr")
    problem = token_problem(value.get_secret_value())
    if problem is not None:
        raise ConfigurationError(name, problem)


def _check_secret(name: str, value: object) -> None:
    # without a word of the value, whatever it is
    if not isinstance(value, SecretStr):
        raise ConfigurationError(name, "is not a SecretStr")
    try:
        _check_text(name, value.get_secret_value())
    except ConfigurationError as problem:
        raise ConfigurationError(name, problem.problem) from None


def _check_address(*, listen: bool) -> Callable[[str, object], None]:
    def check(name: str, value: object) -> None:
        if not isinstance(value, HostPort):
            raise refused(name, "is not a HostPort", value)
        HostPort.parse(name, str(value), listen=listen)

    return check


def _check_host(name: str, value: object) -> None:
    _check_text(name, value)
    if not is_host(str(value)):
        raise refused(name, "is no host name", value)


def _check_root_templates(name: str, value: object) -> None:
    if not isinstance(value, RootTemplates):
        raise refused(name, 'is no RootTemplates: write RootTemplates.parse(["/clips"])', value)


def _check_schemes(name: str, value: object) -> None:
    shown = repr(value)
    entries = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
    if not entries or not all(isinstance(entry, str) and _SCHEME.fullmatch(entry) for entry in entries):
        raise ConfigurationError(name, "is not a list of URL schemes, such as s3,gs", value=shown)


# ---------------------------------------------------------------- from text


def _checked(check: Callable[[str, object], None]) -> Callable[[str, str], str]:
    def parse(name: str, text: str) -> str:
        check(name, text)
        return text

    return parse


def _token(name: str, text: str) -> SecretStr:
    token = SecretStr(text)
    _check_token(name, token)
    return token


def _secret(name: str, text: str) -> SecretStr:
    secret = SecretStr(text)
    _check_secret(name, secret)
    return secret


def _listen(name: str, text: str) -> HostPort:
    return HostPort.parse(name, text, listen=True)


def _roots(name: str, text: str) -> ScoringRoots:
    try:
        return ScoringRoots.parse(grammar.items(text))
    except SourceSyntaxError as error:
        raise ConfigurationError(name, str(error)) from None


def _root_templates(name: str, text: str) -> RootTemplates:
    try:
        return RootTemplates.parse(grammar.items(text))
    except SourceSyntaxError as error:
        raise ConfigurationError(name, str(error)) from None


def _schemes(name: str, text: str) -> tuple[str, ...]:
    schemes = grammar.items(text)
    if not schemes or not all(map(_SCHEME.fullmatch, schemes)):
        raise ConfigurationError(name, "is not a list of URL schemes, such as s3,gs", value=text)
    return schemes


_STRANGE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]{0,31}")

BOOLEAN: Final = Form(
    parse=grammar.boolean, check=check_is(bool), show=lambda value: "true" if value else "false"
)
DURATION: Final = Form(parse=grammar.duration_s, check=check_seconds, show=grammar.shown_duration)
POSITIVE_DURATION: Final = Form(
    parse=grammar.positive_duration_s, check=_check_positive, show=grammar.shown_duration
)
DURATION_OR_DEFAULT: Final = Form(
    parse=grammar.duration_s, check=_check_positive, show=grammar.shown_duration
)
"""For variables of which 0 means the default, which a value made by hand says in full."""
RATIO: Final = Form(parse=grammar.ratio, check=_check_ratio, show=lambda value: f"{value:g}")
TEXT: Final = Form(parse=_checked(_check_text), check=_check_text)
PATH: Final = TEXT
"""A relative path counts from the working directory, as the system has it."""
ABSOLUTE_PATH: Final = Form(parse=_checked(_check_absolute), check=_check_absolute)
"""A path that means the same wherever a program is started."""
PROGRAM: Final = Form(parse=_checked(_check_program), check=_check_program)
"""A name that is looked up on the search path, or an absolute path."""
NODE_NAME: Final = Form(parse=_checked(_check_node_name), check=_check_node_name)
TOKEN: Final = Form(parse=_token, check=_check_token)
SECRET: Final = Form(parse=_secret, check=_check_secret)
"""Any text that is not shown."""
HOST: Final = Form(parse=_checked(_check_host), check=_check_host)
ADDRESS: Final = Form(parse=HostPort.parse, check=_check_address(listen=False))
LISTEN: Final = Form(parse=_listen, check=_check_address(listen=True))
ROOTS: Final = Form(
    parse=_roots,
    check=check_is(ScoringRoots),
    show=lambda value: ",".join(root.shown for root in value.roots),
)
ROOT_TEMPLATES: Final = Form(
    parse=_root_templates,
    check=_check_root_templates,
    show=lambda value: ",".join(map(shown_source, value.texts)),
)
SCHEMES: Final = Form(parse=_schemes, check=_check_schemes, show=",".join)
