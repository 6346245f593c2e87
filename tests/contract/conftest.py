"""The stages that the behaviour suite of a node is run on."""

from __future__ import annotations

import pytest

from tests.contract.node_harness import MAKERS


@pytest.fixture(params=MAKERS.values(), ids=MAKERS)
def stage(request, clock):
    """Makes the stage of a test, once for each kind of controller: `async with stage(...) as it`."""
    return lambda **arguments: request.param(clock, **arguments)


@pytest.fixture
def wire_stage(clock):
    """The same for behaviour that there is over a connection only (`Trait.WIRE`)."""
    return lambda **arguments: MAKERS["grpc"](clock, **arguments)
