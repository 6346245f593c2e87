"""What is written about controllers is true: the quick start runs, every message is explained (ADR 0028)."""

from __future__ import annotations

import http.client
import inspect
import itertools
import json
import re
import shlex
import socket
import ssl
import subprocess
import sys
import tomllib
from pathlib import Path

import grpc
import pytest
import trustme
import yaml
from google.protobuf.json_format import MessageToDict, ParseDict

from tests import clips
from tests.e2e.controller_program import Client, controller_settings, free_ports
from tests.e2e.program import HANG_S
from tests.grpc_clients import wire_client
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb
from vmafx.adapters.grpc.environment import TLS13_CIPHERS
from vmafx.app.cli import controller_events
from vmafx.app.cli.commands import controller_command, vmafx_controller
from vmafx.app.container.controller import (
    AUTH_DISABLED,
    TAKEN_OVER,
    ControllerPorts,
    open_reference_controller,
)
from vmafx.app.container.questionable import SETTING_QUESTIONABLE
from vmafx.app.controller.events import STOPPED
from vmafx.app.node import events
from vmafx.app.settings.controller import ControllerSettings
from vmafx.app.settings.names import KNOWN_NAMES

ROOT = Path(__file__).parents[2]


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page(name), re.MULTILINE | re.DOTALL)


@pytest.mark.usefixtures("engine")
def test_the_whole_system_of_a_newcomer_scores_a_job(program, plain):
    (script,) = blocks("README.md", "sh")
    demo = program.folder / "build" / "demo"
    demo.mkdir(parents=True)
    for name, data in zip(("ref.y4m", "dis.y4m"), plain, strict=True):
        (demo / name).write_bytes(data)
    calls, pages = free_ports()
    changed = script.replace("9090", str(calls)).replace("8080", str(pages))
    changed = changed.replace("$PWD/.venv/bin", str(Path(sys.executable).parent))
    done = subprocess.run(
        ["sh", "-c", changed],
        cwd=program.folder,
        env=program.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout, done.stderr
    status, score = done.stdout.split()
    assert status == "COMPLETED"
    assert float(score) == pytest.approx(clips.PLAIN_SCORE, abs=0.05)
    messages = [json.loads(line)["msg"] for line in done.stderr.splitlines()]
    assert messages.count(controller_events.CONTROLLER_SIGNALLED) == 1
    assert events.REGISTER_FAILED not in messages  # the node is started once the controller is ready
    assert (program.folder / ".local/state/vmafx/vmafx-controller.db").exists()


def the_program(word):
    (code,) = [code for code in blocks("docs/embedding.md", "python") if word in code]
    return code


def test_the_controller_with_a_verifier_of_its_own_lets_in_who_has_the_token(program):
    code = the_program("OneTenant")
    settings = controller_settings(program.folder, free_ports()) | {"VMAFX_AUTH_DISABLED": "", "TOKEN": "t-1"}
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code],
        cwd=program.folder,
        env=program.environment | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    client, stranger = (Client(settings["VMAFX_GRPC_LISTEN"], token=token) for token in ("t-1", "t-2"))
    try:
        job = client.submit(program.folder / "ref.y4m", program.folder / "dis.y4m")
        with pytest.raises(grpc.RpcError) as refused:
            stranger.job(job)
    finally:
        client.close()
        stranger.close()
        process.terminate()
        out, err = process.communicate(timeout=HANG_S)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert (out, process.returncode) == ("", 0), err
    assert f"INFO vmafx {STOPPED}" in err


def test_the_controller_with_settings_in_code_speaks_tls_13_alone_and_says_when_it_is_ready(program):
    ca = trustme.CA()
    certificate = ca.issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(program.folder / "tls.crt")
    certificate.private_key_pem.write_to_path(program.folder / "tls.key")
    ports = free_ports()
    code = the_program("tls13_only").replace("9090", str(ports[0])).replace("8080", str(ports[1]))
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code],
        cwd=program.folder,
        env=program.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said = process.stdout.readline()
        context = ssl.create_default_context(cadata=ca.cert_pem.bytes().decode())
        context.set_alpn_protocols(["h2"])
        with (
            socket.create_connection(("127.0.0.1", ports[0]), HANG_S) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as spoken,
        ):
            version = spoken.version()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with (
            socket.create_connection(("127.0.0.1", ports[0]), HANG_S) as plain,
            pytest.raises((ssl.SSLError, ConnectionError)),
        ):
            context.wrap_socket(plain, server_hostname="localhost")
    finally:
        process.terminate()
        _, err = process.communicate(timeout=HANG_S)
    assert (said, version, process.returncode) == ("ready\n", "TLSv1.3", 0), err
    assert TLS13_CIPHERS in code


def test_every_argument_of_a_controller_that_is_no_port_is_explained():
    rows = page("docs/embedding.md").split("| argument of `open_reference_controller` |")[1].split("\n\n")[0]
    arguments = [name for name in inspect.signature(open_reference_controller).parameters if name != "ports"]
    assert re.findall(r"^\| `(\w+)`", rows, re.MULTILINE) == arguments


def test_every_message_of_the_program_is_explained_and_no_other():
    rows = page("docs/controller.md").split("| message | level |")[1].split("\n\n")[0]
    explained = re.findall(r"`([^`]+)`", " ".join(row.split("|")[1] for row in rows.splitlines()[2:]))
    of_program = {getattr(controller_events, name) for name in controller_events.__all__}
    assert sorted(explained) == sorted(of_program | {SETTING_QUESTIONABLE, AUTH_DISABLED, TAKEN_OVER})


def test_every_port_that_can_be_replaced_is_listed():
    rows = page("docs/embedding.md").split("| port of `open_reference_controller` |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", rows, re.MULTILINE) == list(ControllerPorts.__annotations__)


def test_every_option_of_a_controller_is_documented():
    part = page("docs/cli.md").split("\n## vmafx controller\n")[1].split("\n## ")[0]
    documented = re.findall(r"^\| `(--\w+)`", part, re.MULTILINE)
    options = {
        o for command in (controller_command, vmafx_controller) for p in command.params for o in p.opts
    }
    assert sorted(documented) == sorted(option for option in options if option.startswith("--"))


def manifests(name):
    """The objects that a page makes, by kind."""
    (text,) = blocks(name, "yaml")
    made = {found["kind"]: found for found in yaml.safe_load_all(text)}
    assert {found["metadata"].get("namespace", "vmafx") for found in made.values()} == {"vmafx"}
    return made


def test_the_manifest_is_one_and_its_settings_are_right():
    found = manifests("docs/controller.md")["StatefulSet"]
    assert (found["apiVersion"], found["spec"]["replicas"]) == ("apps/v1", 1)
    assert found["spec"]["selector"]["matchLabels"] == found["spec"]["template"]["metadata"]["labels"]
    pod = found["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    claims = {claim["metadata"]["name"]: claim for claim in found["spec"]["volumeClaimTemplates"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == set(claims)
    variables = {entry["name"]: entry.get("value", "x") for entry in container["env"]}
    assert set(variables) <= KNOWN_NAMES | {"POD_NAME"}
    settings = ControllerSettings.from_environment(variables)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"grpc": settings.grpc.address.port, "http": settings.http.address.port}
    assert pod["terminationGracePeriodSeconds"] >= settings.http.shutdown_s + 10
    (mount,) = container["volumeMounts"]
    assert Path(settings.store.path).parent == Path(mount["mountPath"])


def test_nodes_of_their_manifest_reach_the_controller_of_its_own():
    made = manifests("docs/controller.md")
    controller, service, policy = (made[kind] for kind in ("StatefulSet", "Service", "NetworkPolicy"))
    node = manifests("docs/node.md")["Deployment"]
    assert made["Namespace"]["metadata"]["name"] == node["metadata"]["namespace"]
    labels, of_nodes = (found["spec"]["template"]["metadata"]["labels"] for found in (controller, node))
    assert labels == service["spec"]["selector"] == policy["spec"]["podSelector"]["matchLabels"]
    assert controller["spec"]["serviceName"] == service["metadata"]["name"]
    (container,), (of_node,) = (
        found["spec"]["template"]["spec"]["containers"] for found in (controller, node)
    )
    assert container["image"] == of_node["image"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for port in service["spec"]["ports"]:
        assert port["port"] == ports[port["targetPort"]]
    calls = [rule for rule in policy["spec"]["ingress"] if rule["ports"][0]["port"] == "grpc"]
    (who,) = [rule["from"] for rule in calls]
    assert of_nodes in [peer["podSelector"]["matchLabels"] for peer in who]
    given, given_node = (
        {entry["name"]: entry.get("value") for entry in each["env"]} for each in (container, of_node)
    )
    assert given_node["VMAFX_CONTROLLER_ADDR"] == f"{service['metadata']['name']}.vmafx.svc:{ports['grpc']}"
    assert ("VMAFX_GRPC_TLS" in given) is ("VMAFX_CONTROLLER_TLS" in given_node)
    (mount,) = [mount for mount in of_node["volumeMounts"] if mount["name"] == "clips"]
    assert mount["mountPath"] == given["VMAFX_SCORING_ROOTS"]


def test_what_the_image_is_made_of_is_in_the_checkout():
    (text,) = blocks("docs/controller.md", "dockerfile")
    copied = [name for line in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE) for name in line.split()]
    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
    project = tomllib.loads(page("pyproject.toml"))["project"]
    assert {project["readme"], *project["license-files"], "pyproject.toml", "src"} <= set(copied)


def shown_calls(job):
    """The calls that docs/controller.md shows: method, request and metadata of each."""
    (script,) = blocks("docs/controller.md", "sh calls")
    for command in script.replace("\\\n", " ").splitlines():
        name, *words = shlex.split(command.replace('"JOB"', json.dumps(job())))
        assert name == "grpcurl"
        method = words.pop().removeprefix("vmafx.controller.v1.VmafxController/")
        assert words.pop() == "127.0.0.1:9090"
        options = dict(itertools.pairwise(words))
        metadata = [tuple(options["-H"].split(": "))] if "-H" in options else []
        yield method, json.loads(options.get("-d", "{}")), metadata


async def test_the_calls_shown_do_what_is_said_of_them(real_controllers):
    controller = real_controllers(VMAFX_SCORING_ROOTS="/clips")
    controller.wait_ready()
    known = ["none yet"]
    async with wire_client(controller.address) as client:
        shown = shown_calls(lambda: known[0])
        method, request, metadata = next(shown)
        assert (method, metadata) == ("SubmitJob", [("vmafx-idempotency-key", "trailer-17")])
        submission = ParseDict(request, pb.SubmitJobRequest())
        known[0] = (await client.call(method, submission, metadata=metadata)).job_id
        again = await client.call(method, submission, metadata=metadata)
        submission.scoring.model = "another"
        code, _ = await client.refusal(method, submission, metadata=metadata)
        assert (again.job_id, code) == (known[0], "ALREADY_EXISTS")

        method, request, _ = next(shown)
        job = await client.call(method, ParseDict(request, pb.GetJobRequest()))
        assert "status" not in MessageToDict(job)  # as grpcurl shows it without -emit-defaults
        assert MessageToDict(job, always_print_fields_with_no_presence=True)["status"] == "PENDING"

        method, request, _ = next(shown)
        cancelled = await client.call(method, ParseDict(request, pb.CancelJobRequest()))
        repeated = await client.call(method, ParseDict(request, pb.CancelJobRequest()))
        assert (cancelled.ok, repeated.message) == (True, "job is already cancelled")
        assert (await client.call("SubmitJob", _without_model(submission), metadata=[KEY])).job_id == known[0]
        waiting = (await client.submit("/clips/ref.y4m", "/clips/dis.y4m")).job_id

        method, request, metadata = next(shown)
        listing = ParseDict(request, pb.StreamJobsRequest())
        assert (method, metadata) == ("StreamJobs", [])
        assert [job.id async for job in client.stream(*listing.status_filter)] == [waiting]

        method, request, metadata = next(shown)
        assert (method, request, metadata) == ("StreamJobs", {}, [("vmafx-follow", "true")])
        following = client.stream(metadata=tuple(metadata))
        assert [(await following.read()).id for _ in range(2)] == [known[0], waiting]
        await client.cancel(waiting)
        changed = await following.read()
        assert (changed.id, changed.status) == (waiting, pb.CANCELLED)
        following.cancel()
        assert list(shown) == []


KEY = ("vmafx-idempotency-key", "trailer-17")


def _without_model(submission):
    submission.scoring.model = ""
    return submission


@pytest.mark.parametrize("method", ["HEAD", "POST", "GET"])
def test_pages_answer_as_it_is_said(real_controllers, method):
    controller = real_controllers()
    controller.wait_ready()
    shown = dict(re.findall(r"^\| `?(/?[\w ]+)`? \| (.*) \|$", page("docs/controller.md"), re.MULTILINE))
    answers = {}
    for path in ("/healthz", "/readyz", "/metrics", "/elsewhere"):
        connection = http.client.HTTPConnection(controller.http_address, timeout=HANG_S)
        connection.request(method, path)
        answer = connection.getresponse()
        answers[path] = (answer.status, answer.read().decode(), answer.headers.get("Allow"))
        connection.close()
    if method == "GET":
        for path, row in (("/healthz", "/healthz"), ("/readyz", "/readyz"), ("/elsewhere", "any other")):
            status, body, _ = answers[path]
            assert str(status) in shown[row]
            assert f"`{body}`" in shown[row]
    else:
        said = "" if method == "HEAD" else "method not allowed\n"
        assert {answers[path] for path in ("/healthz", "/readyz", "/metrics")} == {(405, said, "GET")}
        assert answers["/elsewhere"][0] == 404


@pytest.mark.parametrize("name", ["README.md", "docs/controller.md", "docs/node.md"])
def test_what_is_to_be_typed_installs_from_the_checkout(name):
    told = re.findall(r"^pip install (.*)$", page(name), re.MULTILINE)
    assert told
    assert {word.strip("'").removesuffix("[engine]") for word in told} == {"."}
