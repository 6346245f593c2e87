"""Part: settings that belong together; each field says which variable it comes from (ADR 0019).

One declaration serves reading, checking and showing, so that a value made by hand is held to the same rules
as one that was read, and a variable cannot be read without being shown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from vmafx.app.settings.forms import Form
from vmafx.app.settings.grammar import NOT_A_BOOLEAN, NOT_A_DURATION, EnvironmentReader, together
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.text import quoted

__all__ = ["Part", "Rule", "Variable", "optional", "part", "required", "setting", "variables_of"]

Value = TypeVar("Value")
_VARIABLE: Final = "variable"
_PART: Final = "part"
_PLAINER: Final[Mapping[str, str]] = {
    NOT_A_BOOLEAN: f"{NOT_A_BOOLEAN}: write true or false",
    NOT_A_DURATION: "is not a duration (examples: 500ms, 10s, 720h)",
}
"""For variables of which the contract has no words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable(Generic[Value]):
    """Where the value of a field comes from.

    Attributes:
        name: The environment variable.
        form: The form of its values.
        default: The value without it; None when there is none.
        key: How messages call the setting, such as `controller.rpc_timeout`; empty for the name itself.
        group: What its problems are told behind; empty for nothing.
        fallbacks: Variables that count while this one is unset, the first that is set first.
        zero_is_default: Whether the value 0 means the default.
        needed: What is wrong when there is no value; None when it may be missing.
    """

    name: str
    form: Form[Value]
    default: Value | None = None
    key: str = ""
    group: str = ""
    fallbacks: tuple[str, ...] = ()
    zero_is_default: bool = False
    needed: str | None = None

    def source(self, environment: Mapping[str, str]) -> str | None:
        """Return the variable of an environment that the value comes from; None for the default."""
        names = (self.name, *self.fallbacks)
        return next((name for name in names if environment.get(name, "").strip()), None)

    def read(self, environment: EnvironmentReader) -> Value | None:
        """Return the value in an environment.

        Raises:
            ConfigurationError: It cannot be understood, or is missing.
        """
        texts = ((name, environment.text(name)) for name in (self.name, *self.fallbacks))
        name, text = next(((name, text) for name, text in texts if text is not None), (self.name, None))
        if text is None:
            if self.needed is not None:
                raise ConfigurationError(self.name, self.needed, group=self.group)
            return self.default
        try:
            value = self.form.parse(name, text)
        except ConfigurationError as problem:
            raise self.told(problem) from None
        return self.default if self.zero_is_default and not value else value

    def check(self, value: object) -> None:
        """Refuse a value made by hand that the variable could not have.

        Raises:
            ConfigurationError: It is one; names the variable.
        """
        if value is None and self.default is None and self.needed is None:
            return
        try:
            self.form.check(self.name, value)
        except ConfigurationError as problem:
            raise self.told(problem) from None

    def told(self, problem: ConfigurationError) -> ConfigurationError:
        """Return a problem in the words that the contract has for this variable, or in plainer ones."""
        if not self.key or problem.named:
            return ConfigurationError(
                problem.setting,
                _PLAINER.get(problem.problem, problem.problem),
                value=problem.value,
                group=self.group,
                named=problem.named,
            )
        shown = self.key if problem.value is None else f"{self.key}={quoted(problem.value)}"
        return ConfigurationError(problem.setting, f"{shown} {problem.problem}", group=self.group)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What several fields must be together.

    Attributes:
        fields: The fields that it looks at; it is left alone while one of them is wrong by itself.
        broken: Tells what is wrong with them.
    """

    fields: frozenset[str]
    broken: Callable[[], Iterable[ConfigurationError]]


class _FromEnvironment(Protocol):
    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Settings that belong together.

    Raises:
        ConfigurationError: At least one value cannot be honoured; names the variable of every such value.
    """

    def __post_init__(self) -> None:
        wrong: dict[str, ConfigurationError] = {}
        for field in dataclasses.fields(self):
            try:
                _check_field(field, getattr(self, field.name))
            except ConfigurationError as problem:
                wrong[field.name] = problem
        problems = (*wrong.values(), *self._broken_rules(wrong))
        if problems:
            raise together(problems)

    def rules(self) -> tuple[Rule, ...]:
        """Return what the fields must be together."""
        return ()

    @classmethod
    def read(cls, environment: EnvironmentReader) -> Self:
        """Return the part in an environment; what is wrong is kept by the reader.

        Args:
            environment: Its `finish` must follow: until then wrong values are replaced by defaults.
        """
        draft = object.__new__(cls)  # the rules that only wrong fields break are left out of the telling
        wrong: set[str] = set()
        for field in dataclasses.fields(cls):
            known = environment.problems
            value, problems = _read_field(field, environment)
            object.__setattr__(draft, field.name, value)
            environment.refuse(*problems)
            if environment.problems > known:
                wrong.add(field.name)
        environment.refuse(*draft._broken_rules(wrong))
        return draft

    def _broken_rules(self, wrong: Iterable[str]) -> Iterator[ConfigurationError]:
        known = frozenset(wrong)
        for rule in self.rules():
            if not rule.fields & known:
                yield from rule.broken()


def setting(  # noqa: PLR0913 - what a variable can have
    name: str,
    form: Form[Value],
    default: Value,
    *,
    key: str = "",
    group: str = "",
    fallbacks: tuple[str, ...] = (),
    zero_is_default: bool = False,
) -> Value:
    """Declare a field that comes from a variable and always has a value; see `Variable`."""
    variable = Variable(
        name=name,
        form=form,
        default=default,
        key=key,
        group=group,
        fallbacks=fallbacks,
        zero_is_default=zero_is_default,
    )
    return dataclasses.field(default=default, metadata={_VARIABLE: variable})


def optional(  # noqa: PLR0913 - the same
    name: str,
    form: Form[Value],
    *,
    key: str = "",
    group: str = "",
    fallbacks: tuple[str, ...] = (),
    shown: bool = True,
) -> Value | None:
    """Declare a field that comes from a variable and is None without it; see `Variable`.

    Args:
        name: The same as of `Variable`, as the others are.
        form: The same.
        key: The same.
        group: The same.
        fallbacks: The same.
        shown: Whether the repr of the part shows it.
    """
    variable = Variable(name=name, form=form, key=key, group=group, fallbacks=fallbacks)
    return dataclasses.field(default=None, metadata={_VARIABLE: variable}, repr=shown)


def required(name: str, form: Form[Value], needed: str, *, key: str = "", group: str = "") -> Value:
    """Declare a field that must be given; see `Variable`."""
    variable = Variable(name=name, form=form, key=key, group=group, needed=needed)
    field: Value = dataclasses.field(metadata={_VARIABLE: variable})
    return field


def part(kind: type[Value]) -> Value:
    """Declare a field that is a part itself, or settings with `from_environment`."""
    return dataclasses.field(default_factory=kind, metadata={_PART: kind})


def variables_of(settings: Part | type[Part]) -> Iterator[tuple[Variable[Any], tuple[str, ...]]]:
    """Walk through the variables of a part and of the parts in it.

    Yields:
        Each variable, with the names of the fields that lead to its value.
    """
    for field in dataclasses.fields(settings):
        if _VARIABLE in field.metadata:
            yield field.metadata[_VARIABLE], (field.name,)
        elif issubclass(field.metadata[_PART], Part):
            for variable, path in variables_of(field.metadata[_PART]):
                yield variable, (field.name, *path)


def _check_field(field: dataclasses.Field[Any], value: object) -> None:
    variable: Variable[Any] | None = field.metadata.get(_VARIABLE)
    if variable is not None:
        variable.check(value)
        return
    kind: type[object] = field.metadata[_PART]
    if not isinstance(value, kind):
        raise ConfigurationError(field.name, f"is not a {kind.__name__}")


def _read_field(
    field: dataclasses.Field[Any], environment: EnvironmentReader
) -> tuple[object, tuple[ConfigurationError, ...]]:
    variable: Variable[Any] | None = field.metadata.get(_VARIABLE)
    try:
        if variable is not None:
            return variable.read(environment), ()
        kind: Any = field.metadata[_PART]
        if issubclass(kind, Part):
            return kind.read(environment), ()
        other: type[_FromEnvironment] = kind
        return other.from_environment(environment.environment), ()
    except ConfigurationError as problem:
        default: object = None if field.default is MISSING else field.default
        return default, problem.all
