"""What holds for every source reference, whatever the text (ADR 0011)."""

from __future__ import annotations

import contextlib
import unicodedata
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import assume, given, settings

from tests.unit.source_texts import any_text, elements, references, remote_like, web_like
from vmafx.domain.errors import SourceSyntaxError
from vmafx.domain.source import SHOWN_BYTES_MAX, SourceKind, SourceRef, shown_source

MANY = settings(max_examples=200, deadline=None)


def parsed(text: str) -> SourceRef:
    try:
        return SourceRef.parse(text)
    except SourceSyntaxError:
        assume(False)  # noqa: FBT003 - hypothesis's own way to pass over an example
        raise


@MANY
@given(any_text)
def test_parse_raises_nothing_but_a_syntax_error(text: str) -> None:
    with contextlib.suppress(SourceSyntaxError):
        SourceRef.parse(text)


@MANY
@given(references)
def test_every_well_formed_reference_is_accepted(text: str) -> None:
    SourceRef.parse(text)


@MANY
@given(any_text | references)
def test_canonical_text_parses_to_the_canonical_form(text: str) -> None:
    ref = parsed(text)
    again = SourceRef.parse(ref.canonical)
    assert again.form == ref.form
    assert again.canonical == ref.canonical


@MANY
@given(any_text | references)
def test_accepted_text_parses_to_itself_again(text: str) -> None:
    ref = parsed(text)
    assert SourceRef.parse(ref.text) == ref
    assert SourceRef.parse(f"\n {text}\t") == ref


@MANY
@given(any_text | references)
def test_no_accepted_path_holds_what_leads_elsewhere(text: str) -> None:
    ref = parsed(text)
    assert ref.path.startswith("/")
    assert not {"", ".", ".."} & set(ref.path[1:].split("/") if ref.path != "/" else ())
    assert "\\" not in ref.path
    assert all(unicodedata.category(char) != "Cc" for char in ref.path + ref.base + ref.text)
    ref.path.encode(errors="surrogateescape")


@MANY
@given(remote_like)
def test_no_name_for_rclone_is_an_option_or_a_local_path(text: str) -> None:
    ref = parsed(text)
    assume(ref.kind is SourceKind.REMOTE and ref.path != "/")
    served = ref.served()
    for name in (ref.rclone_name, served.directory):
        assert name.startswith(ref.base)
        assert not name.startswith(("-", "/"))
        assert "/" not in ref.base
        assert "," not in ref.base
    joint = "" if served.directory == ref.base or served.directory.endswith("/") else "/"
    assert f"{served.directory}{joint}{served.asset}" == ref.rclone_name


@MANY
@given(web_like)
def test_another_reader_of_urls_finds_the_same_host_and_path(text: str) -> None:
    ref = parsed(text)
    assume(ref.kind is SourceKind.HTTP)
    assert ref.url.isascii()
    assert not {" ", '"', "<", ">", "\\"} & set(ref.url)
    other = urlsplit(ref.url)
    assert other.hostname == ref.host
    assert ref.base == f"{other.scheme}://{other.netloc.rpartition('@')[2].lower()}"
    elements_there = [
        e for e in unquote(other.path, errors="surrogateescape").split("/") if e not in {"", "."}
    ]
    assert "/" + "/".join(elements_there) == ref.path


@MANY
@given(any_text | references)
def test_shown_text_is_fit_for_one_line_of_a_log(text: str) -> None:
    shown = shown_source(text)
    assert len(shown.encode()) <= SHOWN_BYTES_MAX
    assert all(unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in shown)
    with contextlib.suppress(SourceSyntaxError):
        assert SourceRef.parse(text).shown == shown


@MANY
@given(elements, elements)
def test_name_of_a_file_is_decoded_exactly_as_often_as_its_kind_is(folder: str, name: str) -> None:
    assert SourceRef.parse(f"/{folder}/%41{name}").path == f"/{folder}/%41{name}"
    assert SourceRef.parse(f"m:{folder}/%41{name}").path == f"/{folder}/%41{name}"
    assert SourceRef.parse(f"file:///{folder}/%2541{name}").path == f"/{folder}/%41{name}"
    assert SourceRef.parse(f"http://h/{folder}/%2541{name}").path == f"/{folder}/%41{name}"
    assert SourceRef.parse(f"s3://b/{folder}/%2541{name}").path == f"/b/{folder}/%41{name}"


def test_values_cannot_be_changed() -> None:
    ref = SourceRef.parse("/a")
    with pytest.raises(AttributeError):
        ref.path = "/b"  # type: ignore[misc]
