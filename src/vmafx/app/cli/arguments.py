"""What a command line asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from vmafx.domain.scoring import Backend

__all__ = [
    "Arguments",
    "CompletionArguments",
    "ControllerArguments",
    "DoctorArguments",
    "NodeArguments",
    "ScoreArguments",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreArguments:
    """What `vmafx score` was asked for.

    Attributes:
        reference: The reference's path, as written.
        distorted: The distorted clip's path, as written.
        model: The model's name; None means the default.
        threads: Threads of the scorer; None means the setting.
        subsample: Every how many frames are scored.
        backend: The backend; None means the setting.
        as_json: Whether the answer is JSON.
        frames: Whether the answer has the scores of every frame.
        features: Whether the answer has the features.
    """

    reference: str
    distorted: str
    model: str | None = None
    threads: int | None = None
    subsample: int = 1
    backend: Backend | None = None
    as_json: bool = False
    frames: bool = False
    features: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorArguments:
    """What `vmafx doctor` was asked for.

    Attributes:
        as_json: Whether the answer is JSON.
    """

    as_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionArguments:
    """What `vmafx completion` was asked for.

    Attributes:
        shell: The shell.
    """

    shell: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeArguments:
    """What `vmafx node` was asked for.

    Attributes:
        check: Whether to check the configuration only.
    """

    check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerArguments:
    """What `vmafx controller` was asked for.

    Attributes:
        check: Whether to check the configuration only.
    """

    check: bool = False


Arguments: TypeAlias = (
    ScoreArguments | DoctorArguments | CompletionArguments | NodeArguments | ControllerArguments
)
