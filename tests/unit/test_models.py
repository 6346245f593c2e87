"""Which model a name means, and that no name reads another file (ADR 0008)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.adapters.vmaf_cli import models
from vmafx.adapters.vmaf_cli.models import BuiltInModel, Model, ModelFile, model_argument, open_model
from vmafx.domain.errors import ModelError, ScorerUnavailableError

MODEL = '{"model_dict": {}}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "models"
    root.mkdir()
    return root


@pytest.fixture
def opened() -> Iterator[list[Model]]:
    """Holds models to close."""
    held: list[Model] = []
    yield held
    for model in held:
        if isinstance(model, ModelFile):
            os.close(model.descriptor)


def descriptors() -> set[str]:
    return {entry.name for entry in Path("/dev/fd").iterdir()}


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("vmaf_v0.6.1.json", "vmaf_v0.6.1"),
        ("vmaf_v0.6.1.json", "vmaf_v0.6.1.json"),
        ("plain", "plain"),
        ("vmaf_v1.0.16/vmaf_v1.0.16_3d0h.json", "vmaf_v1.0.16_3d0h"),
        ("vmaf_v1.0.16_hfr/vmaf_v1.0.16_hfr_x.json", "vmaf_v1.0.16_hfr_x"),
    ],
)
def test_name_means_the_file_of_the_directory(
    folder: Path, opened: list[Model], file: str, name: str
) -> None:
    path = folder / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(MODEL)
    model = open_model(name, str(folder))
    opened.append(model)
    assert isinstance(model, ModelFile)
    assert (model.name, model.path) == (name, str(path))
    assert os.pread(model.descriptor, 100, 0) == MODEL.encode()


def test_file_with_the_suffix_comes_first(folder: Path, opened: list[Model]) -> None:
    (folder / "m").write_text('{"other": 1}')
    (folder / "m.json").write_text(MODEL)
    opened.append(open_model("m", str(folder)))
    assert model_argument(opened[0], 6) == f"path={folder}/m.json"


def test_name_without_a_file_is_left_to_the_executable(folder: Path) -> None:
    assert open_model("vmaf_v0.6.1", str(folder)) == BuiltInModel(name="vmaf_v0.6.1")
    assert open_model("vmaf_v0.6.1", None) == BuiltInModel(name="vmaf_v0.6.1")
    assert model_argument(BuiltInModel(name="vmaf_v0.6.1"), 6) == "version=vmaf_v0.6.1"


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".hidden",
        "-r",
        "../secret",
        "a/b",
        "a\\b",
        "a..b",
        "/etc/passwd",
        "a:b",
        "a=b",
        "a b",
        "a\n",
        "é",
        "a" * 129,
        "%2e%2e",
    ],
)
def test_text_that_is_no_name_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(ModelError, match=r"^(\".*\" is no model name|a model name is needed)"):
        open_model(name, str(folder))


@given(st.text(max_size=40))
def test_any_text_is_refused_or_names_something_below_the_directory(text: str) -> None:
    try:
        model = open_model(text, None)
    except ModelError:
        return
    assert os.path.normpath(f"/models/{model.name}") == f"/models/{model.name}"
    assert not set(model.name) & set("/\\:= \n\0'|,")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "does not hold a JSON object"),
        ("[]", "does not hold a JSON object"),
        ("{", "does not hold a JSON object"),
        ("[" * 100_000, "does not hold a JSON object"),
        ("\ufffd{}", "does not hold a JSON object"),
    ],
)
def test_file_that_holds_no_object_is_refused_by_name(folder: Path, content: str, reason: str) -> None:
    (folder / "m.json").write_text(content)
    before = descriptors()
    with pytest.raises(ModelError, match=reason) as caught:
        open_model("m", str(folder))
    assert str(folder / "m.json") in str(caught.value)
    assert caught.value.model == "m"
    assert descriptors() == before


def test_file_that_is_no_utf8_is_refused(folder: Path) -> None:
    (folder / "m.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(ModelError, match="does not hold a JSON object"):
        open_model("m", str(folder))


def test_file_above_the_limit_is_refused_unread(
    folder: Path, opened: list[Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "m.json").write_text(MODEL)
    monkeypatch.setattr(models, "MODEL_BYTES_MAX", len(MODEL))
    opened.append(open_model("m", str(folder)))
    monkeypatch.setattr(models, "MODEL_BYTES_MAX", len(MODEL) - 1)
    with pytest.raises(ModelError, match="18 bytes, more than 17"):
        open_model("m", str(folder))


def test_links_within_the_directory_pass(folder: Path, opened: list[Model]) -> None:
    """Kubernetes shows a ConfigMap as links through `..data` into a dated folder."""
    (folder / "..2026").mkdir()
    (folder / "..2026/m.json").write_text(MODEL)
    (folder / "..data").symlink_to("..2026")
    (folder / "m.json").symlink_to("..data/m.json")
    opened.append(open_model("m", str(folder)))
    assert isinstance(opened[0], ModelFile)
    assert opened[0].path == str(folder / "..2026/m.json")


def test_directory_may_itself_be_a_link(folder: Path, tmp_path: Path, opened: list[Model]) -> None:
    (folder / "m.json").write_text(MODEL)
    (tmp_path / "link").symlink_to(folder)
    opened.append(open_model("m", str(tmp_path / "link")))
    assert isinstance(opened[0], ModelFile)
    assert opened[0].path == str(folder / "m.json")


@pytest.mark.parametrize("relative", [True, False])
def test_link_out_of_the_directory_is_refused_with_link_and_target(
    folder: Path, tmp_path: Path, *, relative: bool
) -> None:
    secret = tmp_path / "models-private.json"
    secret.write_text(MODEL)
    (folder / "m.json").symlink_to("../models-private.json" if relative else secret)
    with pytest.raises(ModelError, match="outside VMAFX_MODEL_DIR") as caught:
        open_model("m", str(folder))
    assert str(folder / "m.json") in str(caught.value)
    assert str(secret) in str(caught.value)


def test_linked_family_out_of_the_directory_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/vmaf_v1.0.16_x.json").write_text(MODEL)
    (folder / "vmaf_v1.0.16").symlink_to(tmp_path / "other")
    with pytest.raises(ModelError, match="outside VMAFX_MODEL_DIR"):
        open_model("vmaf_v1.0.16_x", str(folder))


def test_loop_dangling_link_pipe_and_folder_are_refused_at_once(folder: Path) -> None:
    (folder / "loop.json").symlink_to("loop.json")
    (folder / "dangling.json").symlink_to("nowhere.json")
    (folder / "folder.json").mkdir()
    os.mkfifo(folder / "pipe.json")
    before = descriptors()
    for name, reason in [
        ("loop", "symbolic links"),
        ("dangling", "No such file"),
        ("folder", "not a regular file"),
        ("pipe", "not a regular file"),
    ]:
        with pytest.raises(ModelError, match=reason):
            open_model(name, str(folder))
    assert descriptors() == before


def test_unreadable_file_is_refused_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "m.json").write_text(MODEL)

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(models.os, "open", refuse)
    with pytest.raises(ModelError, match=r"m\.json.*Permission denied"):
        open_model("m", str(folder))


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_directory_that_is_not_there_names_the_setting(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ScorerUnavailableError) as caught:
        open_model("m", str(tmp_path / kind))
    assert caught.value.setting == "VMAFX_MODEL_DIR"


@pytest.mark.parametrize(
    "awkward",
    [
        "a:b",
        "a=b",
        "a\\b",
        "a|b",
        "a'b",
        "a,b",
        "a b",
        "a;b",
        "a[b",
        "ä",
        "a%b",
        "x" * 200 + "/" + "y" * 250 + "/" + "z" * 200,
    ],
)
def test_path_with_a_meaning_in_some_grammar_goes_by_descriptor(
    folder: Path, opened: list[Model], awkward: str
) -> None:
    root = folder / awkward
    root.mkdir(parents=True)
    (root / "m.json").write_text(MODEL)
    opened.append(open_model("m", str(root)))
    assert model_argument(opened[0], 6) == "path=/dev/fd/6"


@pytest.mark.parametrize(("bytes_more", "plain"), [(0, True), (1, False)])
def test_plain_path_goes_as_it_is_up_to_512_bytes(bytes_more: int, *, plain: bool) -> None:
    model = ModelFile(name="m", path="/" + "x" * (511 + bytes_more), descriptor=-1)
    assert (model_argument(model, 6) == f"path={model.path}") is plain


def test_plain_path_goes_as_it_is() -> None:
    model = ModelFile(name="m", path="/opt/Models-1.2+x@y/m_v1.json", descriptor=-1)
    assert model_argument(model, 6) == "path=/opt/Models-1.2+x@y/m_v1.json"
