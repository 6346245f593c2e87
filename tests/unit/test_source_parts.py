"""What later code gets from a source: the URL to request, rclone's name, the served directory, the host."""

from __future__ import annotations

import pytest

from vmafx.domain.errors import SourceSyntaxError
from vmafx.domain.source import ServedAsset, SourceRef


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://host/a%2Fb//c?sig=%2f&x=1#y", "http://host/a%2Fb//c?sig=%2f&x=1#y"),
        ("HTTPS://user:word@Host:8443/a", "HTTPS://user:word@Host:8443/a"),
        ("http://host/a b", "http://host/a%20b"),
        ("http://host/\u00e9?q=\u00e9", "http://host/%C3%A9?q=%C3%A9"),
        ("http://host/caf\udce9", "http://host/caf%E9"),
        ('http://host/<">^`{|}', "http://host/%3C%22%3E%5E%60%7B%7C%7D"),
        ("http://[::1]:80/it's,(a);b=c+d!*$&~", "http://[::1]:80/it's,(a);b=c+d!*$&~"),
        ("http://host/a?100%", "http://host/a?100%"),
    ],
)
def test_requested_url_is_the_one_written_with_unfit_signs_encoded_once(text: str, url: str) -> None:
    assert SourceRef.parse(text).url == url


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("http://Host/a", "host"),
        ("http://user@host:81/a", "host"),
        ("https://[2001:DB8::1]:443/a", "2001:db8::1"),
        ("http://[::1]/a", "::1"),
        ("http://127.0.0.1:8000", "127.0.0.1"),
    ],
)
def test_host_is_without_port_and_brackets(text: str, host: str) -> None:
    assert SourceRef.parse(text).host == host


@pytest.mark.parametrize(
    ("text", "name", "directory", "asset"),
    [
        ("s3:bucket/p/ref.y4m", "s3:bucket/p/ref.y4m", "s3:bucket/p", "ref.y4m"),
        ("s3:ref.y4m", "s3:ref.y4m", "s3:", "ref.y4m"),
        ("s3:/ref.y4m", "s3:/ref.y4m", "s3:/", "ref.y4m"),
        (":local:/d/x", ":local:/d/x", ":local:/d", "x"),
        (":local:/x", ":local:/x", ":local:/", "x"),
        (":local:d/x", ":local:d/x", ":local:d", "x"),
        (":local:x", ":local:x", ":local:", "x"),
        ("rclone://r:a:b/c:d", "r:a:b/c:d", "r:a:b", "c:d"),
        ("s3://bucket/key%20x", "s3:bucket/key x", "s3:bucket", "key x"),
        ("sftp://user@host:22/p/x", "sftp:user@host:22/p/x", "sftp:user@host:22/p", "x"),
        # rclone gets what was compared, so an empty element cannot lead elsewhere
        ("s3:bucket//a/./b", "s3:bucket/a/b", "s3:bucket/a", "b"),
        ("s3:bucket/dir/", "s3:bucket/dir", "s3:bucket", "dir"),
        ("media:--config=x", "media:--config=x", "media:", "--config=x"),
        ("media:a  b", "media:a  b", "media:", "a  b"),
    ],
)
def test_remote_is_split_at_the_last_slash_of_its_path(
    text: str, name: str, directory: str, asset: str
) -> None:
    ref = SourceRef.parse(text)
    assert ref.rclone_name == name
    assert ref.served() == ServedAsset(directory=directory, asset=asset)


@pytest.mark.parametrize("text", ["s3:", "s3:/", ":local:/", "rclone://r:", "s3:///"])
def test_whole_remote_names_no_file_to_serve(text: str) -> None:
    with pytest.raises(SourceSyntaxError, match="names no file"):
        SourceRef.parse(text).served()


@pytest.mark.parametrize("text", ["/a", "s3:a"])
def test_only_a_url_can_be_requested(text: str) -> None:
    ref = SourceRef.parse(text)
    with pytest.raises(ValueError, match="none of kind http"):
        _ = ref.url
    with pytest.raises(ValueError, match="none of kind http"):
        _ = ref.host


@pytest.mark.parametrize("text", ["/a", "http://host/a"])
def test_only_a_remote_has_a_name_for_rclone(text: str) -> None:
    ref = SourceRef.parse(text)
    with pytest.raises(ValueError, match="none of kind rclone"):
        _ = ref.rclone_name
    with pytest.raises(ValueError, match="none of kind rclone"):
        ref.served()


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("file:///a%20b/", "/a b"),
        ("/a%20b", "/a%20b"),
        ("/what?#", "/what?#"),
        ("file:///ends%20in%20blank%20", "/ends in blank /"),
        ("HTTP://u:p@Host/a%3Fb%25c?d#e", "http://host/a%3Fb%25c"),
        ("http://host/caf%e9 \u00e9", "http://host/caf%E9%20%C3%A9"),
        ("http://host", "http://host/"),
        ("s3://b/k%20", "s3:b/k /"),
        ("rclone://r:/p//q", "r:/p/q"),
        ("s3:", "s3:"),
    ],
)
def test_canonical_text_is_written_one_way(text: str, canonical: str) -> None:
    assert SourceRef.parse(text).canonical == canonical
