"""Which model a name means: a file of the model directory, or one built into the executable (ADR 0008)."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from vmafx.adapters.vmaf_cli.argv import descriptor_path
from vmafx.adapters.vmaf_cli.unnamed import file_chunks
from vmafx.domain.errors import ModelError, ScorerUnavailableError
from vmafx.domain.scoring import model_name_problem
from vmafx.domain.text import printable, quoted

__all__ = [
    "MODEL_BYTES_MAX",
    "MODEL_DIR_SETTING",
    "BuiltInModel",
    "Model",
    "ModelFile",
    "model_argument",
    "open_model",
    "refused_model",
]

MODEL_DIR_SETTING: Final = "VMAFX_MODEL_DIR"
MODEL_BYTES_MAX: Final = 16 * 1024 * 1024
"""Largest model file, in bytes."""

_FAMILIES: Final = (("vmaf_v1.0.16_hfr_", "vmaf_v1.0.16_hfr"), ("vmaf_v1.0.16_", "vmaf_v1.0.16"))
"""Names that start so may lie in the folder of their family; the first that fits decides."""

_PLAIN_PATH: Final = re.compile(r"/[A-Za-z0-9_./@+-]*")
"""Paths that mean themselves in the option grammar of every known executable."""
_PLAIN_PATH_BYTES_MAX: Final = 512
"""The stock executable cuts a model option at 1,024 bytes."""


_NOT_LOADED: Final = re.compile(
    r"(?:could not (?:find|load|open|parse|read)|problem (?:loading|reading)) (?:built-in |libvmaf )?model",
    re.IGNORECASE,
)
"""How the known executables say that they have no use for a model."""
_REFUSED: Final = re.compile(r"^vmafx-vmaf: --model: (.*)$", re.MULTILINE)
"""How the embedded engine says the same, with its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A model file that was opened and looked at.

    Attributes:
        name: The model's name.
        path: The file's real path.
        descriptor: An open descriptor of it; whoever has the model closes it.
    """

    name: str
    path: str
    descriptor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInModel:
    """A model that the executable is asked to have.

    Attributes:
        name: The model's name.
    """

    name: str


Model: TypeAlias = ModelFile | BuiltInModel


def open_model(name: str, model_dir: str | None) -> Model:
    """Return the model that a name means.

    The first of `<dir>/<name>.json`, `<dir>/<name>` and `<dir>/<family>/<name>.json` that exists is it, and
    must be good; without one, the executable is asked for a model of that name.

    Args:
        name: The name as asked for.
        model_dir: The directory of model files; None when there is none.

    Raises:
        ModelError: The text is no model name, or the file it means is not a regular file of the directory, is
            too large, cannot be read, or holds no JSON object.
        ScorerUnavailableError: The model directory is not there.
    """
    problem = model_name_problem(name)
    if problem is not None:
        raise ModelError(name, problem)
    if model_dir is None:
        return BuiltInModel(name=name)
    root = _real_directory(model_dir)
    for path in _candidates(name, model_dir):
        if os.path.lexists(path):
            return _open_file(name, path, root)
    return BuiltInModel(name=name)


def model_argument(model: Model, child_descriptor: int) -> str:
    """Return the value of the model option.

    Args:
        model: The model.
        child_descriptor: The descriptor by which the child has the model's file.
    """
    match model:
        case BuiltInModel(name=name):
            return f"version={name}"
        case ModelFile(path=path) if _PLAIN_PATH.fullmatch(path) and len(path) <= _PLAIN_PATH_BYTES_MAX:
            return f"path={path}"
        case ModelFile():
            return f"path={descriptor_path(child_descriptor)}"


def refused_model(model: Model, words: str, *, model_dir: str | None, executable: str) -> ModelError | None:
    """Return the error of a run that failed because of its model; None when its last words speak of none.

    Args:
        model: The model.
        words: The run's last words, fit to be shown.
        model_dir: The directory of model files; None when there is none.
        executable: What ran, in words.
    """
    if found := _REFUSED.search(words):
        return ModelError(model.name, f"model {quoted(model.name)}: {executable} cannot use it: {found[1]}")
    if _NOT_LOADED.search(words) is None:
        return None
    if isinstance(model, ModelFile):
        return _bad(model.name, model.path, f"{executable} cannot load it")
    where = "unset" if model_dir is None else printable(model_dir)
    return ModelError(
        model.name,
        f'libvmaf: model {quoted(model.name)} not found (modelDir="{printable(model_dir or "")}"): '
        f"neither in {MODEL_DIR_SETTING} ({where}) nor built into {executable}",
    )


def _real_directory(model_dir: str) -> str:
    try:
        root = os.path.realpath(model_dir, strict=True)
        if stat.S_ISDIR(os.lstat(root).st_mode):
            return root
        problem = "not a directory"
    except OSError as error:
        problem = error.strerror or str(error)
    raise ScorerUnavailableError(MODEL_DIR_SETTING, f"{quoted(model_dir)}: {problem}")


def _candidates(name: str, model_dir: str) -> Iterator[str]:
    yield f"{model_dir}/{name}.json"
    yield f"{model_dir}/{name}"
    for prefix, family in _FAMILIES:
        if name.startswith(prefix):
            yield f"{model_dir}/{family}/{name}.json"
            return


def _open_file(name: str, path: str, root: str) -> ModelFile:
    try:
        real = os.path.realpath(path, strict=True)
        if not real.startswith(root.rstrip("/") + "/"):
            raise _bad(name, path, f"it leads to {quoted(real)}, outside {MODEL_DIR_SETTING}")
        # O_NONBLOCK: opening a pipe must not wait for its writer.
        descriptor = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            _check_content(name, path, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise _bad(name, path, error.strerror or str(error)) from error
    return ModelFile(name=name, path=real, descriptor=descriptor)


def _check_content(name: str, path: str, descriptor: int) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise _bad(name, path, "not a regular file")
    if status.st_size > MODEL_BYTES_MAX:
        raise _bad(name, path, f"{status.st_size} bytes, more than {MODEL_BYTES_MAX}")
    try:
        content = json.loads(b"".join(file_chunks(descriptor)))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise _bad(name, path, "it does not hold a JSON object")


def _bad(name: str, path: str, problem: str) -> ModelError:
    return ModelError(name, f"model {quoted(name)}: {quoted(path)}: {problem}")
