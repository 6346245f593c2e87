"""ScorerSettings: how clips are scored on this machine.

A plain dataclass, since `vmafx score` must start fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from vmafx.app.settings.grammar import EnvironmentReader, boolean, choice, duration_s, integer
from vmafx.domain.scoring import THREADS_MAX, Backend, LengthMismatch

__all__ = ["DEFAULT_MODEL", "SCORE_TIMEOUT_S", "ScorerSettings"]

DEFAULT_MODEL: Final = "vmaf_v0.6.1"
SCORE_TIMEOUT_S: Final = 1800.0
"""How long a run may take unless told otherwise, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerSettings:
    """How clips are scored on this machine.

    Attributes:
        vmaf_binary: The scorer that `VMAFX_VMAF_BINARY` names; None leaves it to the look-up.
        vmaf_bin: The scorer that `VMAF_BIN` names, where the one above is None.
        search_path: Where a `vmaf` is looked for, as in `PATH`.
        model_dir: The directory of model files; None when there is none.
        backend: What scores run on.
        backend_unverified: Whether the operator vouches for a backend that no receipt proves.
        length_mismatch: What happens to clips with different numbers of frames.
        default_model: The model of requests that name none.
        timeout_s: How long a run may take, in seconds; 0 means no limit.
        threads: Threads of one run, 1 to 1024; None means as many as this process may use.
        cache_dir: Where the result of a self-test is kept, an absolute path; None keeps it nowhere.
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
            vmaf_binary=read.text("VMAFX_VMAF_BINARY"),
            vmaf_bin=read.text("VMAF_BIN"),
            search_path=environment.get("PATH", ""),
            model_dir=read.text("VMAFX_MODEL_DIR"),
            backend=read.value("VMAFX_BACKEND", _backend, Backend.CPU),
            backend_unverified=read.value("VMAFX_BACKEND_UNVERIFIED", boolean, default=False),
            length_mismatch=read.value("VMAFX_LENGTH_MISMATCH", _length_mismatch, LengthMismatch.FAIL),
            default_model=read.text("VMAFX_DEFAULT_MODEL") or DEFAULT_MODEL,
            timeout_s=read.value("VMAFX_SCORE_TIMEOUT", duration_s, SCORE_TIMEOUT_S),
            threads=read.value("VMAFX_SCORE_THREADS", _threads, None),
            cache_dir=_cache_dir(read),
        )
        read.finish()
        return settings


def _threads(name: str, text: str) -> int | None:
    return integer(1, THREADS_MAX)(name, text)


def _cache_dir(read: EnvironmentReader) -> str | None:
    """The XDG rule: a relative directory counts as unset."""
    cache, home = read.text("XDG_CACHE_HOME") or "", read.text("HOME") or ""
    if cache.startswith("/"):
        return f"{cache.rstrip('/')}/vmafx"
    return f"{home.rstrip('/')}/.cache/vmafx" if home.startswith("/") else None


_backend: Final = choice(Backend, "is not a backend; use one of {words}")
_length_mismatch: Final = choice(LengthMismatch, "must be one of {words}")
