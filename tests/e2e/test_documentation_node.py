"""What is written about nodes is true: programs run, every message is explained (ADR 0018)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests import clips
from tests.e2e.program import HANG_S
from vmafx.adapters.grpc.client import PLAINTEXT_WARNING
from vmafx.adapters.telemetry.program import LINES_DROPPED
from vmafx.adapters.vmaf_cli.scorer import BACKEND_NOT_VERIFIED, SCORED_SHORTEST, SCORER_INITIALISED
from vmafx.app.cli import node_events
from vmafx.app.cli.commands import node_command, vmafx_node
from vmafx.app.container.node import NodePorts
from vmafx.app.container.questionable import SETTING_QUESTIONABLE
from vmafx.app.node import events
from vmafx.app.settings.forms import DURATION
from vmafx.app.settings.names import KNOWN_NAMES

ROOT = Path(__file__).parents[2]
POD_NAMES = {"POD_NAME", "POD_NAMESPACE", "POD_IP", "NODE_NAME", "SERVICE_ACCOUNT", "XDG_CACHE_HOME"}

PROCESSES = {
    "killed process does not end",
    "processes left behind do not end",
    "could not look for processes left behind",
}


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page(name), re.MULTILINE | re.DOTALL)


def the_program(word: str) -> str:
    (code,) = [code for code in blocks("docs/embedding.md", "python") if word in code]
    return code


def start(program, *command: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=program.folder,
        env=program.environment | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_every_program_about_embedding_is_run_by_a_test():
    words = ("/videos/", "FakeController", "open_node", "OneTenant", "tls13_only")
    for code in blocks("docs/embedding.md", "python"):
        assert sum(word in code for word in words) == 1, code


def test_the_node_on_fakes_prints_what_the_page_says(program):
    (said,) = blocks("docs/embedding.md", "text")
    code = the_program("FakeController")
    process = start(program, sys.executable, "-W", "error", "-c", code)
    out, err = process.communicate(timeout=HANG_S)
    assert (out, err, process.returncode) == (said, "", 0)


@pytest.mark.usefixtures("engine")
def test_the_node_with_its_scorer_replaced_works_for_a_controller(program, controller):
    code = the_program("open_node")
    process = start(
        program, sys.executable, "-W", "error", "-c", code, VMAFX_CONTROLLER_ADDR=controller.address
    )
    try:
        job = controller.submit(program.folder)
        ended = controller.do("wait", job=job)
    finally:
        process.terminate()
        out, err = process.communicate(timeout=HANG_S)
    assert (ended["status"], err, process.returncode) == ("completed", "", 0)
    assert out == f"{job} {ended['score']}\n"
    assert ended["score"] == pytest.approx(clips.PLAIN_SCORE, abs=0.05)


def test_the_deployment_is_one_and_gives_a_node_time_to_stop():
    (text,) = blocks("docs/node.md", "yaml")
    deployment = yaml.safe_load(text)
    assert (deployment["apiVersion"], deployment["kind"]) == ("apps/v1", "Deployment")
    assert (
        deployment["spec"]["selector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]
    )
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {volume["name"] for volume in pod["volumes"]} == {m["name"] for m in container["volumeMounts"]}
    variables = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert set(variables) <= KNOWN_NAMES | POD_NAMES
    assert all(value is None or isinstance(value, str) for value in variables.values())
    stop_s = DURATION.parse("VMAFX_SHUTDOWN_TIMEOUT", variables["VMAFX_SHUTDOWN_TIMEOUT"])
    assert pod["terminationGracePeriodSeconds"] >= stop_s + 10


def test_every_message_of_a_node_is_explained_and_no_other():
    rows = page("docs/node.md").split("| message | level |")[1].split("\n\n")[0]
    explained = re.findall(r"`([^`]+)`", " ".join(row.split("|")[1] for row in rows.splitlines()[2:]))
    of_node = {value for name, value in vars(events).items() if name in events.__all__ and name.isupper()}
    of_program = {SETTING_QUESTIONABLE} | {getattr(node_events, name) for name in node_events.__all__}
    of_adapters = {PLAINTEXT_WARNING, LINES_DROPPED}
    of_adapters |= {SCORER_INITIALISED, BACKEND_NOT_VERIFIED, SCORED_SHORTEST} | PROCESSES
    assert sorted(explained) == sorted(of_node | of_program | of_adapters)


def test_every_port_that_can_be_replaced_is_listed():
    rows = page("docs/embedding.md").split("| argument of `open_node` |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", rows, re.MULTILINE) == list(NodePorts.__annotations__)


def test_every_option_of_a_node_is_documented():
    part = page("docs/cli.md").split("\n## vmafx node\n")[1].split("\n## ")[0]
    documented = re.findall(r"^\| `(--\w+)`", part, re.MULTILINE)
    options = {o for command in (node_command, vmafx_node) for p in command.params for o in p.opts}
    assert sorted(documented) == sorted(option for option in options if option.startswith("--"))
