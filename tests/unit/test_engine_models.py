"""An incomplete model is refused, since the library would score with it or crash (ADR 0009)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine import whole_model
from vmafx.adapters.vmaf_cli.engine_models import model_problem

NO_JSON = "malformed: a model is a JSON file"
PARTS = ("feature_names", "slopes", "intercepts", "norm_type", "model")


def with_part(part, value) -> bytes:
    content = whole_model()
    content["model_dict"][part] = value
    return json.dumps(content).encode()


def test_a_whole_model_passes():
    assert model_problem(json.dumps(whole_model()).encode()) == ""


def test_a_model_that_is_not_rescaled_needs_no_slopes():
    content = whole_model()
    content["model_dict"]["norm_type"] = "none"
    del content["model_dict"]["slopes"], content["model_dict"]["intercepts"]
    assert model_problem(json.dumps(content).encode()) == ""


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", NO_JSON),
        (b"\x80\x04K\x01.", NO_JSON),
        (b'{"model_dict": ', NO_JSON),
        (b"[" * 200_000, NO_JSON),
        (b"\xff\xfe", NO_JSON),
        (b"[]", "malformed: no model_dict"),
        (b'"model_dict"', "malformed: no model_dict"),
        (b"{}", "malformed: no model_dict"),
        (b'{"model_dict": null}', "malformed: no model_dict"),
        (b'{"model_dict": []}', "malformed: feature_names"),
        (b'{"model_dict": {}}', "malformed: feature_names"),
        (b'{"0": {"model_dict": {}}, "1": {}}', "collections of models are not supported"),
    ],
    ids=lambda value: value[:12].hex() if isinstance(value, bytes) else "",
)
def test_what_is_no_model_is_told(content, problem):
    assert model_problem(content) == problem


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_missing_or_of_another_kind_is_named(part):
    content = whole_model()
    del content["model_dict"][part]
    assert model_problem(json.dumps(content).encode()) == f"malformed: {part}"
    for value in (
        None,
        True,
        1,
        "",
        "text",
        [],
        {},
        [None],
        [True, True, True],
        ["1", "2", "3"],
        [[1], 2, 3],
    ):
        problem = model_problem(with_part(part, value))
        assert problem.startswith("malformed: ") or (part == "feature_names" and value == ["1", "2", "3"])


@pytest.mark.parametrize("part", ["slopes", "intercepts"])
@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_each_feature_and_the_score_need_a_number(part, count):
    assert model_problem(with_part(part, [1.0] * count)) == f"malformed: {part}"


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda values: (
        st.lists(values, max_size=3) | st.dictionaries(st.sampled_from(["model_dict", "0", *PARTS]), values)
    ),
    max_leaves=8,
)


@given(JSON)
def test_no_content_is_too_odd_to_be_judged(content):
    assert model_problem(json.dumps({"model_dict": content}).encode())
    assert model_problem(json.dumps(content).encode())
