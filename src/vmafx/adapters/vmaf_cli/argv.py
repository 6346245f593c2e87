"""A run to arguments of the `vmaf` command line; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from vmafx.adapters.vmaf_cli.capabilities import Capabilities
from vmafx.domain.scoring import Backend

__all__ = ["NO_GPU_MASK", "RunArguments", "descriptor_path", "run_arguments"]

NO_GPU_MASK: Final = "4294967295"
"""Masks every device: keeps a CUDA build on the CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunArguments:
    """What one run is to do.

    Attributes:
        reference: The path of the reference.
        distorted: The path of the distorted clip.
        model: The value of the model option.
        report: The path of the report.
        threads: Threads of the run.
        subsample: Every how many frames are scored.
        backend: What it runs on.
        progress_fd: The descriptor that hears of progress; None when nobody listens.
    """

    reference: str
    distorted: str
    model: str
    report: str
    threads: int
    subsample: int
    backend: Backend
    progress_fd: int | None = None


def descriptor_path(descriptor: int) -> str:
    """Return the path by which a child opens one of its descriptors."""
    return f"/dev/fd/{descriptor}"


def run_arguments(run: RunArguments, capabilities: Capabilities) -> tuple[str, ...]:
    """Return the arguments of a run, after the program's own.

    Options that the usage text does not name are left out: a stock `vmaf` drops what it does not know and
    goes on, so passing them would prove nothing (ADR 0004).

    Args:
        run: What to do.
        capabilities: What the executable knows.
    """
    arguments = ["-r", run.reference, "-d", run.distorted, "-m", run.model, "-o", run.report, "--json"]
    arguments += ["--threads", str(run.threads)]
    if run.subsample != 1:
        arguments += ["--subsample", str(run.subsample)]
    if capabilities.has("precision"):
        arguments += ["--precision", "max"]
    arguments += _backend(run.backend, capabilities)
    if run.progress_fd is not None and capabilities.has("progress-fd"):
        arguments += ["--progress-fd", str(run.progress_fd)]
    return tuple(arguments)


def _backend(backend: Backend, capabilities: Capabilities) -> list[str]:
    if capabilities.has("backend"):
        return ["--backend", backend.value]
    if backend is Backend.CPU and capabilities.has("gpumask"):
        return ["--gpumask", NO_GPU_MASK]
    return []
