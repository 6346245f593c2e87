"""What text is which source, and what is none: one parser, one reading (ADR 0011)."""

from __future__ import annotations

import pytest

from vmafx.domain.errors import SourceSyntaxError
from vmafx.domain.source import SOURCE_BYTES_MAX, SourceKind, SourceRef

LOCAL, HTTP, REMOTE = SourceKind.LOCAL, SourceKind.HTTP, SourceKind.REMOTE

RELATIVE = "a relative path is not accepted; give an absolute path"
NO_KIND = "not an absolute path, an http(s) URL or an rclone remote (remote:path)"
NO_FILE_URL = "not a file:///absolute/path URL"
DOTS = '".." is not accepted'
NAME = "commas, quotes and braces are not accepted in the name of a remote"


def reason(text: str) -> str:
    with pytest.raises(SourceSyntaxError) as caught:
        SourceRef.parse(text)
    assert str(caught.value) == caught.value.reason
    return caught.value.reason


@pytest.mark.parametrize(
    ("text", "kind", "base", "path"),
    [
        # local paths: nothing in them is decoded
        ("/a/b.y4m", LOCAL, "", "/a/b.y4m"),
        ("  /a/b.y4m\n", LOCAL, "", "/a/b.y4m"),
        ("/", LOCAL, "", "/"),
        ("//a///b//", LOCAL, "", "/a/b"),
        ("/./a/./b/.", LOCAL, "", "/a/b"),
        ("/a/...", LOCAL, "", "/a/..."),
        ("/a/%2e%2e/b", LOCAL, "", "/a/%2e%2e/b"),
        ("/a?b#c", LOCAL, "", "/a?b#c"),
        ("/http://host/x", LOCAL, "", "/http:/host/x"),
        ("/media:clip", LOCAL, "", "/media:clip"),
        # file URLs: decoded once, whatever their case and number of slashes
        ("file:///a/b", LOCAL, "", "/a/b"),
        ("file:/a/b", LOCAL, "", "/a/b"),
        ("FILE:///a/b", LOCAL, "", "/a/b"),
        ("File:/a/b", LOCAL, "", "/a/b"),
        ("file:////a/b", LOCAL, "", "/a/b"),
        ("file:///a%20b%3F%23", LOCAL, "", "/a b?#"),
        ("file:///a%2Fb", LOCAL, "", "/a/b"),
        ("file:///a/%252e%252e/b", LOCAL, "", "/a/%2e%2e/b"),
        ("file:///caf%E9", LOCAL, "", "/caf\udce9"),
        ("file:///", LOCAL, "", "/"),
        # URLs: scheme and host in lower case, the rest out of the comparison
        ("http://host/a/b", HTTP, "http://host", "/a/b"),
        ("HTTPS://Host.Example/A", HTTP, "https://host.example", "/A"),
        ("http://host", HTTP, "http://host", "/"),
        ("http://host:80/a", HTTP, "http://host:80", "/a"),
        ("https://host:443/a", HTTP, "https://host:443", "/a"),
        ("http://user:word@host/a", HTTP, "http://host", "/a"),
        ("http://user%40x:word@host/a", HTTP, "http://host", "/a"),
        ("http://host/a?sig=/../&b#/../", HTTP, "http://host", "/a"),
        ("http://host?x", HTTP, "http://host", "/"),
        ("http://host//a/./b/", HTTP, "http://host", "/a/b"),
        ("http://host/a%2Fb%20c", HTTP, "http://host", "/a/b c"),
        ("http://host/%252e%252e/b", HTTP, "http://host", "/%2e%2e/b"),
        ("http://host/a b", HTTP, "http://host", "/a b"),
        ("http://host/\u6620", HTTP, "http://host", "/\u6620"),
        ("http://host/a:b@c", HTTP, "http://host", "/a:b@c"),
        ("http://[::1]/a", HTTP, "http://[::1]", "/a"),
        ("http://[2001:DB8::1]:8080/a", HTTP, "http://[2001:db8::1]:8080", "/a"),
        ("http://127.0.0.1:8000/a", HTTP, "http://127.0.0.1:8000", "/a"),
        ("http://my_host-1/a", HTTP, "http://my_host-1", "/a"),
        # remotes
        ("s3:bucket/key", REMOTE, "s3:", "/bucket/key"),
        ("s3:", REMOTE, "s3:", "/"),
        ("S3:bucket", REMOTE, "S3:", "/bucket"),
        ("s3:a//b/./c/", REMOTE, "s3:", "/a/b/c"),
        ("s3:100%/%2e%2e", REMOTE, "s3:", "/100%/%2e%2e"),
        ("my remote 2:a", REMOTE, "my remote 2:", "/a"),
        ("a+b@c.d_e-f:a", REMOTE, "a+b@c.d_e-f:", "/a"),
        ("\u00e9t\u00e9:a", REMOTE, "\u00e9t\u00e9:", "/a"),
        ("media:a:b:c", REMOTE, "media:", "/a:b:c"),
        ("media:a,b'c\"d{e}", REMOTE, "media:", "/a,b'c\"d{e}"),
        (":local:/d/x", REMOTE, ":local:", "/d/x"),
        (":local:d:x", REMOTE, ":local:", "/d:x"),
        ("http:dir/x", REMOTE, "http:", "/dir/x"),
        # URLs that name remotes
        ("rclone://r:p/q", REMOTE, "r:", "/p/q"),
        ("RCLONE://r:p", REMOTE, "r:", "/p"),
        ("rclone://r:p%20q?x#y", REMOTE, "r:", "/p%20q?x#y"),
        ("rclone://:local:/p", REMOTE, ":local:", "/p"),
        ("rclone://rclone://r:p", REMOTE, "rclone:", "/r:p"),
        ("s3://bucket/key", REMOTE, "s3:", "/bucket/key"),
        ("s3://bucket", REMOTE, "s3:", "/bucket"),
        ("S3://Bucket/Key", REMOTE, "s3:", "/Bucket/Key"),
        ("gcs://bucket/a%20b", REMOTE, "gcs:", "/bucket/a b"),
        ("s3://user@bucket/key?versionId=1#x", REMOTE, "s3:", "/bucket/key"),
        ("sftp://user@host:22/p", REMOTE, "sftp:", "/user@host:22/p"),
        ("sftp://user:word@host/p", REMOTE, "sftp:", "/user@host/p"),
        ("ftp://host/p", REMOTE, "ftp:", "/host/p"),
        ("sftp://[::1]:22/p", REMOTE, "sftp:", "/[::1]:22/p"),
    ],
)
def test_text_has_one_kind_and_one_place(text: str, kind: SourceKind, base: str, path: str) -> None:
    ref = SourceRef.parse(text)
    assert (ref.kind, ref.base, ref.path) == (kind, base, path)
    assert ref.text == text.strip()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        (" \t\n ", "empty"),
        ("clip.y4m", RELATIVE),
        ("./clip.y4m", RELATIVE),
        ("../clip.y4m", RELATIVE),
        ("dir/clip.y4m", RELATIVE),
        ("-", RELATIVE),
        ("~/clip.y4m", RELATIVE),
        # elements that lead up
        ("/a/../b", DOTS),
        ("/..", DOTS),
        ("/a/./..", DOTS),
        ("file:///a/%2e%2E/b", DOTS),
        ("file:///a%2F..%2Fb", DOTS),
        ("http://host/a/../b", DOTS),
        ("http://host/%2e%2e/b", DOTS),
        ("http://host/.%2e%2fb", DOTS),
        ("s3:a/../b", DOTS),
        ("s3:..", DOTS),
        ("s3://../b", DOTS),
        ("s3://b/%2e%2e/c", DOTS),
        ("rclone://r:../b", DOTS),
        (":local:/a/../b", DOTS),
        # a remote whose encoding is switched off turns these into `..` and `/`
        ("s3:a/\uff0e\uff0e/b", DOTS),
        ("s3:a\uff0f..\uff0fb", DOTS),
        ("s3://b/%EF%BC%8E%EF%BC%8E/c", DOTS),
        # file URLs that name a host, or no absolute path
        ("file://host/a", NO_FILE_URL),
        ("file://localhost/a", NO_FILE_URL),
        ("file:a", NO_FILE_URL),
        ("file:", NO_FILE_URL),
        ("file://", NO_FILE_URL),
        ("FILE:a/b", NO_FILE_URL),
        ("file:///a%", f'{NO_FILE_URL}: a "%" without two hexadecimal digits'),
        ("file:///a%zz", f'{NO_FILE_URL}: a "%" without two hexadecimal digits'),
        ("file:///what?.y4m", f'{NO_FILE_URL}: "?" and "#" in a name are written %3F and %23'),
        ("file:///no#1.y4m", f'{NO_FILE_URL}: "?" and "#" in a name are written %3F and %23'),
        # remotes whose name rclone would take for a path, an option or nothing
        (":", NO_KIND),
        (":x", NO_KIND),
        ("::x", NO_KIND),
        ("a/b:c", NO_KIND),
        ("./a:b", NO_KIND),
        ("-r:x", NO_KIND),
        ("--config=x:y", NO_KIND),
        ("a=b:x", NO_KIND),
        ("a;b:x", NO_KIND),
        ("a :x", NO_KIND),
        (": a:x", NO_KIND),
        ("://host/x", NO_KIND),
        ("rclone://", NO_KIND),
        ("rclone:///etc/passwd", NO_KIND),
        ("rclone://dir/file", NO_KIND),
        ("rclone://a/b:c", NO_KIND),
        # the name of a remote that would be a local path without its scheme
        ("rclone://file:/etc", NO_KIND),
        ("rclone://File:a", NO_KIND),
        # options in the name of a remote
        (":local,links=true:/p", NAME),
        (':s3,env_auth="a:b":p', NAME),
        ("s3,x=1:p", NAME),
        ("it's:p", NAME),
        ('"s3":p', NAME),
        ("s3{abc}:p", NAME),
        ("s3}:p", NAME),
        # signs that no source may hold
        ("/a\\b", "backslashes are not accepted"),
        ("C:\\clips\\a.y4m", "backslashes are not accepted"),
        ("http://host\\@evil/x", "backslashes are not accepted"),
        ("http://host/a%5Cb", "backslashes are not accepted"),
        ("s3://b/a%5cb", "backslashes are not accepted"),
        ("/a\nb", "control characters are not accepted"),
        ("/a\x00", "control characters are not accepted"),
        ("/a\x7fb", "control characters are not accepted"),
        ("/a\x85b", "control characters are not accepted"),
        ("http://ho\tst/a", "control characters are not accepted"),
        ("http://host/a?x\ny", "control characters are not accepted"),
        ("file:///a%00b", "control characters are not accepted"),
        ("http://host/a%0Db", "control characters are not accepted"),
        ("s3:a\x1bb", "control characters are not accepted"),
        ("s3://b/%C2%85x", "control characters are not accepted"),
        ("/a\udcc2\udc85b", "control characters are not accepted"),
        ("/a\ud800b", "not valid text: it holds an unpaired surrogate"),
        ("http://host/\udfff", "not valid text: it holds an unpaired surrogate"),
    ],
)
def test_text_that_is_no_source_is_refused_with_the_reason(text: str, why: str) -> None:
    assert reason(text) == why


@pytest.mark.parametrize(
    "text",
    [
        "http://",
        "http:///a",
        "http://?x",
        "https://user@/a",
        "http://:80/a",
        "http://host:/a",
        "http://host:0/a",
        "http://host:65536/a",
        "http://host:123456/a",
        "http://host:8o/a",
        "http://host:\u0663/a",
        "http://a@b@host/a",
        "http://a b/a",
        "http://b\u00fccher.example/a",
        "http://\u212aelvin/a",
        "http://host%2eexample/a",
        "http://ho,st/a",
        "http://[::1/a",
        "http://::1/a",
        "http://[]/a",
        "http://[1:2]/a",
        "http://[fe80::1%25eth0]/a",
        "http://[::1]x/a",
        "http://x[::1]/a",
        "http://host/a%",
        "http://host/%4",
        "http://host/%zz",
        "s3://bucket:9000/key",
        "s3://b%75cket/key",
        "s3://bucket/100%",
        "sftp://us%65r@host/p",
        "sftp://host:port/p",
        "sftp://a:b:22/p",
        "sftp://@/p",
    ],
)
def test_url_with_two_readings_is_refused_and_not_taken_for_a_remote(text: str) -> None:
    assert reason(text).startswith("not a URL: ")


def test_longest_reference_is_accepted_and_one_byte_more_refused() -> None:
    longest = "/" + "n" * (SOURCE_BYTES_MAX - 1)
    assert SourceRef.parse(f" {longest} ").path == longest
    assert reason(longest + "n") == f"longer than {SOURCE_BYTES_MAX} bytes"
    assert reason("/" + "\u6620" * (SOURCE_BYTES_MAX // 3 + 1)) == f"longer than {SOURCE_BYTES_MAX} bytes"


def test_reference_that_is_too_long_in_canonical_form_is_refused() -> None:
    # As written it fits; encoded, each character takes nine bytes.
    assert (
        reason("http://host/" + "\u6620" * (SOURCE_BYTES_MAX // 4)) == f"longer than {SOURCE_BYTES_MAX} bytes"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://host/a", "http://host:80/a"),
        ("http://host/a", "https://host/a"),
        ("http://host/a", "http://host./a"),
        ("http://host/a", "http://host/A"),
        ("http://[::1]/a", "http://[0:0:0:0:0:0:0:1]/a"),
        ("s3:a", "S3:a"),
        ("s3:a", ":s3:a"),
        ("/a", "s3:a"),
        ("sftp:a", "sftp:/a"),
        (":local:a", ":local:/a"),
        ("/caf\u00e9", "/cafe\u0301"),
    ],
)
def test_places_that_may_differ_are_not_the_same(one: str, other: str) -> None:
    assert SourceRef.parse(one).form != SourceRef.parse(other).form


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/a/b", "file:///a//b/"),
        ("/a b", "FILE:/a%20b"),
        ("/caf\udce9", "file:///caf%E9"),
        ("/\udcc3\udca9", "/\u00e9"),
        ("/a\udcc2\udca0", "/a"),
        ("http://HOST/a?x", "HTTP://user@host/%61#y"),
        ("s3:b/k", "s3://b/k"),
        ("s3:b/k", "rclone://s3:b//k/"),
        ("s3:/k", "s3:///k"),
    ],
)
def test_ways_to_write_one_place_are_the_same(one: str, other: str) -> None:
    assert SourceRef.parse(one).form == SourceRef.parse(other).form
