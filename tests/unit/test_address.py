"""`host:port`, as settings write it: read one way, or refused with what to write instead."""

from __future__ import annotations

import errno
from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.adapters.grpc.channel import target_of
from vmafx.domain.address import HostPort, is_host, unbindable
from vmafx.domain.errors import ConfigurationError

SETTING = "VMAFX_SOME_ADDR"


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("controller:9090", "controller", 9090),
        ("  controller.example.:1\n", "controller.example.", 1),
        ("10.0.0.7:65535", "10.0.0.7", 65535),
        ("[::1]:9090", "::1", 9090),
        ("[2001:db8::7]:443", "2001:db8::7", 443),
        ("my_service.ns-1.svc:09090", "my_service.ns-1.svc", 9090),
        ("unix:9090", "unix", 9090),
    ],
)
def test_forms_that_are_read(text: str, host: str, port: int) -> None:
    assert HostPort.parse(SETTING, text) == HostPort(host=host, port=port)
    assert HostPort.parse(SETTING, text, listen=True) == HostPort(host=host, port=port)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("http://controller:9090", "without one"),
        ("https://controller:9090/", "without one"),
        ("dns:///controller:9090", "without one"),
        ("unix:///run/controller.sock", "without one"),
        ("unix:/run/controller.sock", "path"),
        ("controller:9090/", "path"),
        ("controller:9090?x", "path"),
        ("controller:9090#x", "path"),
        ("controller", "no port"),
        ("controller:", "no port"),
        ("[::1]", "no port"),
        ("[::1]:", "no port"),
        ("controller:65536", "from 1 to 65535"),
        ("controller:-1", "from 1 to 65535"),
        ("controller:+1", "from 1 to 65535"),
        ("controller:http", "from 1 to 65535"),
        ("controller:000080", "from 1 to 65535"),
        ("::1:9090", "in brackets"),
        ("2001:db8::7", "in brackets"),
        ("a:1,b:2", "several colons"),
        ("[::1:9090", "do not match"),
        ("[::1]x:9090", "do not match"),
        ("[::1]]:9090", "do not match"),
        ("[fe80::1%eth0]:9090", "zone"),
        ("[controller]:9090", "no IPv6"),
        ("[]:9090", "no IPv6"),
        ("300.1.1.1:9090", "no IPv4"),
        ("127.1:9090", "no IPv4"),
        ("2130706433:9090", "no IPv4"),
        ("con troller:9090", "blanks"),
        ("con\ttroller:9090", "blanks"),
        ("contr\u00f6ller:9090", "ASCII"),
        ("con\0troller:9090", "control characters"),
        ("controller:\u0669090", "ASCII"),
        ("-controller:9090", "no host name"),
        ("a..b:9090", "no host name"),
        (".:9090", "no IPv4"),
        ("*:9090", "no host name"),
        ("a" * 64 + ":9090", "no host name"),
        (".".join(["a" * 60] * 5) + ":9090", "no host name"),
    ],
)
def test_other_forms_are_refused_with_a_hint(text: str, hint: str) -> None:
    for listen in (False, True):
        if listen and hint == "from 1 to 65535":
            hint = "from 0 to 65535"
        with pytest.raises(ConfigurationError, match=SETTING) as refusal:
            HostPort.parse(SETTING, text, listen=listen)
        assert refusal.value.setting == SETTING
        assert hint in refusal.value.problem
        assert str(refusal.value).isprintable()


def test_only_a_listener_may_leave_the_host_or_the_port_open() -> None:
    assert HostPort.parse(SETTING, ":9090", listen=True) == HostPort(host="", port=9090)
    assert HostPort.parse(SETTING, "0.0.0.0:0", listen=True) == HostPort(host="0.0.0.0", port=0)
    with pytest.raises(ConfigurationError, match="write localhost:9090"):
        HostPort.parse(SETTING, ":9090")
    with pytest.raises(ConfigurationError, match="from 1 to 65535"):
        HostPort.parse(SETTING, "controller:0")


@pytest.mark.parametrize("text", ["user:hunter2@controller:9090", "http://user:hunter2@controller:9090"])
def test_password_in_an_address_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ConfigurationError, match="names a user") as refusal:
        HostPort.parse(SETTING, text)
    assert "hunter2" not in f"{refusal.value!r} {refusal.value} {refusal.value.value}"


@given(
    st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?(\.[a-z]([a-z0-9-]{0,8}[a-z0-9])?){0,3}", fullmatch=True)
    | st.ip_addresses().map(lambda address: address.compressed),
    st.integers(1, 65535),
)
def test_what_is_read_is_written_the_same_way(host: str, port: int) -> None:
    address = HostPort(host=host, port=port)
    assert HostPort.parse(SETTING, str(address)) == address


@given(st.text(max_size=30) | st.text(alphabet="[]:.@/%1a ", max_size=12))
def test_any_text_is_read_or_refused_by_name(text: str) -> None:
    try:
        address = HostPort.parse(SETTING, text, listen=True)
    except ConfigurationError as refusal:
        told = refusal.setting
    else:
        told = SETTING
        assert 0 <= address.port <= 65535
        if ":" in address.host:
            IPv6Address(address.host)
    assert told == SETTING


@pytest.mark.parametrize(
    "text", ["controller", "controller.example.", "my_service", "10.0.0.7", "::1", "2001:db8::7", "unix"]
)
def test_a_host_is_what_an_address_takes_before_its_port(text: str) -> None:
    assert is_host(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        " a",
        "a ",
        "a b",
        "a:1",
        "[::1]",
        "[a]",
        "::1]:1",
        "a/b",
        "a@b",
        "-a",
        "1.2.3",
        "fe80::1%eth0",
        "ä",
        "a\0",
    ],
)
def test_what_is_no_host_is_told_from_one(text: str) -> None:
    assert not is_host(text)


@given(st.text(max_size=30) | st.text(alphabet="[]:.@/%1a ", max_size=12))
def test_a_host_with_a_port_is_an_address_of_that_host(text: str) -> None:
    if is_host(text):
        assert HostPort.parse(SETTING, str(HostPort(host=text, port=1))).host == text


@pytest.mark.parametrize("text", ["unix:9090", "xds:9090", "dns:9090", "[::1]:9090", "10.0.0.7:9090"])
def test_grpc_is_told_that_a_host_is_a_host(text: str) -> None:
    assert target_of(HostPort.parse(SETTING, text)) == f"dns:///{text}"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EADDRINUSE, "is in use"),
        (errno.EADDRNOTAVAIL, "is no address of this machine"),
        (errno.EACCES, "lacks"),
        (errno.EPERM, "lacks"),
        (errno.EAFNOSUPPORT, "switched off"),
        (errno.EMFILE, "this process has as many open files"),
        (errno.ENFILE, "this machine has as many open files"),
        (errno.EIO, "cannot be listened on (EIO)"),
        (99_999, "cannot be listened on (99999)"),
        (None, "leads to no address"),
    ],
)
def test_an_address_that_cannot_be_bound_is_told_in_plain_words(number: int | None, words: str) -> None:
    error = unbindable(SETTING, HostPort(host="::1", port=9090), number)
    assert (error.setting, error.value) == (SETTING, "[::1]:9090")
    assert words in error.problem
    assert str(error) == f'{SETTING}="[::1]:9090" {error.problem}'
