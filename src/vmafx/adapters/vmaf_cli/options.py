"""ScorerOptions: the policy of one scorer, and the small environment that its children get."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from vmafx.domain.job import ID_BYTES_MAX
from vmafx.domain.scoring import THREADS_MAX, Backend, LengthMismatch
from vmafx.domain.text import shown

__all__ = ["JOB_ID_VARIABLE", "ScorerOptions", "child_environment"]

JOB_ID_VARIABLE: Final = "VMAFX_JOB_ID"
"""Tells people who look at a process what it works for; strays are found by the run's id (ADR 0007)."""

_PATHS: Final = frozenset({"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"})
_NAMES: Final = frozenset({"TMPDIR", *_PATHS})
_PREFIXES: Final = (
    "CUDA_",
    "GPU_",
    "HIP_",
    "HSA_",
    "METAL_",
    "MTL_",
    "NVIDIA_",
    "OMP_",
    "ONEAPI_",
    "ROCM_",
    "ROCR_",
    "SYCL_",
    "ZE_",
    "ZES_",
)
_SECRET_PARTS: Final = ("APIKEY", "CRED", "DSN", "PASSW", "SECRET", "SIGNING", "TOKEN")
_SECRET_WORDS: Final = frozenset(
    {"AUTH", "COOKIE", "KEY", "KEYS", "PASS", "PAT", "PEM", "PRIVATE", "PWD", "SESSION"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerOptions:
    """How clips are scored on this machine.

    Attributes:
        vmaf_binary: The executable that `VMAFX_VMAF_BINARY` names; None when it names none.
        vmaf_bin: The executable that `VMAF_BIN` names; None when it names none.
        search_path: Where `vmaf` is looked for, as in `PATH`.
        model_dir: The directory of model files; None when there is none.
        default_model: The model of requests that name none.
        backend: What every score runs on.
        backend_unverified: Whether the operator vouches for a backend of which the scorer gives no receipt.
        length_mismatch: What happens to clips with different numbers of frames.
        score_timeout_s: How long a run may take, in seconds; 0 means no limit.
        score_threads: Threads of one run, 1 to 1024.
        cache_dir: Where the result of a self-test is kept, an absolute path; None keeps it nowhere.
        environment: The environment of this process; children get the few names of it that
            `child_environment` lets pass.

    Raises:
        ValueError: A number is outside its range, or a member of an enum is something else.
    """

    vmaf_binary: str | None = None
    vmaf_bin: str | None = None
    search_path: str = ""
    model_dir: str | None = None
    default_model: str = "vmaf_v0.6.1"
    backend: Backend = Backend.CPU
    backend_unverified: bool = False
    length_mismatch: LengthMismatch = LengthMismatch.FAIL
    score_timeout_s: float = 1800.0
    score_threads: int = 1
    cache_dir: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def __post_init__(self) -> None:
        _check_member("backend", self.backend, Backend)
        _check_member("length_mismatch", self.length_mismatch, LengthMismatch)
        if not (math.isfinite(self.score_timeout_s) and self.score_timeout_s >= 0):
            raise ValueError(f"score_timeout_s={self.score_timeout_s} must be 0 or more seconds")
        if not 1 <= self.score_threads <= THREADS_MAX:
            raise ValueError(f"score_threads={self.score_threads} must be from 1 to {THREADS_MAX}")


def _check_member(name: str, value: object, kind: type[Enum]) -> None:
    # Callers without a type checker pass the words of settings, which would go wrong much later.
    if not isinstance(value, kind):
        raise ValueError(f"{name}={value!r} must be a {kind.__name__}")  # noqa: TRY004 - as documented


def child_environment(base: Mapping[str, str], *, job_id: str) -> dict[str, str]:
    """Return the whole environment of a scorer process.

    It holds where to find programs and libraries, where temporary files go, what chooses a graphics device,
    the C locale and the job's id: no token, no key, and nothing else of `base`. Relative and empty entries of
    search paths are dropped, since they would mean the working directory.

    Args:
        base: The environment of this process.
        job_id: What people know the run by: the id of its job, or of the run itself outside a job. It is
            made printable and cut to 256 bytes; nothing but people reads it (ADR 0007).
    """
    passed = {name: value for name, value in base.items() if _passes(name)}
    for name in _PATHS & passed.keys():
        passed[name] = ":".join(entry for entry in passed[name].split(":") if entry.startswith("/"))
    return passed | {"LC_ALL": "C", JOB_ID_VARIABLE: shown(job_id, ID_BYTES_MAX)}


def _passes(name: str) -> bool:
    if name in _NAMES:
        return True
    upper = name.upper()
    if any(part in upper for part in _SECRET_PARTS) or not _SECRET_WORDS.isdisjoint(upper.split("_")):
        return False
    return name.startswith(_PREFIXES)
