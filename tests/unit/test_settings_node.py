"""NodeSettings: every variable is read, and what cannot be honoured is refused by name, all at once."""

from __future__ import annotations

import dataclasses
import stat
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from vmafx.app.settings.controller_client import ControllerClientSettings
from vmafx.app.settings.ebpf import EbpfSettings
from vmafx.app.settings.files import FileChecks
from vmafx.app.settings.grpc_listener import GrpcListenerSettings
from vmafx.app.settings.http_listener import HttpSettings
from vmafx.app.settings.logs import LogFormat, LogSettings
from vmafx.app.settings.node import NodeSettings
from vmafx.app.settings.otel import OtelSettings
from vmafx.app.settings.parts import variables_of
from vmafx.app.settings.pod import PodSettings
from vmafx.app.settings.scorer import ScorerSettings
from vmafx.app.settings.storage import SourceSettings, SpoolSettings, StorageMode, StorageSettings
from vmafx.domain.address import HostPort
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.roots import ScoringRoots
from vmafx.domain.scoring import Backend
from vmafx.domain.session_policy import SessionPolicy
from vmafx.domain.version import __version__
from vmafx.ports.telemetry import Level

CLIENT = "controller client config: "
ADDRESS = HostPort(host="c", port=9090)
VARIABLES = {variable.name: (variable, path) for variable, path in variables_of(NodeSettings)}


def read(host_name="host-1", files=None, **environment):
    return NodeSettings.from_environment(environment, host_name=host_name, files=files)


def refusal(host_name="host-1", files=None, **environment):
    with pytest.raises(ConfigurationError) as caught:
        read(host_name, files, **environment)
    assert caught.value.__cause__ is None
    return caught.value


def test_an_empty_environment_gives_the_documented_defaults():
    assert read() == NodeSettings(
        name="host-1",
        slots=1,
        shutdown_timeout_s=30.0,
        max_concurrent_scores=None,
        scoring_roots=None,
        ffmpeg="ffmpeg",
        sidecar_socket="/tmp/vmafx-sidecar.sock",
        controller=ControllerClientSettings(
            address=None,
            tls=False,
            ca_file=None,
            server_name=None,
            token_file=None,
            token=None,
            rpc_timeout_s=10.0,
            heartbeat_interval_s=10.0,
            poll_interval_s=2.0,
        ),
        scorer=ScorerSettings(),
        grpc=GrpcListenerSettings(
            address=HostPort(host="", port=50052),
            tls=False,
            cert_file=None,
            key_file=None,
            receive_bytes_max=4194304,
            send_bytes_max=4194304,
        ),
        http=HttpSettings(
            address=HostPort(host="", port=9090),
            read_s=30.0,
            header_s=5.0,
            write_s=60.0,
            idle_s=120.0,
            shutdown_s=30.0,
            header_bytes_max=1048576,
            body_bytes_max=10485760,
            unlimited=False,
        ),
        storage=StorageSettings(mode=StorageMode.AUTO, mount_root=None, rclone="rclone", rclone_config=None),
        sources=SourceSettings(idle_timeout_s=60.0, fsspec_schemes=None, http_headers_file=None),
        spool=SpoolSettings(folder=None, bytes_max=64 * 1024 * 1024),
        ebpf=EbpfSettings(bypass=False, mount_prefix="/rclone-mount/"),
        log=LogSettings(level=Level.INFO, format=LogFormat.AUTO),
        otel=OtelSettings(
            enabled=None,
            sdk_disabled=False,
            insecure=True,
            service_name=None,
            service_version=__version__,
            service_namespace=None,
            sample_ratio=1.0,
            export_traces=True,
            export_metrics=True,
            export_logs=True,
            endpoint=None,
            traces_endpoint=None,
            metrics_endpoint=None,
            logs_endpoint=None,
        ),
        pod=PodSettings(name=None, namespace=None, ip=None, node=None, service_account=None),
    )


READ = [
    ("VMAFX_NODE_ID", " gpu-7\n", "gpu-7"),
    ("VMAFX_NODE_SLOTS", "64", 64),
    ("VMAFX_SHUTDOWN_TIMEOUT", "2m", 120.0),
    ("VMAFX_SHUTDOWN_TIMEOUT", "0", 0.0),
    ("VMAFX_MAX_CONCURRENT_SCORES", "1024", 1024),
    ("VMAFX_SCORING_ROOTS", " /a , s3:b,", ScoringRoots.parse(["/a", "s3:b"])),
    ("VMAFX_FFMPEG_BIN", "/opt/ffmpeg", "/opt/ffmpeg"),
    ("VMAFX_SIDECAR_SOCKET", "/run/s.sock", "/run/s.sock"),
    ("VMAFX_CONTROLLER_ADDR", " [::1]:9090 ", HostPort(host="::1", port=9090)),
    ("VMAFX_CONTROLLER_TLS", "True", True),
    ("VMAFX_CONTROLLER_TOKEN_FILE", "/run/token", "/run/token"),
    ("VMAFX_CONTROLLER_TOKEN", " a.b.c ", SecretStr("a.b.c")),
    ("VMAFX_CONTROLLER_RPC_TIMEOUT", "1s500ms", 1.5),
    ("VMAFX_CONTROLLER_HEARTBEAT_INTERVAL", "200ms", 0.2),
    ("VMAFX_CONTROLLER_POLL_INTERVAL", "2h", 7200.0),
    ("VMAFX_GRPC_LISTEN", "127.0.0.1:0", HostPort(host="127.0.0.1", port=0)),
    ("VMAFX_GRPC_CERT_FILE", "c.pem", "c.pem"),
    ("VMAFX_GRPC_KEY_FILE", "k.pem", "k.pem"),
    ("VMAFX_GRPC_MAX_RECV_SIZE", "1", 1),
    ("VMAFX_GRPC_MAX_RECV_SIZE", "0", 4194304),
    ("VMAFX_GRPC_MAX_SEND_SIZE", "2147483647", 2**31 - 1),
    ("VMAFX_GRPC_MAX_SEND_SIZE", "0", 4194304),
    ("VMAFX_HTTP_ADDR", "localhost:8080", HostPort(host="localhost", port=8080)),
    ("VMAFX_HTTP_TIMEOUTS_READ", "1s", 1.0),
    ("VMAFX_HTTP_TIMEOUTS_READ", "0", 30.0),
    ("VMAFX_HTTP_TIMEOUTS_HEADER", "0s", 5.0),
    ("VMAFX_HTTP_TIMEOUTS_HEADER", "2s", 2.0),
    ("VMAFX_HTTP_TIMEOUTS_WRITE", "3s", 3.0),
    ("VMAFX_HTTP_TIMEOUTS_WRITE", "0", 60.0),
    ("VMAFX_HTTP_TIMEOUTS_IDLE", "4s", 4.0),
    ("VMAFX_HTTP_TIMEOUTS_IDLE", "0", 120.0),
    ("VMAFX_HTTP_TIMEOUTS_SHUTDOWN", "5s", 5.0),
    ("VMAFX_HTTP_TIMEOUTS_SHUTDOWN", "0", 30.0),
    ("VMAFX_HTTP_LIMITS_HEADER", "8", 8),
    ("VMAFX_HTTP_LIMITS_HEADER", "0", 1048576),
    ("VMAFX_HTTP_LIMITS_BODY", "9", 9),
    ("VMAFX_HTTP_LIMITS_BODY", "0", 10485760),
    ("VMAFX_HTTP_LIMITS_UNLIMITED", "t", True),
    ("VMAFX_STORAGE_MODE", "http-serve", StorageMode.HTTP_SERVE),
    ("VMAFX_STORAGE_MODE", "mount", StorageMode.MOUNT),
    ("VMAFX_STORAGE_MOUNT_ROOT", "/mnt", "/mnt"),
    ("VMAFX_RCLONE_BIN", "rclone-beta", "rclone-beta"),
    ("VMAFX_RCLONE_CONFIG", "/etc/rclone.conf", "/etc/rclone.conf"),
    ("VMAFX_SOURCE_IDLE_TIMEOUT", "90s", 90.0),
    ("VMAFX_FSSPEC_SCHEMES", "s3, gs ,,memory", ("s3", "gs", "memory")),
    ("VMAFX_HTTP_HEADERS_FILE", "/run/headers", "/run/headers"),
    ("VMAFX_SPOOL_DIR", "/var/spool", "/var/spool"),
    ("VMAFX_SPOOL_MAX_BYTES", "1", 1),
    ("VMAFX_EBPF_BYPASS", "false", False),
    ("VMAFX_EBPF_MOUNT_PREFIX", "/mnt", "/mnt/"),
    ("VMAFX_EBPF_MOUNT_PREFIX", "/mnt/", "/mnt/"),
    ("VMAFX_LOG_LEVEL", "WARN", Level.WARN),
    ("VMAFX_LOG_LEVEL", "loud", Level.INFO),
    ("VMAFX_LOG_FORMAT", "json", LogFormat.JSON),
    ("VMAFX_LOG_FORMAT", "tint", LogFormat.TINT),
    ("VMAFX_OTEL_ENABLED", "0", False),
    ("VMAFX_OTEL_ENDPOINT", "otel:4317", "otel:4317"),
    ("VMAFX_OTEL_INSECURE", "false", False),
    ("VMAFX_OTEL_SERVICE_NAME", "n", "n"),
    ("VMAFX_OTEL_SERVICE_VERSION", "9", "9"),
    ("VMAFX_OTEL_SERVICE_NAMESPACE", "ns", "ns"),
    ("VMAFX_OTEL_SAMPLE_RATIO", "0.25", 0.25),
    ("VMAFX_OTEL_EXPORT_TRACES", "F", False),
    ("VMAFX_OTEL_EXPORT_METRICS", "F", False),
    ("VMAFX_OTEL_EXPORT_LOGS", "F", False),
    ("OTEL_SDK_DISABLED", "TRUE", True),
    ("OTEL_SDK_DISABLED", "1", False),
    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "t:1", "t:1"),
    ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "m:1", "m:1"),
    ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "l:1", "l:1"),
    ("POD_NAME", "pod-1", "pod-1"),
    ("POD_NAMESPACE", "ns-1", "ns-1"),
    ("POD_IP", "10.0.0.1", "10.0.0.1"),
    ("NODE_NAME", "machine-1", "machine-1"),
    ("SERVICE_ACCOUNT", "sa", "sa"),
]
WITH_OTHERS = {"VMAFX_CONTROLLER_CA_FILE", "VMAFX_CONTROLLER_SERVER_NAME", "VMAFX_GRPC_TLS"}


def values(settings):
    return {name: reduce(getattr, path, settings) for name, (_, path) in VARIABLES.items()}


@pytest.mark.parametrize(("name", "text", "value"), READ)
def test_a_variable_sets_its_value_and_no_other(name, text, value):
    assert values(read(**{name: text})) == values(read()) | {name: value}


def test_no_variable_is_left_out_of_the_tests():
    assert {name for name, _, _ in READ} | WITH_OTHERS == set(VARIABLES)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, text, _ in READ])
def test_a_blank_value_means_unset(name, text):
    assert read(**{name: " \t"}) == read()


def test_settings_that_need_others_are_read_with_them():
    client = read(
        VMAFX_CONTROLLER_TLS="true", VMAFX_CONTROLLER_CA_FILE="/ca", VMAFX_CONTROLLER_SERVER_NAME="c.example"
    ).controller
    assert (client.ca_file, client.server_name) == ("/ca", "c.example")
    grpc = read(VMAFX_GRPC_TLS="true", VMAFX_GRPC_CERT_FILE="c", VMAFX_GRPC_KEY_FILE="k").grpc
    assert grpc.tls is True


NOT_A_DURATION = "is not a duration (examples: 500ms, 10s)"
FAR = "is too long (at most 2562047h)"
KEYED = [
    ("VMAFX_CONTROLLER_RPC_TIMEOUT", "ten", f'controller.rpc_timeout="ten" {NOT_A_DURATION}'),
    ("VMAFX_CONTROLLER_RPC_TIMEOUT", "0", 'controller.rpc_timeout="0" must be positive'),
    ("VMAFX_CONTROLLER_RPC_TIMEOUT", "-1s", 'controller.rpc_timeout="-1s" must be positive'),
    ("VMAFX_CONTROLLER_RPC_TIMEOUT", "60s", 'controller.rpc_timeout="60s" must be below 60s'),
    ("VMAFX_CONTROLLER_HEARTBEAT_INTERVAL", "10", f'controller.heartbeat_interval="10" {NOT_A_DURATION}'),
    ("VMAFX_CONTROLLER_HEARTBEAT_INTERVAL", "0s", 'controller.heartbeat_interval="0s" must be positive'),
    ("VMAFX_CONTROLLER_HEARTBEAT_INTERVAL", "1m", 'controller.heartbeat_interval="1m" must be below 60s'),
    (
        "VMAFX_CONTROLLER_HEARTBEAT_INTERVAL",
        "50001ms",
        (
            'controller.heartbeat_interval="50.001s" and VMAFX_CONTROLLER_RPC_TIMEOUT=10s must be at most '
            "60s together: the controller forgets a node that it has not heard for so long"
        ),
    ),
    ("VMAFX_CONTROLLER_POLL_INTERVAL", "soon", f'controller.poll_interval="soon" {NOT_A_DURATION}'),
    ("VMAFX_CONTROLLER_POLL_INTERVAL", "-0s", 'controller.poll_interval="-0s" must be positive'),
    ("VMAFX_CONTROLLER_POLL_INTERVAL", "9999999h", f'controller.poll_interval="9999999h" {FAR}'),
    ("VMAFX_CONTROLLER_TLS", "maybe", 'controller.tls="maybe" is not a boolean'),
    ("VMAFX_NODE_SLOTS", "65", 'node.slots="65" must be an integer from 1 to 64'),
    ("VMAFX_NODE_SLOTS", "0", 'node.slots="0" must be an integer from 1 to 64'),
    ("VMAFX_NODE_SLOTS", "two", 'node.slots="two" must be an integer from 1 to 64'),
    ("VMAFX_NODE_ID", "a\nb", r'node.id="a\nb" holds control characters or bytes that are no UTF-8'),
    ("VMAFX_NODE_ID", "\udcff", r'node.id="\xff" holds control characters or bytes that are no UTF-8'),
    ("VMAFX_NODE_ID", "é" * 129, f'node.id="{"é" * 129}" is longer than 256 bytes'),
    (
        "VMAFX_CONTROLLER_TOKEN",
        "a\nb",
        "controller.token holds more than a token: there are blanks or line breaks",
    ),
    ("VMAFX_CONTROLLER_TOKEN", "x" * 65537, "controller.token is longer than 65536 bytes"),
    (
        "VMAFX_CONTROLLER_CA_FILE",
        "/ca",
        "controller.ca_file and controller.server_name need controller.tls=true",
    ),
    (
        "VMAFX_CONTROLLER_SERVER_NAME",
        "c",
        "controller.ca_file and controller.server_name need controller.tls=true",
    ),
    ("VMAFX_CONTROLLER_SERVER_NAME", "c/d", 'controller.server_name="c/d" is no host name'),
]


@pytest.mark.parametrize("address", ["", "c:9090"])
@pytest.mark.parametrize(("name", "text", "problem"), KEYED)
def test_problems_of_the_client_are_told_by_variable_and_key_with_and_without_an_address(
    name, text, problem, address
):
    refused = refusal(VMAFX_CONTROLLER_ADDR=address, **{name: text})
    assert str(refused) == f"{CLIENT}{name}: {problem}"
    assert refused.setting == name
    assert refused.others == ()


@pytest.mark.parametrize(
    ("text", "hint"),
    [("http://c:1", "has a scheme"), ("c", "has no port"), (":1", "names no host"), ("c:0", "port")],
)
def test_an_address_that_is_no_host_and_port_is_refused_with_a_hint(text, hint):
    refused = refusal(VMAFX_CONTROLLER_ADDR=text)
    assert str(refused).startswith(f'{CLIENT}VMAFX_CONTROLLER_ADDR: controller.addr="{text}" ')
    assert hint in str(refused)


def test_two_tokens_are_refused_without_telling_either():
    refused = refusal(VMAFX_CONTROLLER_TOKEN="hush", VMAFX_CONTROLLER_TOKEN_FILE="/t")
    assert refused.setting == "VMAFX_CONTROLLER_TOKEN"
    assert str(refused) == (
        f"{CLIENT}VMAFX_CONTROLLER_TOKEN: set controller.token or controller.token_file, not both"
    )


def test_a_backend_that_cannot_be_advertised_is_refused_in_the_words_for_it():
    refused = refusal(VMAFX_CONTROLLER_ADDR="c:1", VMAFX_BACKEND="auto")
    assert refused.setting == "VMAFX_BACKEND"
    assert str(refused) == (
        f'{CLIENT}VMAFX_BACKEND="auto" cannot be advertised to the controller; use one of cpu, cuda, hip, '
        "sycl, metal"
    )


def test_a_backend_that_does_not_exist_is_refused_without_a_controller_too():
    assert str(refusal(VMAFX_BACKEND="auto")) == (
        'VMAFX_BACKEND="auto" is not a backend; use one of cpu, cuda, hip, sycl, metal'
    )


@pytest.mark.parametrize("host_name", [None, "", "  "])
def test_a_node_without_any_name_is_refused(host_name):
    refused = refusal(host_name)
    assert str(refused) == f"{CLIENT}VMAFX_NODE_ID: node.id unset and host name unavailable"
    assert read(host_name, VMAFX_NODE_ID="n").name == "n"


def test_a_host_name_is_held_to_the_same_bounds():
    assert refusal("h" * 257).setting == "VMAFX_NODE_ID"
    assert read("h" * 256).name == "h" * 256


def test_an_unknown_storage_mode_is_told_in_the_known_words():
    refused = refusal(VMAFX_STORAGE_MODE="x")
    assert refused.setting == "VMAFX_STORAGE_MODE"
    assert str(refused) == (
        'storage (VMAFX_STORAGE_MODE="x"): storage: unknown mode "x" (want http-serve, mount or auto)'
    )


OTHERS = [
    ("VMAFX_STORAGE_MODE", "Mount"),
    ("VMAFX_EBPF_BYPASS", "x"),
    ("VMAFX_EBPF_BYPASS", "true"),
    ("VMAFX_SHUTDOWN_TIMEOUT", "-1s"),
    ("VMAFX_MAX_CONCURRENT_SCORES", "0"),
    ("VMAFX_MAX_CONCURRENT_SCORES", "1025"),
    ("VMAFX_SCORING_ROOTS", "relative/path"),
    ("VMAFX_SCORING_ROOTS", ",".join(f"/r{n}" for n in range(33))),
    ("VMAFX_FFMPEG_BIN", "./ffmpeg"),
    ("VMAFX_RCLONE_BIN", "bin/rclone"),
    ("VMAFX_SIDECAR_SOCKET", "/a\x00b"),
    ("VMAFX_GRPC_LISTEN", "50052"),
    ("VMAFX_GRPC_TLS", "true"),
    ("VMAFX_GRPC_MAX_RECV_SIZE", "-1"),
    ("VMAFX_GRPC_MAX_SEND_SIZE", "2147483648"),
    ("VMAFX_HTTP_ADDR", "http://:9090"),
    ("VMAFX_HTTP_TIMEOUTS_READ", "-1s"),
    ("VMAFX_HTTP_LIMITS_BODY", "10MB"),
    ("VMAFX_HTTP_LIMITS_UNLIMITED", "yes"),
    ("VMAFX_SOURCE_IDLE_TIMEOUT", "0"),
    ("VMAFX_FSSPEC_SCHEMES", "s3://"),
    ("VMAFX_FSSPEC_SCHEMES", ","),
    ("VMAFX_SPOOL_MAX_BYTES", "0"),
    ("VMAFX_LOG_FORMAT", "JSON"),
    ("VMAFX_OTEL_ENABLED", "maybe"),
    ("VMAFX_OTEL_SAMPLE_RATIO", "1.01"),
    ("VMAFX_OTEL_SAMPLE_RATIO", "nan"),
    ("VMAFX_SCORE_THREADS", "0"),
    ("POD_NAME", "a\x1bb"),
]


@pytest.mark.parametrize(("name", "text"), OTHERS)
def test_every_other_wrong_value_is_refused_by_its_variable(name, text):
    refused = refusal(**{name: text})
    assert refused.setting == name
    assert name in str(refused)
    assert CLIENT not in str(refused)
    assert refused.others == ()


def test_a_switch_that_is_no_boolean_is_told_in_the_known_words():
    assert str(refusal(VMAFX_EBPF_BYPASS="x")) == 'ebpf.bypass="x" is not a boolean (VMAFX_EBPF_BYPASS)'


def test_the_tracker_is_refused_with_its_prefix():
    refused = refusal(VMAFX_EBPF_BYPASS="true", VMAFX_EBPF_MOUNT_PREFIX="mnt")
    assert [problem.setting for problem in refused.all] == ["VMAFX_EBPF_BYPASS", "VMAFX_EBPF_MOUNT_PREFIX"]


def test_all_problems_are_told_at_once_and_those_of_the_client_together():
    wrong = {name: text for name, text, _ in KEYED[:3]} | dict(OTHERS)
    wrong |= {"VMAFX_CONTROLLER_POLL_INTERVAL": "x", "VMAFX_NODE_SLOTS": "65", "VMAFX_CONTROLLER_TLS": "x"}
    del wrong["VMAFX_GRPC_TLS"]
    refused = refusal(VMAFX_CONTROLLER_ADDR="c", **wrong)
    told = [problem.setting for problem in refused.all]
    assert sorted(told) == sorted({*wrong, "VMAFX_CONTROLLER_ADDR"})
    assert str(refused).count(CLIENT) == 1
    before, _, client = str(refused).partition(CLIENT)
    for name in told:
        of_client = name.startswith("VMAFX_CONTROLLER_") or name == "VMAFX_NODE_SLOTS"
        assert (name in client) is of_client
        assert (name in before) is not of_client
    for problem in refused.all:
        assert str(problem).startswith(CLIENT) is problem.setting.startswith(
            ("VMAFX_CONTROLLER", "VMAFX_NODE")
        )


def test_a_wrong_value_brings_no_problem_of_its_default_along():
    refused = refusal(VMAFX_CONTROLLER_RPC_TIMEOUT="ten", VMAFX_CONTROLLER_HEARTBEAT_INTERVAL="55s")
    assert [problem.setting for problem in refused.all] == ["VMAFX_CONTROLLER_RPC_TIMEOUT"]
    refused = refusal(VMAFX_CONTROLLER_TLS="maybe", VMAFX_CONTROLLER_CA_FILE="/ca")
    assert [problem.setting for problem in refused.all] == ["VMAFX_CONTROLLER_TLS"]


@given(
    beat_ms=st.integers(1, 70_000),
    timeout_ms=st.integers(1, 70_000),
)
def test_timing_is_taken_exactly_where_a_session_can_be_kept(beat_ms, timeout_ms):
    environment = {
        "VMAFX_CONTROLLER_HEARTBEAT_INTERVAL": f"{beat_ms}ms",
        "VMAFX_CONTROLLER_RPC_TIMEOUT": f"{timeout_ms}ms",
    }
    if max(beat_ms, timeout_ms) < 60_000 and beat_ms / 1000 + timeout_ms / 1000 <= 60:
        client = read(**environment).controller
        assert client.session_policy == SessionPolicy(
            heartbeat_interval_s=beat_ms / 1000, rpc_timeout_s=timeout_ms / 1000
        )
        assert (client.timing_warning is None) is (2 * beat_ms / 1000 + timeout_ms / 1000 <= 60)
    else:
        assert {problem.group for problem in refusal(**environment).all} == {CLIENT[:-2]}


@given(name=st.sampled_from(sorted(VARIABLES)), text=st.text(max_size=30))
def test_any_text_is_read_or_refused_by_a_name_and_no_other_error_escapes(name, text):
    try:
        settings = read(**{name: text})
    except ConfigurationError as refused:
        assert refused.setting in VARIABLES  # noqa: PT017 - both ways are allowed
        assert "\n" not in str(refused)  # noqa: PT017 - the same
    else:
        dataclasses.replace(settings)  # the same value made by hand passes the same checks


@given(
    name=st.sampled_from(sorted(VARIABLES)), value=st.sampled_from([object(), 1.5j, b"x", [], {"a": 1}, ""])
)
def test_a_value_of_another_type_made_by_hand_is_refused_by_its_variable(name, value):
    _, path = VARIABLES[name]
    holder = reduce(getattr, path[:-1], NodeSettings(name="n"))
    with pytest.raises(ConfigurationError) as caught:
        dataclasses.replace(holder, **{path[-1]: value})
    assert caught.value.setting == name


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (lambda: NodeSettings(name="n", slots=65), ["VMAFX_NODE_SLOTS"]),
        (lambda: NodeSettings(name="n", slots=True), ["VMAFX_NODE_SLOTS"]),
        (lambda: NodeSettings(name=" n"), ["VMAFX_NODE_ID"]),
        (lambda: NodeSettings(name="n", shutdown_timeout_s=float("nan")), ["VMAFX_SHUTDOWN_TIMEOUT"]),
        (lambda: NodeSettings(name="n", scorer="x"), ["scorer"]),
        (lambda: NodeSettings(name="n", ebpf=EbpfSettings(bypass=True)), ["VMAFX_EBPF_BYPASS"]),
        (lambda: HttpSettings(read_s=0), ["VMAFX_HTTP_TIMEOUTS_READ"]),
        (lambda: GrpcListenerSettings(tls=True), ["VMAFX_GRPC_TLS"]),
        (lambda: ControllerClientSettings(token=SecretStr(" x")), ["VMAFX_CONTROLLER_TOKEN"]),
        (lambda: ControllerClientSettings(token=SecretStr("")), ["VMAFX_CONTROLLER_TOKEN"]),
        (lambda: ControllerClientSettings(address=HostPort(host="a b", port=1)), ["VMAFX_CONTROLLER_ADDR"]),
        (lambda: ControllerClientSettings(address=HostPort(host="", port=1)), ["VMAFX_CONTROLLER_ADDR"]),
        (
            lambda: ControllerClientSettings(heartbeat_interval_s=55.0, ca_file="x"),
            ["VMAFX_CONTROLLER_CA_FILE", "VMAFX_CONTROLLER_HEARTBEAT_INTERVAL"],
        ),
        (
            lambda: ControllerClientSettings(heartbeat_interval_s=60, rpc_timeout_s=-1),
            ["VMAFX_CONTROLLER_RPC_TIMEOUT", "VMAFX_CONTROLLER_HEARTBEAT_INTERVAL"],
        ),
    ],
)
def test_values_made_by_hand_are_held_to_the_same_rules(make, settings):
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert [problem.setting for problem in caught.value.all] == settings


def test_settings_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        read().slots = 2


@pytest.mark.parametrize(
    ("environment", "exporting"),
    [
        ({}, True),
        ({"OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_SDK_DISABLED": "true", "VMAFX_OTEL_ENABLED": "true"}, True),
        ({"VMAFX_OTEL_ENABLED": "false"}, False),
    ],
)
def test_our_switch_of_export_wins_over_the_standard_one(environment, exporting):
    assert read(**environment).otel.exporting is exporting


def test_our_names_win_over_the_standard_ones():
    standard = {"OTEL_SERVICE_NAME": "theirs", "OTEL_EXPORTER_OTLP_ENDPOINT": "theirs:1"}
    otel = read(**standard).otel
    assert (otel.service_name, otel.endpoint) == ("theirs", "theirs:1")
    otel = read(**standard, VMAFX_OTEL_SERVICE_NAME="ours", VMAFX_OTEL_ENDPOINT="ours:1").otel
    assert (otel.service_name, otel.endpoint) == ("ours", "ours:1")


@pytest.mark.parametrize(
    ("slots", "processors", "threads"), [("1", 64, 64), ("4", 64, 16), ("3", 8, 2), ("64", 8, 1)]
)
def test_slots_share_the_processors(slots, processors, threads):
    assert read(VMAFX_NODE_SLOTS=slots).score_threads(processors) == threads
    assert read(VMAFX_NODE_SLOTS=slots, VMAFX_SCORE_THREADS="5").score_threads(processors) == 5


def test_the_scorer_is_read_too():
    assert read(VMAFX_BACKEND="cuda", PATH="/bin").scorer == ScorerSettings(
        backend=Backend.CUDA, search_path="/bin"
    )


# ---------------------------------------------------------------- files


def no_certificate(path):
    raise ConfigurationError(
        "VMAFX_CONTROLLER_CA_FILE", f"controller CA file {path} holds no PEM certificate"
    )


def checks(certificates=lambda _: None, mode=lambda _: stat.S_IFREG | 0o600, fuse=lambda: None):
    return FileChecks(certificates=certificates, mode=mode, fuse=fuse)


TLS = {"VMAFX_CONTROLLER_TLS": "true", "VMAFX_CONTROLLER_CA_FILE": "/ca"}


def test_a_file_of_certificates_is_looked_at_where_there_is_a_controller():
    refused = refusal(files=checks(no_certificate), VMAFX_CONTROLLER_ADDR="c:1", VMAFX_NODE_SLOTS="0", **TLS)
    assert [problem.setting for problem in refused.all] == ["VMAFX_NODE_SLOTS", "VMAFX_CONTROLLER_CA_FILE"]
    assert str(refused).startswith(CLIENT)
    assert str(refused).endswith("controller CA file /ca holds no PEM certificate")
    assert read(files=checks(no_certificate), **TLS).controller.ca_file == "/ca"


def test_a_file_of_certificates_without_tls_is_one_problem():
    refused = refusal(
        files=checks(no_certificate), VMAFX_CONTROLLER_ADDR="c:1", VMAFX_CONTROLLER_CA_FILE="/ca"
    )
    assert str(refused) == (
        f"{CLIENT}VMAFX_CONTROLLER_CA_FILE: "
        "controller.ca_file and controller.server_name need controller.tls=true"
    )


def test_a_node_that_must_mount_is_refused_where_mounts_lack_something():
    lacking = checks(fuse=lambda: "no /dev/fuse")
    refused = refusal(files=lacking, VMAFX_STORAGE_MODE="mount")
    assert refused.setting == "VMAFX_STORAGE_MODE"
    assert str(refused) == "VMAFX_STORAGE_MODE: storage: mode mount needs FUSE: no /dev/fuse"
    for mode in ("auto", "http-serve", ""):
        assert read(files=lacking, VMAFX_STORAGE_MODE=mode).storage.mode is not StorageMode.MOUNT
    assert read(files=checks(), VMAFX_STORAGE_MODE="mount").storage.mode is StorageMode.MOUNT


def missing(path):
    raise FileNotFoundError(2, "No such file or directory", path)


@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        (missing, "cannot be read: No such file or directory"),
        (lambda _: stat.S_IFDIR | 0o600, "is no regular file"),
        (lambda _: stat.S_IFREG | 0o640, "must have mode 0600, not 0640"),
        (lambda _: stat.S_IFREG | 0o601, "must have mode 0600, not 0601"),
    ],
)
def test_a_file_of_headers_that_others_may_read_is_refused(mode, problem):
    refused = refusal(files=checks(mode=mode), VMAFX_HTTP_HEADERS_FILE="/h")
    assert str(refused) == f'VMAFX_HTTP_HEADERS_FILE="/h" {problem}'


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_file_of_headers_that_is_its_owners_alone_is_taken(mode):
    settings = read(files=checks(mode=lambda _: stat.S_IFREG | mode), VMAFX_HTTP_HEADERS_FILE="/h")
    assert settings.sources.http_headers_file == "/h"


def test_a_missing_token_file_is_no_reason_not_to_start():
    settings = read(
        files=checks(mode=missing), VMAFX_CONTROLLER_ADDR="c:1", VMAFX_CONTROLLER_TOKEN_FILE="/none"
    )
    assert settings.controller.token_file == "/none"
