"""Every awkward file name is scored as itself or refused by name (ADR 0011)."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.names import AWKWARD, Awkward, plant
from vmafx.domain.errors import OutsideRootsError, SourceSyntaxError
from vmafx.domain.roots import ScoringRoots
from vmafx.domain.source import SourceRef
from vmafx.domain.text import printable

ACCEPTED = [awkward for awkward in AWKWARD if not awkward.refused]
REFUSED = [awkward for awkward in AWKWARD if awkward.refused]


@pytest.mark.parametrize("awkward", ACCEPTED, ids=str)
def test_local_path_with_the_name_is_itself(awkward: Awkward) -> None:
    ref = SourceRef.parse(f"/clips/{awkward.name}")
    assert os.fsencode(ref.path) == b"/clips/" + awkward.raw
    assert SourceRef.parse(ref.canonical).form == ref.form


@pytest.mark.parametrize("awkward", ACCEPTED, ids=str)
def test_file_url_can_write_the_name_byte_for_byte(awkward: Awkward) -> None:
    ref = SourceRef.parse(f"file:///clips/{quote(awkward.raw, safe='')}")
    assert os.fsencode(ref.path) == b"/clips/" + awkward.raw


@pytest.mark.parametrize("awkward", ACCEPTED, ids=str)
def test_url_can_write_the_name_byte_for_byte(awkward: Awkward) -> None:
    url = f"http://host/clips/{quote(awkward.raw, safe='')}"
    ref = SourceRef.parse(url)
    assert os.fsencode(ref.path) == b"/clips/" + awkward.raw
    assert ref.url == url


@pytest.mark.parametrize("awkward", ACCEPTED, ids=str)
def test_remote_serves_the_name_as_it_is(awkward: Awkward) -> None:
    ref = SourceRef.parse(f"media:{awkward.name}")
    served = ref.served()
    assert (served.directory, os.fsencode(served.asset)) == ("media:", awkward.raw)
    assert SourceRef.parse(ref.canonical).form == ref.form


@pytest.mark.parametrize("awkward", REFUSED, ids=str)
@pytest.mark.parametrize("place", ["/clips/", "media:", "http://host/"])
def test_refused_name_is_shown_escaped_on_one_line(awkward: Awkward, place: str) -> None:
    with pytest.raises(SourceSyntaxError, match=r"(control characters|backslashes) are not accepted"):
        SourceRef.parse(place + awkward.name)
    with pytest.raises(OutsideRootsError) as caught:
        ScoringRoots.parse(["/clips", "media:", "http://host/"]).admit(place + awkward.name)
    message = str(caught.value)
    assert message.isprintable()
    assert f'scoring input "{printable(place + awkward.name)}": ' in message
    assert message.endswith("are not accepted, outside the tenant's scoring roots")


@pytest.mark.parametrize("awkward", ACCEPTED, ids=str)
def test_errors_show_every_name_without_breaking_a_line(awkward: Awkward) -> None:
    with pytest.raises(OutsideRootsError) as caught:
        ScoringRoots.parse(["/elsewhere"]).admit(f"/clips/{awkward.name}")
    assert len(str(caught.value).splitlines()) == 1
    str(caught.value).encode()


def test_planted_clips_are_found_under_the_parsed_path(tmp_path: Path) -> None:
    planted = plant(tmp_path, b"clip")
    assert len(planted) >= len(AWKWARD) - len([a for a in AWKWARD if not a.is_utf8])
    for awkward in planted:
        if not awkward.refused:
            assert Path(SourceRef.parse(f"{tmp_path}/{awkward.name}").path).read_bytes() == b"clip"


def test_names_are_told_apart() -> None:
    assert (
        len({awkward.raw for awkward in AWKWARD})
        == len({awkward.what for awkward in AWKWARD})
        == len(AWKWARD)
    )
