"""Report and models are opened before any work, and what an earlier run left is never kept (ADR 0009)."""

from __future__ import annotations

import json
import os

import pytest

from tests.engine import whole_model
from vmafx.adapters.vmaf_cli import engine_files
from vmafx.adapters.vmaf_cli.engine_arguments import Arguments, Model
from vmafx.adapters.vmaf_cli.engine_clips import look_at
from vmafx.adapters.vmaf_cli.engine_files import handed_down, open_model, open_report
from vmafx.domain.errors import ConfigurationError


@pytest.fixture
def report(tmp_path):
    """Open a report for a run over two clips, which need not exist, and close it again."""
    opened = []

    def report(output, *, models=(), reference=tmp_path / "ref", distorted=tmp_path / "dis"):
        arguments = Arguments(
            reference=str(reference),
            distorted=str(distorted),
            output=None if output is None else str(output),
            models=tuple(Model(path=str(path)) for path in models),
        )
        opened.append(open_report(arguments, [look_at(str(reference)), look_at(str(distorted))]))
        return opened[-1]

    yield report
    for descriptor in opened:
        if descriptor is not None:
            os.close(descriptor)


def test_without_an_output_there_is_no_report(report):
    assert report(None) is None


def test_a_stale_report_is_emptied(report, tmp_path):
    (tmp_path / "report").write_text("stale")
    report(tmp_path / "report")
    assert (tmp_path / "report").read_bytes() == b""


def test_a_new_report_is_made(report, tmp_path):
    os.write(report(tmp_path / "report"), b"written")
    assert (tmp_path / "report").read_bytes() == b"written"


def test_a_link_to_a_report_is_followed(report, tmp_path):
    (tmp_path / "link").symlink_to("report")
    report(tmp_path / "link")
    assert (tmp_path / "report").read_bytes() == b""


def test_a_device_is_a_report_too(report):
    assert report("/dev/null") is not None


def test_a_report_that_cannot_be_written_is_refused_with_its_reason(report, tmp_path):
    for path, reason in {
        tmp_path / "missing" / "report": "No such file or directory",
        tmp_path: "Is a directory",
        "/proc/version/report": "Not a directory",
        tmp_path / ("n" * 300): "File name too long",
    }.items():
        with pytest.raises(ConfigurationError, match=f"^--output: .*: {reason}$"):
            report(path)


@pytest.mark.parametrize("link", ["itself", "hard", "symbolic"])
@pytest.mark.parametrize("what", ["reference", "distorted", "model"])
def test_an_input_is_never_overwritten(report, tmp_path, link, what):
    given = tmp_path / "input"
    given.write_text("precious")
    output = tmp_path / "output"
    if link == "itself":
        output = given
    elif link == "hard":
        output.hardlink_to(given)
    else:
        output.symlink_to(given)
    more = {"models": [given]} if what == "model" else {what: given}
    with pytest.raises(ConfigurationError, match="is the same file as"):
        report(output, **more)
    assert given.read_text() == "precious"


def test_a_descriptor_that_was_never_open_cannot_name_the_report(report, tmp_path):
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)  # the next file that is opened gets this number
    opened = report(tmp_path / "report", reference=f"/dev/fd/{lowest}")
    assert opened == lowest
    assert look_at(f"/dev/fd/{lowest}").status is not None


# ---------------------------------------------------------------- models


def test_a_built_in_model_has_no_file():
    assert open_model(Model(version="vmaf_v0.6.1")) is None


def test_a_model_may_be_under_a_link(tmp_path):
    (tmp_path / "model").write_text(json.dumps(whole_model()))
    (tmp_path / "link").symlink_to("model")
    descriptor = open_model(Model(path=str(tmp_path / "link")))
    assert descriptor is not None
    assert json.loads(os.read(descriptor, 1000)) == whole_model()  # read from its start
    os.close(descriptor)


def test_a_file_that_is_no_model_is_refused_by_name(tmp_path):
    (tmp_path / "my model").write_text("[]")
    with pytest.raises(ConfigurationError, match=r'^--model: ".*/my model": malformed: no model_dict$'):
        open_model(Model(path=str(tmp_path / "my model")))


def test_a_model_that_is_no_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, reason in {
        tmp_path / "missing": "No such file or directory",
        tmp_path: "no regular file",
        tmp_path / "pipe": "no regular file",
        "/dev/null": "no regular file",
    }.items():
        with pytest.raises(ConfigurationError, match=f"^--model: .*: {reason}"):
            open_model(Model(path=str(path)))


def test_a_model_has_a_limit_in_size(tmp_path, monkeypatch):
    monkeypatch.setattr(engine_files, "MODEL_BYTES_MAX", 10)
    (tmp_path / "model").write_text(json.dumps(whole_model()))
    with pytest.raises(ConfigurationError, match="a model has at most 10"):
        open_model(Model(path=str(tmp_path / "model")))


def test_what_is_handed_down_is_inherited():
    reader, writer = os.pipe()
    assert handed_down(reader) == f"/dev/fd/{reader}"
    assert os.get_inheritable(reader)
    assert not os.get_inheritable(writer)
    assert handed_down(None) is None
    os.close(reader)
    os.close(writer)
    with pytest.raises(OSError):
        handed_down(reader)
