"""TLS to the controller: 1.3 or nothing, trust as told, errors that name the setting (ADR 0017)."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from tests.grpc_peers import (
    LOOPBACK,
    Serve,
    ca_file,
    expired,
    hang_up,
    listener,
    peer,
    reset,
    tls_context,
    unused_address,
)
from vmafx.adapters.auth.bearer import InlineToken
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.adapters.grpc.client import GrpcController, open_controller
from vmafx.adapters.grpc.credentials import TlsOptions, trusted_roots
from vmafx.adapters.grpc.environment import TLS13_CIPHERS, quieten, restrict_to_tls13
from vmafx.adapters.grpc.handshake import PROOF_AGE_MAX_S
from vmafx.domain.address import HostPort
from vmafx.domain.errors import ConfigurationError, ControllerError
from vmafx.domain.job import NodeName
from vmafx.domain.nodesession import Capability
from vmafx.ports.controller import NodeIdentity, Registration

HANG_GUARD_S = 30.0
NOBODY = NodeIdentity(name=NodeName("node-a"))


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def certificate(ca: trustme.CA) -> trustme.LeafCert:
    return ca.issue_cert(LOOPBACK, "localhost")


@pytest.fixture
def trusting(ca: trustme.CA, tmp_path: Path) -> TlsOptions:
    return TlsOptions(ca_file=ca_file(ca, tmp_path))


class Handshakes:
    """Counts connections that are encrypted, and what they speak."""

    def __init__(self) -> None:
        self.versions: list[str | None] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.versions.append(writer.get_extra_info("ssl_object").version())
        await reader.read()


@asynccontextmanager
async def connected(address: HostPort, tls: TlsOptions) -> AsyncGenerator[GrpcController, None]:
    telemetry = RecordingTelemetry()
    tokens = InlineToken("secret", SystemClock())
    opened = open_controller(address, tls=tls, tokens=tokens, clock=SystemClock(), telemetry=telemetry)
    async with opened as controller:
        yield controller
    assert telemetry.events == []


async def register(controller: GrpcController) -> Registration:
    return await controller.register(NOBODY, Capability(), timeout_s=HANG_GUARD_S)


async def failure_at(address: HostPort, tls: TlsOptions) -> str:
    async with connected(address, tls) as controller:
        with pytest.raises(ControllerError) as failure:
            await register(controller)
    assert (failure.value.code, failure.value.retryable) == ("UNAVAILABLE", True)
    return failure.value.message


either_way = pytest.mark.parametrize("by_grpc", [True, False], ids=["grpc's handshake", "our handshake"])


@either_way
async def test_trusted_controller_is_talked_to(
    certificate: trustme.LeafCert, trusting: TlsOptions, *, by_grpc: bool
) -> None:
    tls = replace(trusting, refused_below_13=by_grpc)
    async with peer(certificate=certificate) as address, connected(address, tls) as controller:
        for _ in range(2):
            assert (await register(controller)).node_id == "node"


@either_way
async def test_server_name_stands_in_for_the_address(
    ca: trustme.CA, trusting: TlsOptions, *, by_grpc: bool
) -> None:
    tls = replace(trusting, refused_below_13=by_grpc)
    async with peer(certificate=ca.issue_cert("controller.example")) as address:
        assert "check VMAFX_CONTROLLER_SERVER_NAME" in await failure_at(address, tls)
        async with connected(address, replace(tls, server_name="controller.example")) as controller:
            assert await register(controller)


@either_way
async def test_untrusted_controller_is_refused(
    certificate: trustme.LeafCert, tmp_path: Path, *, by_grpc: bool
) -> None:
    tls = TlsOptions(ca_file=ca_file(trustme.CA(), tmp_path), refused_below_13=by_grpc)
    async with peer(certificate=certificate) as address:
        assert "check VMAFX_CONTROLLER_CA_FILE" in await failure_at(address, tls)


@either_way
async def test_system_does_not_trust_a_private_authority(
    certificate: trustme.LeafCert, *, by_grpc: bool
) -> None:
    async with peer(certificate=certificate) as address:
        message = await failure_at(address, TlsOptions(refused_below_13=by_grpc))
    assert "check VMAFX_CONTROLLER_CA_FILE" in message


@either_way
async def test_controller_that_is_away_is_unavailable(trusting: TlsOptions, *, by_grpc: bool) -> None:
    message = await failure_at(unused_address(), replace(trusting, refused_below_13=by_grpc))
    assert "onnect" in message


@either_way
async def test_expired_certificate_is_told(ca: trustme.CA, trusting: TlsOptions, *, by_grpc: bool) -> None:
    async with peer(certificate=expired(ca)) as address:
        message = await failure_at(address, replace(trusting, refused_below_13=by_grpc))
    assert "has expired" in message


@either_way
async def test_controller_without_tls_is_told(trusting: TlsOptions, *, by_grpc: bool) -> None:
    async with peer() as address:
        message = await failure_at(address, replace(trusting, refused_below_13=by_grpc))
    assert "does not speak TLS: check VMAFX_CONTROLLER_TLS" in message


@either_way
@pytest.mark.parametrize("end", [hang_up, reset])
async def test_peer_that_ends_the_handshake_is_not_said_to_speak_tls(
    trusting: TlsOptions, end: Serve, *, by_grpc: bool
) -> None:
    async with listener(end) as address:
        message = await failure_at(address, replace(trusting, refused_below_13=by_grpc))
    assert message.startswith("the controller ended the TLS handshake: it speaks no TLS, or less than 1.3 (")


async def test_peer_that_speaks_no_http2_is_told(certificate: trustme.LeafCert, trusting: TlsOptions) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    async with listener(Handshakes(), context) as address:
        message = await failure_at(address, replace(trusting, refused_below_13=True))
    assert "speaks no gRPC" in message


# ---------------------------------------------------------------- 1.3 at least


async def test_peer_of_tls_12_gets_nothing_from_a_process_that_imported_grpc(
    certificate: trustme.LeafCert, trusting: TlsOptions
) -> None:
    met = Handshakes()
    async with listener(met, tls_context(certificate, ssl.TLSVersion.TLSv1_2)) as address:
        message = await failure_at(address, trusting)
    assert message.startswith("the controller ended the TLS handshake: it speaks no TLS, or less than 1.3 (")
    assert met.versions == []


async def test_peer_of_tls_13_is_proved_before_grpc_connects(
    certificate: trustme.LeafCert, trusting: TlsOptions
) -> None:
    met = Handshakes()
    async with (
        listener(met, tls_context(certificate, ssl.TLSVersion.TLSv1_3)) as address,
        connected(address, trusting) as controller,
    ):
        calls = [asyncio.create_task(register(controller)) for _ in range(8)]
        async with asyncio.timeout(HANG_GUARD_S):
            while len(met.versions) < 2:
                await asyncio.sleep(0.01)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    assert met.versions == ["TLSv1.3", "TLSv1.3"]  # ours, then grpc's: one proof for eight calls


PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from vmafx.adapters.grpc.environment import quieten, restrict_to_tls13
quieten(os.environ)
in_time = restrict_to_tls13(os.environ)
assert in_time and "grpc" not in sys.modules
from vmafx.adapters.auth.bearer import NoToken
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.domain.address import HostPort
from vmafx.adapters.grpc.client import open_controller
from vmafx.adapters.grpc.credentials import TlsOptions
from vmafx.domain.errors import ControllerError
from vmafx.domain.nodesession import Capability
from vmafx.ports.controller import NodeIdentity
async def main(ca, *addresses):
    for text in addresses:
        opened = open_controller(
            HostPort.parse("the address", text), tls=TlsOptions(ca_file=Path(ca), refused_below_13=in_time),
            tokens=NoToken(), clock=SystemClock(), telemetry=RecordingTelemetry(),
        )
        async with opened as controller:
            try:
                print(await controller.register(NodeIdentity(name="n"), Capability(), timeout_s=30))
            except ControllerError as error:
                print(error)
asyncio.run(main(*sys.argv[1:]))
"""


async def test_program_that_restricted_grpc_refuses_12_and_speaks_13(
    certificate: trustme.LeafCert, trusting: TlsOptions
) -> None:
    met = Handshakes()
    async with (
        listener(met, tls_context(certificate, ssl.TLSVersion.TLSv1_2)) as old,
        peer(certificate=certificate) as new,
    ):
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", "-c", PROGRAM, str(trusting.ca_file), str(old), str(new)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(child.communicate(), 60)
    refusal, success = out.decode().splitlines()
    assert refusal.startswith("UNAVAILABLE: the controller ended the TLS handshake: ")
    assert "node" in success
    assert (met.versions, err, child.returncode) == ([], b"", 0)


def test_restriction_that_comes_too_late_says_so_and_changes_nothing() -> None:
    environ: dict[str, str] = {}
    assert not restrict_to_tls13(environ)  # this process has imported grpc
    assert environ == {}


def test_restriction_replaces_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "grpc")
    environ = {"GRPC_SSL_CIPHER_SUITES": "HIGH", "GRPC_VERBOSITY": "DEBUG"}
    assert restrict_to_tls13(environ)
    quieten(environ)
    assert environ["GRPC_SSL_CIPHER_SUITES"] == TLS13_CIPHERS
    assert environ["GRPC_VERBOSITY"] == "DEBUG"


def test_one_proof_serves_a_moment_only() -> None:
    assert PROOF_AGE_MAX_S <= 10


# ---------------------------------------------------------------- what is trusted


def refusal_of(path: Path) -> str:
    with pytest.raises(ConfigurationError) as refusal:
        trusted_roots(path)
    assert refusal.value.setting == "VMAFX_CONTROLLER_CA_FILE"
    return refusal.value.problem


def test_ca_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    assert refusal_of(path) == f"read controller CA file: {path}: No such file or directory"
    os.mkfifo(path)
    assert "is no regular file" in refusal_of(path)
    path.unlink()
    for content in (b"", b"\xff\0", b"-----BEGIN CERTIFICATE-----\n"):
        path.write_bytes(content)
        assert refusal_of(path) == f"controller CA file {path} holds no PEM certificate"
    path.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    assert "cannot be read" in refusal_of(path)


def test_ca_file_may_hold_words_and_keys_beside_its_certificates(ca: trustme.CA, tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    pem = ca.cert_pem.bytes()
    path.write_bytes("für uns\r\n".encode("latin-1") + pem + ca.private_key_pem.bytes() + pem)
    roots = trusted_roots(path)
    assert roots.count(b"BEGIN CERTIFICATE") == 2
    assert b"PRIVATE KEY" not in roots


@pytest.mark.parametrize("as_directory", [False, True])
def test_system_roots_are_openssls_and_follow_its_variables(
    monkeypatch: pytest.MonkeyPatch, ca: trustme.CA, tmp_path: Path, *, as_directory: bool
) -> None:
    place = ca_file(ca, tmp_path)
    (tmp_path / "README").write_text("no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing" if as_directory else place))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path if as_directory else tmp_path / "missing"))
    theirs = ssl.PEM_cert_to_DER_cert(ca.cert_pem.bytes().decode())
    assert ssl.PEM_cert_to_DER_cert(trusted_roots(None).decode()) == theirs


def test_system_without_roots_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    with pytest.raises(ConfigurationError, match="no certificates to trust") as refusal:
        trusted_roots(None)
    assert refusal.value.setting == "VMAFX_CONTROLLER_CA_FILE"


@pytest.mark.parametrize("name", ["", "a b", "a:1:", "http://a", "a/b", "a\n", "user@a"])
def test_server_name_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is no host name") as refusal:
        TlsOptions(server_name=name)
    assert refusal.value.setting == "VMAFX_CONTROLLER_SERVER_NAME"


@pytest.mark.parametrize("name", ["controller", "controller.example", "10.0.0.7", "::1"])
def test_server_name_may_be_a_host_or_an_address(name: str) -> None:
    assert TlsOptions(server_name=name).server_name == name
