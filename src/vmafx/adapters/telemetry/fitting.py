"""Values from anywhere made fit for a log line or a span: plain, bounded, whatever they were (ADR 0020)."""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias, cast

from vmafx.domain.errors import VmafxError
from vmafx.domain.text import bounded

__all__ = [
    "FIELDS_MAX",
    "TEXT_BYTES_MAX",
    "Scalar",
    "error_text",
    "fit",
    "fit_fields",
    "fit_name",
    "fit_text",
    "spelled",
    "traceback_text",
]

Scalar: TypeAlias = str | int | float | bool | None

TEXT_BYTES_MAX: Final = 12 * 1024
"""The longest text of a value, in bytes of UTF-8; the whole result of a job fits."""
FIELDS_MAX: Final = 64
"""Most fields of an event or span."""
_NAME_BYTES_MAX: Final = 128
_INT_BITS_MAX: Final = 63  # what every reader of JSON, and every span, can hold
_LEAVES_MAX: Final = 8
_TRACEBACK_FRAMES_MAX: Final = 50


def fit(value: object) -> Scalar:
    """Return `value` as a scalar of bounded size; never raises.

    Texts lose nothing but what is beyond `TEXT_BYTES_MAX`, and unpaired surrogates, which are escaped. Whole
    numbers beyond 64 bits become a text that says how large they are; other things become their text.
    """
    match value:
        case None | bool():
            return value
        case int():
            number = int.__index__(value)  # and not what a subclass makes of it
            bits = number.bit_length()
            return number if bits <= _INT_BITS_MAX else f"a number of {bits} bits"
        case float():
            return float.__float__(value)
        case _:
            return fit_text(value)


def fit_text(value: object, bytes_max: int = TEXT_BYTES_MAX) -> str:
    """Return the text of `value`, bounded and encodable; never raises.

    Args:
        value: Anything; one that has no text is shown by its type.
        bytes_max: The limit in bytes of UTF-8, at least 16.
    """
    try:
        text = str.__str__(value) if isinstance(value, str) else str(value)
        if len(text) > 2 * bytes_max:  # what is cut out anyway need not be encoded first
            text = text[:bytes_max] + text[-bytes_max:]
        return bounded(text, bytes_max)
    except Exception:  # noqa: BLE001 - foreign code said what it liked
        return f"a {type(value).__name__} without a text"


def fit_name(name: object) -> str:
    """Return the name of a field, bounded; never raises."""
    return fit_text(name, _NAME_BYTES_MAX)


def fit_fields(fields: Mapping[str, object] | None) -> dict[str, Scalar]:
    """Return the fields with every value fit, and no more than `FIELDS_MAX` of them; never raises."""
    try:
        items: Iterable[tuple[object, object]] = (fields or {}).items()
        return {fit_name(name): fit(value) for name, value in islice(items, FIELDS_MAX)}
    except Exception as error:  # noqa: BLE001 - a mapping of foreign make
        return {"fields": f"cannot be read: {error_text(error)}"}


def error_text(error: BaseException) -> str:
    """Return what went wrong in one text; never raises.

    Our own errors speak for themselves; others are shown with their type, and groups by what is in them.
    """
    leaves = list(islice(_leaves(error), _LEAVES_MAX))
    return bounded("; ".join(_own_text(leaf) for leaf in leaves), TEXT_BYTES_MAX)


def traceback_text(error: BaseException) -> str:
    """Return where an error came from, with its causes; never raises."""
    try:
        lines = traceback.TracebackException.from_exception(error, limit=-_TRACEBACK_FRAMES_MAX).format()
        return fit_text("".join(lines))
    except Exception:  # noqa: BLE001 - foreign code said what it liked
        return "no traceback"


def spelled(number: float) -> str | None:
    """Return the words for a number that JSON has none for; None for every other."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    waiting: list[BaseException] = [error]
    while waiting:
        first = waiting.pop(0)
        if isinstance(first, BaseExceptionGroup):
            waiting[:0] = cast("BaseExceptionGroup[BaseException]", first).exceptions
        else:
            yield first


def _own_text(error: BaseException) -> str:
    text = fit_text(error)
    if isinstance(error, VmafxError) and text:
        return text
    name = type(error).__name__
    return f"{name}: {text}" if text else name
