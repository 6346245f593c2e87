"""ScorerSettings: how clips are scored on this machine (ADR 0019).

A plain dataclass, since `vmafx score` must start fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from vmafx.app.settings.checks import check_is, check_seconds, check_whole, refused
from vmafx.app.settings.grammar import EnvironmentReader, boolean, choice, duration_s, integer, together
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.scoring import THREADS_MAX, Backend, LengthMismatch, model_name_problem

__all__ = ["DEFAULT_MODEL", "SCORER_VARIABLES", "SCORE_TIMEOUT_S", "ScorerSettings"]

DEFAULT_MODEL: Final = "vmaf_v0.6.1"
SCORE_TIMEOUT_S: Final = 1800.0
"""How long a run may take unless told otherwise, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerSettings:
    """How clips are scored on this machine.

    Attributes:
        vmaf_binary: The absolute path of the scorer that `VMAFX_VMAF_BINARY` names; None leaves it to the
            look-up.
        vmaf_bin: The same of `VMAF_BIN`, where the one above is None.
        search_path: Where a `vmaf` is looked for, as in `PATH`.
        model_dir: The directory of model files; None when there is none.
        backend: What scores run on.
        backend_unverified: Whether the operator vouches for a backend that no receipt proves.
        length_mismatch: What happens to clips with different numbers of frames.
        default_model: The model of requests that name none.
        timeout_s: How long a run may take, in seconds; 0 means no limit.
        threads: Threads of one run, 1 to 1024; None means as many as this process may use, which a
            node divides by its slots.
        cache_dir: Where the result of a self-test is kept, an absolute path; None keeps it nowhere.

    Raises:
        ConfigurationError: At least one value cannot be honoured; names the variable of every such value.
    """

    vmaf_binary: str | None = None
    vmaf_bin: str | None = None
    search_path: str = ""
    model_dir: str | None = None
    backend: Backend = Backend.CPU
    backend_unverified: bool = False
    length_mismatch: LengthMismatch = LengthMismatch.FAIL
    default_model: str = DEFAULT_MODEL
    timeout_s: float = SCORE_TIMEOUT_S
    threads: int | None = None
    cache_dir: str | None = None

    def __post_init__(self) -> None:
        problems: list[ConfigurationError] = []
        for setting, field, check in _CHECKS:
            try:
                check(setting, getattr(self, field))
            except ConfigurationError as problem:
                problems.append(problem)
        if problems:
            raise together(problems)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> ScorerSettings:
        """Read the settings from environment variables.

        Args:
            environment: Names to values, such as `os.environ`.

        Raises:
            ConfigurationError: At least one value cannot be understood; names every such variable.
        """
        read = EnvironmentReader(environment)
        settings = cls(
            vmaf_binary=read.value("VMAFX_VMAF_BINARY", _absolute, None),
            vmaf_bin=read.value("VMAF_BIN", _absolute, None),
            search_path=environment.get("PATH", ""),
            model_dir=read.value("VMAFX_MODEL_DIR", _absolute, None),
            backend=read.value("VMAFX_BACKEND", _backend, Backend.CPU),
            backend_unverified=read.value("VMAFX_BACKEND_UNVERIFIED", boolean, default=False),
            length_mismatch=read.value("VMAFX_LENGTH_MISMATCH", _length_mismatch, LengthMismatch.FAIL),
            default_model=read.value("VMAFX_DEFAULT_MODEL", _model_name, DEFAULT_MODEL),
            timeout_s=read.value("VMAFX_SCORE_TIMEOUT", duration_s, SCORE_TIMEOUT_S),
            threads=read.value("VMAFX_SCORE_THREADS", _threads, None),
            cache_dir=_cache_dir(read),
        )
        read.finish()
        return settings


def _threads(name: str, text: str) -> int | None:
    return integer(1, THREADS_MAX)(name, text)


def _absolute(name: str, text: str) -> str | None:
    _check_path(name, text)
    return text


def _model_name(name: str, text: str) -> str:
    _check_model(name, text)
    return text


def _cache_dir(read: EnvironmentReader) -> str | None:
    """The XDG rule: a relative directory counts as unset."""
    cache, home = read.text("XDG_CACHE_HOME") or "", read.text("HOME") or ""
    if cache.startswith("/"):
        return f"{cache.rstrip('/')}/vmafx"
    return f"{home.rstrip('/')}/.cache/vmafx" if home.startswith("/") else None


_backend: Final = choice(Backend, "is not a backend; use one of {words}")
_length_mismatch: Final = choice(LengthMismatch, "must be one of {words}")


# ---------------------------------------------------------------- what values must be, read or made by hand


def _check_path(name: str, value: object) -> None:
    if value is not None and not (isinstance(value, str) and value.startswith("/")):
        raise refused(name, "is not an absolute path", value)


def _check_model(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise refused(name, "is not the name of a model", value)
    problem = model_name_problem(value)
    if problem is not None:
        raise ConfigurationError(name, problem)


def _check_threads(name: str, value: object) -> None:
    if value is not None:
        check_whole(1, THREADS_MAX)(name, value)


_CHECKS: Final[tuple[tuple[str, str, Callable[[str, object], None]], ...]] = (
    ("VMAFX_VMAF_BINARY", "vmaf_binary", _check_path),
    ("VMAF_BIN", "vmaf_bin", _check_path),
    ("PATH", "search_path", check_is(str)),
    ("VMAFX_MODEL_DIR", "model_dir", _check_path),
    ("VMAFX_BACKEND", "backend", check_is(Backend)),
    ("VMAFX_BACKEND_UNVERIFIED", "backend_unverified", check_is(bool)),
    ("VMAFX_LENGTH_MISMATCH", "length_mismatch", check_is(LengthMismatch)),
    ("VMAFX_DEFAULT_MODEL", "default_model", _check_model),
    ("VMAFX_SCORE_TIMEOUT", "timeout_s", check_seconds),
    ("VMAFX_SCORE_THREADS", "threads", _check_threads),
    ("XDG_CACHE_HOME", "cache_dir", _check_path),
)
"""The variable that each field comes from, and what refuses its value."""

SCORER_VARIABLES: Final[tuple[tuple[str, str], ...]] = tuple(
    (setting, field) for setting, field, _ in _CHECKS
)
"""The variables and the fields that hold their values."""
