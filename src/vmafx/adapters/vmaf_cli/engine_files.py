"""The files that FFmpeg gets as open descriptors: the report and the models (ADR 0009).

So a report that cannot be written is found before any work is done, and no file name, however odd, has to be
written inside a filter's argument.
"""

# pathlib would double the start-up time; json is needed for model files only.
# ruff: noqa: PLC0415, PTH116

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from typing import Final

from vmafx.adapters.vmaf_cli.engine_arguments import Arguments, Model
from vmafx.adapters.vmaf_cli.engine_clips import FoundFile, look_at
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.text import quoted

__all__ = ["MODEL_BYTES_MAX", "handed_down", "open_model", "open_report"]

MODEL_BYTES_MAX: Final = 64 * 1024 * 1024
"""Largest model file, in bytes."""


def open_report(arguments: Arguments, clips: Iterable[FoundFile]) -> int | None:
    """Open the report and empty it, so that what an earlier run left there is never taken for this run's.

    Args:
        arguments: The run.
        clips: Its clips.

    Returns:
        A descriptor to write the report to; None when there is to be no report.

    Raises:
        ConfigurationError: It cannot be written, or it is an input of the run.
    """
    path = arguments.output
    if path is None:
        return None
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode):
            _refuse_input_as_report(path, found, [*clips, *_model_files(arguments)])
            os.ftruncate(descriptor, 0)
    except OSError as error:
        raise ConfigurationError("--output", f"{quoted(path)}: {error.strerror}") from error
    return descriptor


def _model_files(arguments: Arguments) -> Iterator[FoundFile]:
    return (look_at(model.path) for model in arguments.models if model.path is not None)


def _refuse_input_as_report(path: str, report: os.stat_result, inputs: Iterable[FoundFile]) -> None:
    for found in inputs:
        if found.status is not None and os.path.samestat(report, found.status):
            raise ConfigurationError("--output", f"{quoted(path)} is the same file as {quoted(found.path)}")


def open_model(model: Model) -> int | None:
    """Open a model's file, which must be a whole model.

    Args:
        model: The model.

    Returns:
        A descriptor to read the model from; None when it is a built-in one.

    Raises:
        ConfigurationError: There is no such file, or it is no model that can be honoured.
    """
    if model.path is None:
        return None
    from vmafx.adapters.vmaf_cli.engine_models import model_problem

    try:
        descriptor = os.open(model.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        found = os.fstat(descriptor)
        regular = stat.S_ISREG(found.st_mode)
        data = os.pread(descriptor, min(found.st_size, MODEL_BYTES_MAX), 0) if regular else b""
    except OSError as error:
        raise ConfigurationError("--model", f"{quoted(model.path)}: {error.strerror}") from error
    if not regular:
        raise ConfigurationError("--model", f"{quoted(model.path)}: no regular file")
    if found.st_size > MODEL_BYTES_MAX:
        problem = f"{found.st_size} bytes: a model has at most {MODEL_BYTES_MAX}"
    else:
        problem = model_problem(data)
    if problem:
        raise ConfigurationError("--model", f"{quoted(model.path)}: {problem}")
    return descriptor


def handed_down(descriptor: int | None) -> str | None:
    """Let FFmpeg inherit a descriptor.

    Args:
        descriptor: The descriptor; None when there is nothing to hand down.

    Returns:
        The path under which FFmpeg finds it.

    Raises:
        OSError: This machine has no such path.
    """
    if descriptor is None:
        return None
    path = f"/dev/fd/{descriptor}"
    os.stat(path)  # without /dev FFmpeg would end in success and leave no report
    os.set_inheritable(descriptor, True)  # noqa: FBT003 - the only way to call it
    return path
