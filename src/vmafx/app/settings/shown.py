"""What a program shows of its settings: every value with its origin, and what is odd about it (ADR 0019)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import reduce
from typing import Any, Final

from vmafx.app.settings.forms import BOOLEAN, DURATION
from vmafx.app.settings.logs import level_warning
from vmafx.app.settings.names import name_warnings
from vmafx.app.settings.node import NodeSettings
from vmafx.app.settings.parts import Part, variables_of
from vmafx.app.settings.scorer import SCORER_VARIABLES, ScorerSettings
from vmafx.app.settings.unserved import unserved
from vmafx.domain.text import printable

__all__ = ["Row", "environment_warnings", "part_rows", "rows", "start_warnings"]

_UNSET: Final = "unset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One setting as it is shown; a secret is masked.

    Attributes:
        name: The variable.
        value: Its value, printable, as its owner could have written it; `unset` where there is none.
        origin: Where it came from: `environment`, the name of another variable, `host name` or `default`.
    """

    name: str
    value: str
    origin: str


def rows(settings: NodeSettings, environment: Mapping[str, str], *, processors: int) -> tuple[Row, ...]:
    """Return every setting of a node.

    Args:
        settings: The settings.
        environment: What they were read from.
        processors: How many processors this process may use.
    """
    scorer = replace(settings.scorer, threads=settings.score_threads(processors))
    return (*_scorer_rows(scorer, environment), *part_rows(settings, environment))


def part_rows(settings: Part, environment: Mapping[str, str]) -> Iterator[Row]:
    """Walk through every setting that is declared by a part, and by the parts in it.

    Args:
        settings: The part.
        environment: What it was read from.

    Yields:
        Each setting.
    """
    for variable, path in variables_of(settings):
        value: Any = reduce(getattr, path, settings)
        text = _UNSET if value is None else variable.form.show(value)
        source = variable.source(environment)
        origin = "environment" if source == variable.name else source or "default"
        if variable.needed is not None and source is None:
            origin = "host name"
        yield Row(name=variable.name, value=printable(text), origin=origin)


def environment_warnings(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return what in an environment is misspelt and so counts as unset, one line each; no values of secrets.

    Args:
        environment: Names to values; it may hold settings that are refused.
    """
    level = level_warning(environment)
    return (*(() if level is None else (level,)), *name_warnings(environment))


def start_warnings(settings: NodeSettings, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is dangerous or without effect, one line each; no values of secrets.

    Args:
        settings: The settings.
        environment: What they were read from.
    """
    timing = settings.controller.timing_warning
    return (*(() if timing is None else (timing,)), *unserved(environment))


def _scorer_rows(settings: ScorerSettings, environment: Mapping[str, str]) -> Iterator[Row]:
    for name, field in SCORER_VARIABLES:
        if name.startswith("VMAF"):
            given = bool(environment.get(name, "").strip())
            origin = "environment" if given else "default"
            yield Row(name=name, value=printable(_shown(getattr(settings, field))), origin=origin)


def _shown(value: object) -> str:
    match value:
        case None:
            return _UNSET
        case bool():
            return BOOLEAN.show(value)
        case float():  # the only ones are durations
            return DURATION.show(value)
        case Enum():
            return str(value.value)
        case _:
            return str(value)
