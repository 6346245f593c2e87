"""What tests of real programs share."""

from __future__ import annotations

import pytest

from tests import clips
from tests.e2e.cluster import Cluster
from tests.e2e.controller_program import RealController
from tests.e2e.node_program import ControllerProcess, NodeProcess
from tests.e2e.program import Program
from tests.fake_vmaf import FakeVmaf
from tests.reports import report
from vmafx.adapters.vmaf_cli.engine_ffmpeg import find_engine


@pytest.fixture(scope="session")
def self_tests(tmp_path_factory):
    """Where self-tests are remembered from test to test."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def engine():
    """The embedded engine, without which a test makes no sense."""
    found = find_engine()
    if isinstance(found, str):
        pytest.skip(f"no embedded engine: {found}")
    return found


@pytest.fixture(scope="session")
def plain():
    """The bytes of the plain pair."""
    return clips.y4m(distorted=False), clips.y4m(distorted=True)


@pytest.fixture
def program(tmp_path, self_tests, plain):
    """The program, in a folder with the plain pair."""
    program = Program(tmp_path, self_tests)
    program.write("ref.y4m", plain[0])
    program.write("dis.y4m", plain[1])
    return program


@pytest.fixture
def fake(tmp_path, program):
    """A scorer that does what it is told; the program uses it."""
    (tmp_path / "fake").mkdir()
    fake = FakeVmaf(tmp_path / "fake")
    (tmp_path / "report.json").write_text(report(), encoding="utf-8")
    fake.tell(report=str(tmp_path / "report.json"), options=["progress-fd"])
    program.environment["VMAFX_VMAF_BINARY"] = str(fake.path)
    return fake


@pytest.fixture
def controllers():
    """Starts controllers, in processes that end with the test."""
    started = []

    def start(*arguments: str) -> ControllerProcess:
        started.append(ControllerProcess(*arguments))
        return started[-1]

    yield start
    for controller in started:
        controller.end()


@pytest.fixture(scope="session")
def lasting_controller():
    """A process that serves one controller after the other."""
    controller = ControllerProcess()
    yield controller
    controller.end()


@pytest.fixture
def controller(lasting_controller, tmp_path):
    """A controller whose jobs may read the folder of the test; nodes must not have broken its rules."""
    lasting_controller.do("reset", roots=[str(tmp_path)])
    yield lasting_controller
    assert lasting_controller.do("violations")["violations"] == []


@pytest.fixture
def nodes(program):
    """Starts nodes that end with the test; nothing of them may be left."""
    started = []

    def start(address: str, **more: str) -> NodeProcess:
        started.append(NodeProcess(program, address, number=len(started), **more))
        return started[-1]

    yield start
    for node in started:
        node.end()


@pytest.fixture
def real_controllers(program):
    """Starts `vmafx-controller`s that end with the test."""
    started = []

    def start(**more) -> RealController:
        started.append(RealController(program, number=len(started), **more))
        return started[-1]

    yield start
    for controller in started:
        controller.end()


@pytest.fixture
async def cluster(program):
    """A controller and nodes that end with the test."""
    cluster = Cluster(program)
    yield cluster
    await cluster.end()
