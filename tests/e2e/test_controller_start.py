"""How `vmafx-controller` starts, refuses to, and shows what it would run with (ADR 0028)."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import sqlite3
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from tests.e2e.controller_program import CONTROLLER, controller_settings, free_ports
from tests.e2e.program import HANG_S
from vmafx.app.cli import controller as of_program
from vmafx.app.cli.main import run as run_here
from vmafx.domain.version import __version__

SECRET = "dsn-3f9c"


def run(program, *arguments, command=(str(CONTROLLER),), **settings):
    """Run a controller that must end by itself."""
    return subprocess.run(
        [*command, *arguments],
        env=program.environment | settings,
        cwd=program.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


def errors(shown):
    """The ERROR records of a log."""
    records = [json.loads(line) for line in shown.stderr.splitlines()]
    return [record for record in records if record["level"] == "ERROR"]


@pytest.fixture
def settings(program):
    return controller_settings(program.folder, free_ports())


def files(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def called(program, monkeypatch):
    """The program in this process, where a start costs nothing; it must end by itself."""
    monkeypatch.setattr(of_program, "prepare_process", lambda _, *, children: True)

    def call(*arguments, name="vmafx-controller", **settings):
        environment = program.environment | settings
        with contextlib.chdir(program.folder):
            return run_here(arguments, environment, platform="linux", program=name)

    return call


REFUSALS = [
    ({"VMAFX_AUTH_DISABLED": "false"}, {"VMAFX_AUTH_DISABLED": "this version verifies no tokens (JWT)"}),
    (
        {
            "VMAFX_AUTH_DISABLED": "",
            "VMAFX_JWKS_ENDPOINT": "https://idp/keys",
            "VMAFX_AUTH_ISSUER": "https://idp",
            "VMAFX_STORE_BACKEND": "postgres",
            "VMAFX_STORE_LEASE_TTL": "-1s",
            "VMAFX_SCORING_ROOTS": "clips",
            "VMAFX_HTTP_ADDR": "http://h:1",
            "VMAFX_DB_DSN": f"{SECRET}\u0001",
        },
        {
            "VMAFX_AUTH_DISABLED": "Set it to true",
            "VMAFX_JWKS_ENDPOINT": "cannot be honoured",
            "VMAFX_AUTH_ISSUER": "cannot be honoured",
            "VMAFX_STORE_BACKEND": "has no PostgreSQL store",
            "VMAFX_STORE_LEASE_TTL": "must not be negative",
            "VMAFX_SCORING_ROOTS": "clips",
            "VMAFX_HTTP_ADDR": "has a scheme",
            "VMAFX_DB_DSN": "control characters",
        },
    ),
    ({"VMAFX_HTTP_ADDR": ":7", "VMAFX_GRPC_LISTEN": ":7"}, {"VMAFX_HTTP_ADDR": "has the port of"}),
    ({"VMAFX_DB_PATH": "/nowhere/jobs.db"}, {"VMAFX_DB_PATH": "/nowhere"}),
    ({"VMAFX_DB_PATH": "", "HOME": "", "XDG_STATE_HOME": "here"}, {"VMAFX_DB_PATH": "is unset"}),
    (
        {"VMAFX_GRPC_TLS": "1", "VMAFX_GRPC_CERT_FILE": "/nowhere", "VMAFX_GRPC_KEY_FILE": "/nowhere"},
        {"VMAFX_GRPC_CERT_FILE": "cannot be read"},
    ),
]


@pytest.mark.parametrize(
    ("wrong", "expected"), REFUSALS, ids=["auth", "many", "ports", "folder", "no place", "certificate"]
)
class TestRefusals:
    def test_a_start_names_each_setting_in_the_log_and_leaves_nothing(
        self, program, settings, called, capfd, wrong, expected
    ):
        before = files(program.folder)
        assert called(**settings | wrong) == 2
        out, err = capfd.readouterr()
        told = [record for record in map(json.loads, err.splitlines()) if record["level"] == "ERROR"]
        assert {record["msg"] for record in told} == {"controller refuses to start"}
        assert sorted(record["setting"] for record in told) == sorted(expected)
        for record in told:
            assert expected[record["setting"]] in record["error"]
            assert record["setting"] in record["error"]
        assert not out
        assert SECRET not in err
        assert all(name.startswith("jobs.db") for name in set(files(program.folder)) - set(before))

    def test_a_check_names_each_setting_and_makes_nothing(
        self, program, settings, called, capfd, wrong, expected
    ):
        before = files(program.folder)
        assert called("--check", **settings | wrong) == 2
        out, err = capfd.readouterr()
        told = [line for line in err.splitlines() if re.match("vmafx-controller: (?!warning)", line)]
        assert len(told) == len(expected)
        for name, problem in expected.items():
            assert any(name in line and problem in line for line in told), told
        assert not out
        assert SECRET not in err
        assert files(program.folder) == before


@pytest.mark.parametrize("name", ["VMAFX_GRPC_LISTEN", "VMAFX_HTTP_ADDR"])
def test_an_address_in_use_is_refused_by_name_and_the_database_let_go(settings, called, capfd, name):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for words in ((), ("--check",)):
            assert called(*words, **settings | {name: address}) == 2
            assert f'{name}="{address}" is in use' in capfd.readouterr().err.replace('\\"', '"')
    assert called("--check", **settings) == 0, capfd.readouterr().err


def test_a_database_that_is_none_is_refused_and_not_touched(settings, called, capfd):
    database = Path(settings["VMAFX_DB_PATH"])
    database.write_bytes(b"no database at all, and longer than sixteen bytes")
    for words in ((), ("--check",)):
        assert called(*words, **settings) == 2
        assert "is no SQLite database" in capfd.readouterr().err
    assert database.read_bytes().startswith(b"no database")


def test_a_process_that_refuses_ends_with_its_code(program, settings):
    shown = run(program, **settings | {"VMAFX_AUTH_DISABLED": "", "VMAFX_PULL_WAIT": "x"})
    assert (shown.returncode, shown.stdout) == (2, "")
    assert sorted(record["setting"] for record in errors(shown)) == ["VMAFX_AUTH_DISABLED", "VMAFX_PULL_WAIT"]


class TestCheck:
    def test_it_tells_at_once_what_is_wrong_with_settings_and_with_the_machine(self, settings, called, capfd):
        Path(settings["VMAFX_DB_PATH"]).write_bytes(b"no database at all, and longer than sixteen bytes")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            wrong = {"VMAFX_PULL_WAIT": "x", "VMAFX_HTTP_ADDR": address, "VMAFX_SCORING_ROOTS": ""}
            assert called("--check", **settings | wrong) == 2
        lines = capfd.readouterr().err.splitlines()
        assert all(line.startswith("vmafx-controller: ") for line in lines)
        for name in ("VMAFX_PULL_WAIT", "VMAFX_HTTP_ADDR", "VMAFX_DB_PATH", "VMAFX_SCORING_ROOTS"):
            assert sum(name in line for line in lines) == 1, lines

    def test_it_shows_the_configuration_and_no_secret_and_makes_nothing(self, program, settings):
        before = files(program.folder)
        asked = settings | {"VMAFX_DB_DSN": SECRET, "VMAFX_STORE_LEASE_TL": "1s", "VMAFX_DB_PATH": ""}
        shown = run(program, "--check", **asked)
        assert shown.returncode == 0, shown.stderr
        rows = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in shown.stdout.splitlines())
        place = program.folder / ".local/state/vmafx/vmafx-controller.db"
        assert rows["VMAFX_AUTH_DISABLED"] == "true  (environment)"
        assert rows["VMAFX_DB_DSN"] == "**********  (environment)"
        assert rows["VMAFX_DB_PATH"] == f"{place}  (default)"
        assert rows["VMAFX_STORE_LEASE_TTL"] == "1m  (default)"
        assert rows["database"] == f"{place} is not there yet; a start makes it"
        assert rows["would start"] == "yes"
        warnings = shown.stderr.splitlines()
        assert all(line.startswith("vmafx-controller: warning: ") for line in warnings)
        for words in ("VMAFX_STORE_LEASE_TL is not", "VMAFX_DB_DSN has no effect", "no token is looked at"):
            assert sum(words in line for line in warnings) == 1
        assert SECRET not in shown.stdout + shown.stderr
        assert files(program.folder) == before

    def test_it_says_what_a_start_would_do_with_a_file(self, settings, called, capfd):
        database = settings["VMAFX_DB_PATH"]
        connection = sqlite3.connect(database)
        connection.execute(
            "CREATE TABLE jobs (id TEXT, status TEXT, scoring TEXT, assigned_node TEXT, score REAL,"
            " features TEXT, error TEXT, tenant_id TEXT, created_at INT, updated_at INT)"
        )
        connection.close()
        before = Path(database).read_bytes()
        assert called("--check", **settings) == 0
        out, _ = capfd.readouterr()
        assert f"{database} is the original platform's; a start takes it over" in out
        assert Path(database).read_bytes() == before

    def test_it_refuses_the_file_of_a_running_controller(self, program, real_controllers, called, capfd):
        running = real_controllers()
        running.wait_ready()
        assert called("--check", **controller_settings(program.folder, free_ports())) == 2
        assert f"is served by another controller (process {running.process.pid})" in capfd.readouterr().err
        assert running.get("/healthz")[0] == 200
        assert running.stop() == 0

    @pytest.mark.parametrize(("closed", "code"), [("2>&-", 0), (">/dev/full", 1)])
    def test_it_works_with_closed_and_full_streams(self, program, settings, closed, code):
        shown = run(program, command=("/bin/sh", "-c", f'"{CONTROLLER}" --check {closed}'), **settings)
        assert shown.returncode == code, shown.stderr
        assert "Traceback" not in shown.stderr


def test_the_default_database_lies_in_a_folder_for_its_owner_alone(program, real_controllers):
    controller = real_controllers(VMAFX_DB_PATH="")
    controller.wait_ready()
    folder = program.folder / ".local"
    for made in (folder, folder / "state", folder / "state/vmafx"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert (folder / "state/vmafx/vmafx-controller.db").exists()
    assert not (program.folder / "jobs.db").exists()
    assert controller.stop() == 0


def test_a_start_warns_of_what_is_open_and_of_what_has_no_effect(program, real_controllers):
    (port, _) = ports = free_ports()
    controller = real_controllers(
        ports=ports, VMAFX_GRPC_LISTEN=f":{port}", VMAFX_VMAF_BINARY="/v", VMAFX_SCORING_ROOTS=""
    )
    controller.wait_ready()
    first, second = controller.told("authentication is disabled", level="WARN")
    assert "every caller may do everything" in first["error"]
    assert f"VMAFX_GRPC_LISTEN=:{port} can be reached from other machines" in second["error"]
    odd = [record["error"] for record in controller.told("setting questionable")]
    assert any("VMAFX_VMAF_BINARY has no effect" in line for line in odd)
    assert any("VMAFX_SCORING_ROOTS is unset" in line for line in odd)
    assert controller.records()[0]["version"] == __version__
    assert controller.stop() == 0


def test_version_is_told_without_a_look_at_anything(program):
    command = (sys.executable, "-X", "importtime", str(CONTROLLER))
    shown = run(program, "--version", command=command, VMAFX_PULL_WAIT="x")
    assert (shown.returncode, shown.stdout) == (0, f"vmafx-controller {__version__}\n")
    imported = {line.rpartition("|")[2].strip() for line in shown.stderr.splitlines()}
    assert imported.isdisjoint({"grpc", "asyncio", "pydantic", "dependency_injector", "aiohttp", "sqlite3"})


def test_vmafx_controller_is_the_same_program(settings, called, capfd):
    assert called("controller", name="vmafx", **settings | {"VMAFX_PULL_WAIT": "x"}) == 2
    told = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [record.get("setting") for record in told] == [None, "VMAFX_PULL_WAIT"]


def test_calls_over_tls_are_taken_and_tls_below_13_is_refused(program, real_controllers, tmp_path):
    ca = trustme.CA()
    certificate = ca.issue_cert("localhost")
    (chain,) = certificate.cert_chain_pems
    chain.write_to_path(tmp_path / "cert.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    controller = real_controllers(
        VMAFX_GRPC_TLS="true",
        VMAFX_GRPC_CERT_FILE=str(tmp_path / "cert.pem"),
        VMAFX_GRPC_KEY_FILE=str(tmp_path / "key.pem"),
    )
    controller.wait_ready()
    context = ssl.create_default_context(cadata=ca.cert_pem.bytes().decode())
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", controller.ports[0]), HANG_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as spoken,
    ):
        assert (spoken.version(), spoken.selected_alpn_protocol()) == ("TLSv1.3", "h2")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        socket.create_connection(("127.0.0.1", controller.ports[0]), HANG_S) as plain,
        pytest.raises(OSError, match=r"(?i)handshake|eof|reset"),
    ):
        context.wrap_socket(plain, server_hostname="localhost")
    assert controller.stop() == 0
