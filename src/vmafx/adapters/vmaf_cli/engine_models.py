"""Whether a model file is whole (ADR 0009).

libvmaf takes incomplete ones: without slopes, or with a name too few, it gives a score, only not a true one,
and without support vectors it crashes.
"""

from __future__ import annotations

import json
from typing import Final, cast

__all__ = ["model_problem"]

_NORMS: Final = ("linear_rescale", "none")
_VECTORS_START: Final = "svm_type "
_COLLECTION_KEY: Final = "0"


def model_problem(data: bytes) -> str:
    """Return what is wrong with the content of a model file, in words; empty when nothing is."""
    try:
        content: object = json.loads(data)
    except (ValueError, RecursionError):
        return "malformed: a model is a JSON file"
    model = _member(content, "model_dict")
    if model is None:
        is_collection = _member(content, _COLLECTION_KEY) is not None
        return "collections of models are not supported" if is_collection else "malformed: no model_dict"
    part = _bad_part(model)
    return f"malformed: {part}" if part else ""


def _member(content: object, key: str) -> object:
    return cast("dict[str, object]", content).get(key) if isinstance(content, dict) else None


def _bad_part(model: object) -> str:
    names = _list(_member(model, "feature_names"))
    if not names or not all(isinstance(name, str) for name in names):
        return "feature_names"
    vectors = _member(model, "model")
    if not isinstance(vectors, str) or not vectors.startswith(_VECTORS_START):
        return "model"
    norm = _member(model, "norm_type")
    if norm not in _NORMS:
        return "norm_type"
    if norm == "none":
        return ""
    for part in ("slopes", "intercepts"):  # one for the score and one for each feature
        values = _list(_member(model, part))
        if len(values) != len(names) + 1 or not all(_is_number(value) for value in values):
            return part
    return ""


def _list(values: object) -> list[object]:
    return cast("list[object]", values) if isinstance(values, list) else []


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
