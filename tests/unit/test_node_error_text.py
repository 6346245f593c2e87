"""The error text of a report: bounded, one line, no secret of a URL (ADR 0018)."""

from __future__ import annotations

import string
import unicodedata

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import vmafx.domain.error_text as error_text_module
import vmafx.domain.text as text_module
from vmafx.app.node.outcome import ai_job, failure_of, other_backend, unknown_job
from vmafx.domain.error_text import ERROR_BYTES_MAX, READ_CHARACTERS_MAX, report_text
from vmafx.domain.errors import NotFiniteError, ScorerError, SourceError, TokenError, VmafxError
from vmafx.domain.faults import WANT_OF_SYSTEM
from vmafx.domain.job import JobId
from vmafx.domain.scoring import Backend, Retry
from vmafx.domain.source import SHOWN_BYTES_MAX, shown_source

SECRET = "s3cr3t"
ANY_TEXT = st.text(st.characters(), max_size=300)
WORDS = st.text(string.ascii_letters + string.digits + " .,:;()[]{}-_=\n\t", max_size=40)
PLAIN = st.text(string.ascii_letters + string.digits + "-._~%+,;:!$&*", max_size=12)


@st.composite
def links(draw):
    """A URL with secrets where secrets may be."""
    scheme = draw(st.sampled_from(["http", "https", "HTTPS", "s3", "sftp", "rclone", "git+ssh"]))
    user = draw(
        st.sampled_from(["", f"{SECRET}@", f"user:{SECRET}@", f"{SECRET}:@", f"u:{SECRET}@{SECRET}@"])
    )
    path = draw(st.lists(PLAIN, max_size=3).map(lambda parts: "".join(f"/{part}" for part in parts)))
    query = draw(
        st.sampled_from(
            [
                "",
                f"?sig={SECRET}",
                f"?a=b&X-Amz-Signature={SECRET}&x=1",
                f"#{SECRET}",
                f"?u=https://a:{SECRET}@b/?c={SECRET}",
                f"?to=a@{SECRET}",
                f"?{SECRET}/{SECRET}",
                f"?sig='{SECRET}'",
            ]
        )
    )
    return f"{scheme}://{user}host.example{path}{query}"


@st.composite
def texts_with_links(draw):
    around = draw(st.sampled_from(['"{}"', "'{}'", "<{}>", "({})", "{}", "`{}`", "[{}]:", "{}:", "url={}"]))
    pieces = [draw(WORDS)]
    for link in draw(st.lists(links(), min_size=1, max_size=4)):
        pieces += [draw(st.sampled_from([" ", "\n", ": ", "\t"])), around.format(link)]
        pieces += [draw(st.sampled_from([" ", "\n", " and ", ""])), draw(WORDS)]
    return "".join(pieces)


@given(ANY_TEXT | st.binary(max_size=200).map(lambda data: data.decode(errors="surrogateescape")))
@example("")
@example(" \n ")
def test_the_text_is_one_bounded_line_of_utf8(text):
    told = report_text(text)
    assert 0 < len(told.encode()) <= ERROR_BYTES_MAX
    assert not any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in told)


@given(texts_with_links())
def test_no_secret_of_a_link_is_left(text):
    assert SECRET not in report_text(text)


@given(st.text("/:?#@ \"'`hHtpsx.=\\\n\0", max_size=60))
def test_links_of_any_shape_have_no_query_and_no_user(text):
    told = report_text(text)
    for piece in told.split(" "):
        _, found, rest = piece.partition("://")
        assert not found or not set(rest) & {"?", "#"}
        assert not found or "@" not in rest.partition("/")[0]


@given(st.integers(0, 9000), links(), st.integers(0, 9000))
def test_a_cut_brings_no_secret_back(before, link, after):
    told = report_text(f"{'a' * before} {link} {'b ' * after}")
    assert SECRET not in told
    assert len(told.encode()) <= ERROR_BYTES_MAX


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("plain words, 5 > 3? yes #1 a@b", "plain words, 5 > 3? yes #1 a@b"),
        ('get "https://u:p@h:8/a/b?x=1#y": 403', 'get "https://h:8/a/b": 403'),
        ("http://h/@scope/p", "http://h/@scope/p"),
        ("see https://h/a b", "see https://h/a b"),
        ('"http://h/a b?sig=x" refused', '"http://h/a b" refused'),
        ("http://u:p?q@h/x", "http://…"),
        ("a\nb\x1b[0m", r"a\nb\x1b[0m"),
        ("/clips//a.y4m", "/clips//a.y4m"),
        ("", "no reason was given"),
    ],
)
def test_what_is_no_secret_stays(text, told):
    assert report_text(text) == told


def test_a_long_text_is_cut_in_the_middle():
    told = report_text("head " + "ä" * 5000 + " tail")
    assert told.startswith("head ä")
    assert told.endswith("ä tail")
    assert len(told.encode()) in range(ERROR_BYTES_MAX - 3, ERROR_BYTES_MAX + 1)


MEGABYTES = {
    "slashes": "//" * 1_500_000,
    "schemes": "http:" * 600_000,
    "open quotations": '"//a ' * 600_000,
    "users": "//u@" * 750_000,
    "marks": "'" * (3 << 20),
    "control characters": "\x1b" * (3 << 20),
    "line separators": "\u2028" * (1 << 20),
    "line ends": "\n" * (4 << 20),
    "surrogates": "\udcff" * (1 << 20),
    "links": f"https://u:{SECRET}@h/p?sig={SECRET} " * 50_000,
    "one link": f"https://u:{SECRET * 400_000}@h/p",
    "letters": "a" * (3 << 20),
}


@pytest.fixture
def escaped(monkeypatch):
    """The sizes of the texts that are escaped, and so looked through."""
    sizes = []
    kept = text_module.printable

    def counted(text):
        sizes.append(len(text))
        return kept(text)

    for module in (text_module, error_text_module):
        monkeypatch.setattr(module, "printable", counted)
    return sizes


@pytest.mark.parametrize("text", MEGABYTES.values(), ids=MEGABYTES)
def test_of_megabytes_only_some_are_looked_at(escaped, text):
    told = report_text(text)
    assert len(told.encode()) <= ERROR_BYTES_MAX
    assert SECRET not in told
    assert 0 < sum(escaped) <= READ_CHARACTERS_MAX


@pytest.mark.parametrize("text", MEGABYTES.values(), ids=MEGABYTES)
def test_failures_of_jobs_with_megabytes_in_them_look_at_some(escaped, text):
    made = [
        lambda: ai_job(JobId("j"), text),
        lambda: other_backend(JobId("j"), text, Backend.CPU),
        lambda: failure_of(JobId("j"), ValueError(text)),
        lambda: failure_of(JobId("j"), ScorerError(text)),
        lambda: unknown_job(JobId(text.replace(SECRET, "word"))),
    ]
    for make in made:
        escaped.clear()
        failure = make()
        assert len(failure.error.encode()) <= ERROR_BYTES_MAX
        assert SECRET not in failure.error
        assert 0 < sum(escaped) <= 3 * READ_CHARACTERS_MAX


@pytest.mark.parametrize("text", MEGABYTES.values(), ids=MEGABYTES)
@pytest.mark.parametrize("before", ["", "/", "https://", "remote:"])
def test_showing_a_source_of_megabytes_looks_at_what_is_shown(escaped, before, text):
    shown = shown_source(before + text)
    assert len(shown.encode()) <= SHOWN_BYTES_MAX
    assert SECRET not in shown or before == "/"  # a local path is shown as it is
    assert sum(escaped) <= 2 * SHOWN_BYTES_MAX


@pytest.mark.parametrize("text", ["can't open it", "/a/b: no such file", "äöü €"])
def test_both_ends_of_a_long_text_are_told(text):
    told = report_text(f"{text} {'word ' * 100_000}{text}")
    assert told.startswith(f"{text} word")
    assert told.endswith(text[-5:])


PIECE = st.text("/:?#@ \"'`ahtps.=x\n", max_size=20)


@given(st.integers(0, 40), PIECE, st.sampled_from("\"'`"), st.booleans(), st.integers(0, 40))
def test_a_cut_through_a_quoted_link_brings_no_secret_back(before, noise, mark, user, after):
    """The link stands over the place where the head of a long text, or its tail, is cut."""
    half = READ_CHARACTERS_MAX // 2
    secret = f"{SECRET}@h/x y" if user else f"h/x y?sig={SECRET} {SECRET}"
    link = f"{mark}https://u:{secret}{mark}"
    for cut in (half - before - len(link) // 2, half - len(link) + before):
        head = "a " * (cut // 2) + link
        told = report_text(head + " b" * READ_CHARACTERS_MAX + noise.replace(mark, ""))
        assert SECRET not in told
    tail = link + " b" * ((half - after) // 2)
    assert SECRET not in report_text("a " * READ_CHARACTERS_MAX + tail)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('"/a/http://u:p@h/x y?sig=1"', '"/a/http://h/x y"'),
        ('open "rel http://h/x y?sig=1" failed', 'open "rel http://h/x y" failed'),
        (
            "can't open 'to http://h/x y?sig=1', it isn't there",
            "can't open 'to http://h/x y', it isn't there",
        ),
        ('"a": http://h/x?sig=1: timeout after "30s" ok', '"a": http://h/x timeout after "30s" ok'),
        ("'http://h/it isn't x y?sig=1' ok", "'http://h/it isn't x y' ok"),
        ("'http://h/x y?sig=1'and", "'http://h/x y"),
    ],
)
def test_a_link_ends_with_the_quotation_that_it_stands_in(text, told):
    assert report_text(text) == told


QUIET = st.text("abc xyz.,:;()=-\n", max_size=20)
BALANCED = st.sampled_from(["", '"a" ', "'b c' ", "can't ", "`x` "])


@given(ANY_TEXT, links(), ANY_TEXT)
def test_a_secret_without_blanks_survives_nowhere(before, link, after):
    assert SECRET not in report_text(f"{before} {link} {after}")


@given(QUIET, BALANCED, st.sampled_from("\"'`"), QUIET, links(), QUIET, QUIET)
def test_a_secret_with_blanks_survives_in_no_quotation(before, other, mark, inside, link, more, after):
    assume(mark not in link)  # where such a quotation ends nobody can tell
    query = "&y" if "?" in link or "#" in link else "?y"
    text = f"{before} {other}{mark}{inside} {link}{query}={more} {SECRET} {more}{mark} {after}"
    assert SECRET not in report_text(text)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("failed: exit status 255\nstderr: \nreference a", "failed: exit status 255; reference a"),
        ("failed\nstderr: line 1\r\nline 2\n\n\nreference a", "failed; stderr: line 1; line 2; reference a"),
        ("one line", "one line"),
        ("\n", "no words"),
    ],
)
def test_lines_of_an_error_become_one(words, told):
    error = failure_of(JobId("j"), ScorerError(words)).error
    assert error == f"executor: score job j: {told}".removesuffix(" no words")


class _WordlessError(Exception):
    def __str__(self):
        raise LookupError("nothing to say")


def test_an_error_without_words_is_told_by_its_type():
    assert failure_of(JobId("j"), _WordlessError()).error == (
        "executor: score job j: _WordlessError: it has no words"
    )


def test_an_error_of_ours_that_does_not_tell_is_no_fault_of_the_machine():
    assert failure_of(JobId("j"), TokenError("no token")).retry is Retry.NO
    assert VmafxError.machine_fault is False


@pytest.mark.parametrize("number", sorted(WANT_OF_SYSTEM))
def test_want_of_system_may_be_tried_elsewhere(number):
    assert failure_of(JobId("j"), OSError(number, "x")).retry is Retry.ELSEWHERE


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("vmaf", "executor returned a non-finite value for score"),
        ("score", "executor returned a non-finite value for score"),
        ("feature adm2", "executor returned a non-finite value for feature adm2"),
    ],
)
def test_a_value_that_is_not_finite_is_named(name, text):
    failure = failure_of(JobId("j"), NotFiniteError(name, float("nan")))
    assert (failure.error, failure.retry) == (text, Retry.NO)


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        (ScorerError("x", machine_fault=True), Retry.ELSEWHERE),
        (ScorerError("x"), Retry.NO),
        (SourceError("s", "x", machine_fault=True), Retry.ELSEWHERE),
        (SourceError("s", "x"), Retry.NO),
        (MemoryError(), Retry.ELSEWHERE),
        (OSError(28, "No space left on device"), Retry.ELSEWHERE),
        (OSError(13, "Permission denied"), Retry.NO),
        (ValueError("x"), Retry.NO),
    ],
    ids=repr,
)
def test_only_faults_of_the_machine_may_be_tried_elsewhere(error, retry):
    assert failure_of(JobId("j"), error).retry is retry


def test_the_fixed_texts():
    assert unknown_job(JobId("a\nb")).error == r"executor: unknown job type for job a\nb"
    assert other_backend(JobId("j"), "cuda", Backend.CPU).error == (
        'executor: score job j: backend "cuda" was asked for, this node runs "cpu"'
    )
