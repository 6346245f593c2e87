"""Scoring roots: parsed together or not at all, denying by default, with the stated words (ADR 0011)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.source_texts import any_text, elements, references
from vmafx.domain.errors import OutsideRootsError, SourceError, SourceSyntaxError
from vmafx.domain.roots import FROM_CONTROLLER, ROOTS_MAX, ResolvedSource, ScoringRoots
from vmafx.domain.source import SourceKind, SourceRef

PHRASE = "outside the tenant's scoring roots"


def roots(*texts: str) -> ScoringRoots:
    return ScoringRoots.parse(texts)


def admits(root: str, text: str) -> bool:
    return roots(root).admits(SourceRef.parse(text))


def refusal(given_roots: ScoringRoots, text: str) -> str:
    with pytest.raises(OutsideRootsError) as caught:
        given_roots.admit(text)
    return str(caught.value)


class Files:
    """Real paths as a table; what is not in it does not exist."""

    def __init__(self, real: dict[str, str]) -> None:
        self.real = real
        self.asked: list[str] = []

    def __call__(self, path: str, /) -> str:
        self.asked.append(path)
        if path not in self.real:
            raise SourceError(path, "No such file or directory")
        return self.real[path]


# ---------------------------------------------------------------- parsing


def test_roots_keep_their_trimmed_text_and_order() -> None:
    texts = (" /data//acme/ ", "FILE:///b%20c", "HTTP://Host/x?y", "s3://bucket/p")
    assert roots(*texts).texts == tuple(text.strip() for text in texts)


def test_as_many_roots_as_the_limit_are_accepted_and_one_more_refused() -> None:
    texts = [f"/data/{n}" for n in range(ROOTS_MAX + 1)]
    assert len(ScoringRoots.parse(texts[:-1]).roots) == ROOTS_MAX == 32
    with pytest.raises(SourceSyntaxError) as caught:
        ScoringRoots.parse(texts)
    assert str(caught.value) == "scoring roots: 33 entries, at most 32"


@pytest.mark.parametrize(
    ("raw", "shown", "why"),
    [
        ("", "", "empty"),
        ("data/acme", "data/acme", "a relative path is not accepted; give an absolute path"),
        ("/data/../etc", "/data/../etc", '".." is not accepted'),
        ("/data/a\nb", "/data/a\\nb", "control characters are not accepted"),
        (
            ":local,a=b:/",
            ":local,…",
            "commas, quotes and braces are not accepted in the name of a remote",
        ),
        ("http://host:x/a?sig=word", "http://host:x/a", "not a URL: its port is no number from 1 to 65535"),
    ],
)
def test_one_malformed_root_fails_all_and_is_named(raw: str, shown: str, why: str) -> None:
    with pytest.raises(SourceSyntaxError) as caught:
        ScoringRoots.parse(["/data", raw, "s3:b"], origin=FROM_CONTROLLER)
    assert str(caught.value) == f'scoring roots from the controller: scoring root "{shown}": {why}'
    assert caught.value.reason == why
    with pytest.raises(SourceSyntaxError) as caught:
        ScoringRoots.parse([raw])
    assert str(caught.value) == f'scoring root "{shown}": {why}'


# ---------------------------------------------------------------- admitting


@pytest.mark.parametrize(
    ("root", "text"),
    [
        ("/data/acme", "/data/acme"),
        ("/data/acme", "/data/acme/"),
        ("/data/acme/", "/data/acme/a"),
        ("/data/acme", "file:///data/acme/a"),
        ("file:/data/acme", "/data/acme/a"),
        ("FILE:///data/ac%6De", "/data//acme/./a"),
        ("/", "/anything"),
        ("http://host/a", "http://host/a/b?sig=x"),
        ("http://Host/a/", "HTTP://user:word@HOST/a/b#c"),
        ("http://host", "http://host/a"),
        ("http://host/a%20b", "http://host/a b/c"),
        ("http://[::1]:80/", "http://[::1]:80/a"),
        ("s3:bucket/p", "s3://bucket/p/a"),
        ("s3://bucket/p", "s3:bucket/p"),
        ("rclone://s3:bucket", "s3:bucket/a"),
        ("s3:", "s3:bucket/a"),
        ("s3:", "s3:/bucket/a"),
        ("s3:/", "s3:bucket/a"),
        (":local:/p", ":local:/p/a"),
        ("sftp://user@host:22/p", "sftp://user:word@host:22/p/a"),
    ],
)
def test_root_admits_itself_and_what_lies_below(root: str, text: str) -> None:
    assert admits(root, text)
    assert roots("/elsewhere", root).admit(text) == SourceRef.parse(text)


@pytest.mark.parametrize(
    ("root", "text"),
    [
        ("/data/acme", "/data/acme-other"),
        ("/data/acme", "/data/acme-other/a"),
        ("/data/acme/", "/data/acmeé"),
        ("/data/acme", "/data"),
        ("/data/acme", "/data/Acme/a"),
        ("/data/acme", "/DATA/acme/a"),
        ("/data/acme", "s3:data/acme/a"),
        ("/data/acme", ":local:/data/acme/a"),
        ("/data/acme", "http://host/data/acme/a"),
        ("/data/a%20b", "/data/a b/c"),
        ("/", "http://host/"),
        ("/", ":local:/a"),
        ("http://host/a", "http://host/ab"),
        ("http://host/a", "http://host/A/b"),
        ("http://host/a", "https://host/a/b"),
        ("http://host/a", "http://host:80/a/b"),
        ("http://host/", "http://host.evil/"),
        ("http://host/", "http://host@evil/"),
        ("http://host/", "http://evil/host/"),
        ("http://127.0.0.1/", "http://0x7f.1/"),
        ("http://127.0.0.1/", "http://2130706433/"),
        ("http://127.0.0.1/", "http://[::ffff:127.0.0.1]/"),
        ("http://host/a", "http://host/%61-b"),
        ("s3:bucket", "s3:bucket2/a"),
        ("s3:bucket", "S3:bucket/a"),
        ("s3:bucket", "s3x:bucket/a"),
        ("s3:bucket", ":s3:bucket/a"),
        # below the home directory is not below the top
        ("sftp:media", "sftp:/media/a"),
        (":local:media", ":local:/media/a"),
        (":local:/media", ":local:media/a"),
    ],
)
def test_root_does_not_admit_what_only_looks_below_it(root: str, text: str) -> None:
    assert not admits(root, text)
    assert refusal(roots(root), text).endswith(f" is {PHRASE}")


@pytest.mark.parametrize(
    ("given_roots", "text", "message"),
    [
        ((), "/a", f'scoring input "/a": the tenant has no scoring roots, {PHRASE}'),
        ((), "", f'scoring input "": the tenant has no scoring roots, {PHRASE}'),
        ((), "http://u:p@h/a?s", f'scoring input "http://h/a": the tenant has no scoring roots, {PHRASE}'),
        (("/r",), "/a", f'scoring input "/a" is {PHRASE}'),
        (("/r",), " https://u:p@h/a?s ", f'scoring input "https://h/a" is {PHRASE}'),
        (
            ("/r",),
            "a.y4m",
            'scoring input "a.y4m": a relative path is not accepted; give an absolute path, ' + PHRASE,
        ),
        (("/r",), "/r/../a", f'scoring input "/r/../a": ".." is not accepted, {PHRASE}'),
        (("/r",), "", f'scoring input "": empty, {PHRASE}'),
        (("/r",), "/r/\n", f'scoring input "/r/" is {PHRASE}'),
        (
            ("/r",),
            "http://h:x/a?sig=word",
            f'scoring input "http://h:x/a": not a URL: its port is no number from 1 to 65535, {PHRASE}',
        ),
    ],
)
def test_refusal_says_what_is_wrong_in_the_stated_words(
    given_roots: tuple[str, ...], text: str, message: str
) -> None:
    if message == f'scoring input "/r/" is {PHRASE}':
        assert roots(*given_roots).admit(text).path == "/r"  # blanks around an input do not count
    else:
        assert refusal(roots(*given_roots), text) == message


def test_no_roots_admit_nothing_at_all() -> None:
    assert not ScoringRoots().admits(SourceRef.parse("/"))


# ---------------------------------------------------------------- redirects and hosts


def test_redirect_below_a_root_is_admitted() -> None:
    start = SourceRef.parse("http://host/inside/a?sig=word")
    hop = roots("http://host/inside", "https://cdn/").admit_redirect(start, "https://CDN/b?token=word")
    assert (hop.kind, hop.host, hop.url) == (SourceKind.HTTP, "cdn", "https://CDN/b?token=word")


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("http://host/private/a?token=word", '"http://host/private/a"'),
        ("https://host/inside/a", '"https://host/inside/a"'),
        # of another kind, even if a root admits it
        ("file:///data/a", '"file:///data/a"'),
        ("/data/a", '"/data/a"'),
        ("s3://bucket/a", '"s3://bucket/a"'),
        ("http://host/inside/../a", '"http://host/inside/../a": ".." is not accepted'),
        ("b.y4m", '"b.y4m": a relative path is not accepted; give an absolute path'),
    ],
)
def test_redirect_elsewhere_is_refused_naming_input_and_target(location: str, shown: str) -> None:
    given_roots = roots("http://host/inside", "/data", "s3:bucket")
    start = SourceRef.parse("http://host/inside/a?sig=word")
    with pytest.raises(OutsideRootsError) as caught:
        given_roots.admit_redirect(start, location)
    assert str(caught.value) == f'scoring input "http://host/inside/a" redirects to {shown}, {PHRASE}'


def test_host_is_named_by_a_url_root_only() -> None:
    given_roots = roots("http://127.0.0.1:8000/x", "https://[::1]/", "s3:localhost", "/localhost")
    assert given_roots.names_host("127.0.0.1")
    assert given_roots.names_host("::1")
    assert not given_roots.names_host("localhost")
    assert not given_roots.names_host("127.0.0.1:8000")


# ---------------------------------------------------------------- resolving


def test_local_input_is_resolved_to_its_real_path() -> None:
    given_roots = roots("/data/acme", "/more")
    files = Files({"/data/acme": "/disk/acme", "/more": "/more", "/data/acme/a": "/disk/acme/b"})
    ref = given_roots.admit("/data/acme//a")
    assert given_roots.resolve(ref, files) == ResolvedSource(ref=ref, real_path="/disk/acme/b")
    assert files.asked[0] == "/data/acme/a"


def test_link_into_another_local_root_is_followed() -> None:
    given_roots = roots("/data/acme", "/more")
    files = Files({"/data/acme": "/data/acme", "/more": "/disk/more", "/data/acme/a": "/disk/more/a"})
    assert given_roots.resolve(given_roots.admit("/data/acme/a"), files).real_path == "/disk/more/a"


@pytest.mark.parametrize("real", ["/etc/passwd", "/data/acme-other/a", "/data", "/", "/DATA/acme/a"])
def test_link_that_leads_out_is_refused_naming_both_ends(real: str) -> None:
    given_roots = roots("/data/acme", "http://host/", "s3:etc", "/missing")
    # What is at the path of a root of another kind does not matter.
    files = Files({"/data/acme": "/data/acme", "/data/acme/a": real, "/": "/", "/etc": "/etc"})
    with pytest.raises(OutsideRootsError) as caught:
        given_roots.resolve(given_roots.admit("/data/acme/a"), files)
    assert str(caught.value) == f'scoring input "/data/acme/a" resolves to "{real}", {PHRASE}'


def test_escape_is_shown_on_one_line() -> None:
    given_roots = roots("/data")
    files = Files({"/data": "/data", "/data/a": "/etc/one\ntwo\udce9"})
    with pytest.raises(OutsideRootsError, match=r'resolves to "/etc/one\\ntwo\\xe9", outside'):
        given_roots.resolve(given_roots.admit("/data/a"), files)


def test_lexical_root_does_not_stand_in_for_one_that_is_elsewhere() -> None:
    given_roots = roots("/data/acme")
    files = Files({"/data/acme": "/disk/acme", "/data/acme/a": "/data/acme/a"})
    with pytest.raises(OutsideRootsError):
        given_roots.resolve(given_roots.admit("/data/acme/a"), files)


def test_root_that_does_not_exist_admits_no_file() -> None:
    given_roots = roots("/data/acme")
    with pytest.raises(OutsideRootsError, match="resolves to"):
        given_roots.resolve(given_roots.admit("/data/acme/a"), Files({"/data/acme/a": "/data/acme/a"}))


def test_input_that_cannot_be_resolved_is_named_with_the_systems_reason() -> None:
    given_roots = roots("/data")
    with pytest.raises(SourceError) as caught:
        given_roots.resolve(given_roots.admit("/data/a\u202eb"), Files({"/data": "/data"}))
    assert not isinstance(caught.value, OutsideRootsError)
    assert str(caught.value) == 'scoring input "/data/a\\u202eb": resolve: No such file or directory'


def stale(path: str, /) -> str:
    raise SourceError(path, "Stale file handle", machine_fault=True)


def test_the_machines_fault_in_resolving_an_input_stays_the_machines() -> None:
    given_roots = roots("/data")
    for real_path, machine in ((stale, True), (Files({"/data": "/data"}), False)):
        with pytest.raises(SourceError) as caught:
            given_roots.resolve(given_roots.admit("/data/a"), real_path)
        assert caught.value.machine_fault is machine


def test_a_root_that_the_machine_cannot_look_at_makes_no_input_an_outsider() -> None:
    files = Files({"/data/a": "/disk/a", "/disk": "/disk"})

    def real_path(path: str, /) -> str:
        return stale(path) if path == "/data" else files(path)

    hidden = roots("/data", "/gone")
    with pytest.raises(SourceError) as caught:
        hidden.resolve(hidden.admit("/data/a"), real_path)
    assert str(caught.value) == 'scoring input "/data/a": resolve a scoring root: Stale file handle'
    assert caught.value.machine_fault
    assert not isinstance(caught.value, OutsideRootsError)
    known = roots("/data", "/disk")
    assert known.resolve(known.admit("/data/a"), real_path).real_path == "/disk/a"


@pytest.mark.parametrize("text", ["http://host/a?sig=x", "s3://bucket/a"])
def test_other_kinds_are_returned_as_they_are_and_no_file_is_looked_at(text: str) -> None:
    given_roots = roots("/data", "http://host/", "s3:bucket")
    files = Files({})
    ref = given_roots.admit(text)
    assert given_roots.resolve(ref, files) == ResolvedSource(ref=ref, real_path=None)
    assert files.asked == []


@pytest.mark.parametrize("text", ["/etc/passwd", "http://evil/a", "s3:other/a"])
def test_source_that_was_never_admitted_is_not_resolved(text: str) -> None:
    files = Files({"/etc/passwd": "/data/a", "/data": "/data"})
    with pytest.raises(OutsideRootsError):
        roots("/data", "http://host/", "s3:bucket").resolve(SourceRef.parse(text), files)
    assert files.asked == []


def test_opened_file_is_checked_again_by_its_real_path() -> None:
    given_roots = roots("/data")
    files = Files({"/data": "/disk"})
    ref = given_roots.admit("/data/a")
    given_roots.confine(ref, "/disk/a", files)
    with pytest.raises(OutsideRootsError, match='resolves to "/data/a"'):
        given_roots.confine(ref, "/data/a", files)


# ---------------------------------------------------------------- properties

SOME = settings(max_examples=100, deadline=None)


@SOME
@given(st.lists(references, max_size=5), references, any_text | references)
def test_more_roots_never_admit_less(few: list[str], more: str, text: str) -> None:
    small, large = roots(*few), roots(*few, more)
    try:
        admitted = small.admit(text)
    except OutsideRootsError as error:
        assert PHRASE in str(error)  # noqa: PT017 - either way must hold
    else:
        assert large.admit(text) == admitted


@SOME
@given(references)
def test_every_root_admits_itself(text: str) -> None:
    assert roots(text).admit(text).text == text.strip()
    assert roots(SourceRef.parse(text).canonical).admits(SourceRef.parse(text))


@SOME
@given(
    st.lists(elements, min_size=1, max_size=3), elements, st.sampled_from(["/", "http://h/", "m:", "s3://b/"])
)
def test_sibling_whose_name_starts_alike_is_never_admitted(names: list[str], more: str, top: str) -> None:
    root = top + "/".join(names)
    assert not admits(root, f"{root}-{more}")
    assert not admits(root, f"{root}-{more}/{more}")
    assert admits(root, f"{root}/{more}")


@SOME
@given(st.lists(references, max_size=4), any_text | references)
def test_what_is_admitted_has_the_elements_of_a_root(given_texts: list[str], text: str) -> None:
    given_roots = roots(*given_texts)
    try:
        ref = given_roots.admit(text)
    except OutsideRootsError:
        return
    parts = [part for part in ref.path.split("/") if part]
    tops = [
        [part for part in root.path.split("/") if part]
        for root in given_roots.roots
        if (root.kind, root.base) == (ref.kind, ref.base)
    ]
    assert any(parts[: len(top)] == top for top in tops)
