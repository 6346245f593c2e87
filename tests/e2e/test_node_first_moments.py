"""A signal to `vmafx-node` is heard from its first statement on, also as the first process of a container."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.node_program import NODE, node_settings
from tests.e2e.program import HANG_S, VMAFX, eventually
from vmafx.app.cli.node_events import NODE_SIGNALLED, NODE_STARTING

DELAYS_S = (0.0, 0.05, 0.1, 0.15)
"""How long after its handlers are there a node is told to stop: imports take some 0.3 s."""
NOWHERE = "127.0.0.1:1"
CONTAINER = ("unshare", "--fork", "--pid")

TELLS = """
import importlib, signal, sys
from vmafx.app.cli import start

moment, number, times, program, *words = sys.argv[1:]

class Teller:
    def find_spec(self, name, path=None, target=None):
        if name == moment and self in sys.meta_path:
            sys.meta_path.remove(self)
            for _ in range(int(times)):
                signal.raise_signal(int(number))

sys.argv = [program, *words]
sys.meta_path.insert(0, Teller())
mains = {"vmafx": start.main, "vmafx-node": start.node_main, "vmafx-controller": start.controller_main}
mains[program]()
"""
"""A program that gets a signal in the moment in which it begins to import a certain module."""
MOMENTS = ["vmafx.app.cli.main", "vmafx.app.cli.node", "pydantic", "grpc", "vmafx.app.node.node"]


def told_while_importing(program, moment, *words, number=signal.SIGTERM, times=1, name="vmafx-node"):
    """Run a program that gets a signal while it imports; it must end by itself."""
    return subprocess.run(
        [sys.executable, "-c", TELLS, moment, str(int(number)), str(times), name, *words],
        env=program.environment | node_settings(NOWHERE),
        cwd=program.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_signal_during_an_import_ends_the_node_in_order(program, fake, moment):
    ended = told_while_importing(program, moment)
    assert ended.returncode == 0, ended.stderr
    assert NODE_STARTING in ended.stderr
    assert ended.stderr.count(NODE_SIGNALLED) == 1
    assert "RegisterNode" not in ended.stderr
    assert not fake.log.exists()  # it did not even look at its scorer
    assert program.leftovers() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=lambda n: n.name)
def test_the_other_signals_are_kept_too(program, fake, number):
    ended = told_while_importing(program, "click", "node", number=number, name="vmafx")
    assert ended.returncode == 0, ended.stderr
    assert f'"signal":"{number.name}"' in ended.stderr.replace('": "', '":"')
    assert not fake.log.exists()


@pytest.mark.parametrize("moment", ["click", "grpc"])
def test_a_second_signal_ends_it_at_once(program, fake, moment):
    ended = told_while_importing(program, moment, number=signal.SIGINT, times=2)
    assert ended.returncode == 130
    assert not fake.log.exists()


@pytest.mark.parametrize(
    ("moment", "word"),
    [("click", "--help"), ("click", "--version"), ("click", "--check"), ("grpc", "--check")],
)
def test_a_command_that_runs_no_node_ends_as_an_interrupted_one(program, fake, moment, word):
    ended = told_while_importing(program, moment, word)
    assert (ended.returncode, ended.stderr) == (143, "vmafx-node: interrupted (SIGTERM)\n")
    assert not fake.log.exists()
    assert program.leftovers() == []


@pytest.mark.parametrize("command", [(str(NODE), "--version"), (str(VMAFX), "node", "--help")], ids=str)
def test_handlers_are_there_before_anything_heavy_is_loaded(program, command):
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", *command],
        env=program.environment,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=True,
    )
    order = [line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()]
    there = order.index("vmafx.app.cli.kept_signals")
    assert {"click", "vmafx.app.cli.main", "vmafx.domain.errors"}.isdisjoint(order[:there])


# ---------------------------------------------------------------- as a process of its own


def catches(pid: int | None, number: signal.Signals) -> bool:
    """Whether there is a process that has a handler for a signal."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    (caught,) = [int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")]
    return bool(caught >> (number - 1) & 1)


def only_child(pid: int) -> int | None:
    """The child of a process that has one."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    return int(children[0]) if children else None


@pytest.fixture(params=["first process", "some process"])
def container(request):
    """The words before a command that make it the first process of a container, or none."""
    if request.param != "first process":
        return ()
    if os.geteuid() != 0:
        pytest.skip("only root makes containers here")
    probe = subprocess.run([*CONTAINER, "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"no containers here: {probe.stderr.strip()}")
    return CONTAINER


@pytest.mark.parametrize("delay_s", DELAYS_S)
def test_a_stop_in_the_first_moments_ends_the_node_in_order(
    program, fake, controller, nodes, container, delay_s
):
    node = nodes(controller.address, command=(*container, str(NODE)))

    def pid() -> int | None:
        return only_child(node.process.pid) if container else node.process.pid

    eventually(lambda: catches(pid(), signal.SIGTERM), what="the node has its handlers")
    time.sleep(delay_s)  # whatever it does then
    os.kill(pid(), signal.SIGTERM)
    assert node.wait() == 0, node.text()
    assert len(node.told(NODE_SIGNALLED, signal="SIGTERM")) == 1
    assert not [record for record in node.records() if record["level"] in {"WARN", "ERROR"}]
    assert node.left() == []
