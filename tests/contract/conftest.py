"""The stages that the behaviour suite of a node is run on, and the desks that the suite of the stores is."""

from __future__ import annotations

import pytest

from tests.contract import store_harness
from tests.contract.node_harness import MAKERS


# Both stages ask for `no_cover`: the unit tests of the node count its lines, and to count them here again, a
# thousand tests long, takes as much time as the tests.
@pytest.fixture(params=MAKERS.values(), ids=MAKERS)
def stage(request, clock, no_cover):
    """Makes the stage of a test, once for each kind of controller: `async with stage(...) as it`."""
    return lambda **arguments: request.param(clock, **arguments)


@pytest.fixture
def wire_stage(clock, no_cover):
    """The same for behaviour that there is over a connection only (`Trait.WIRE`)."""
    return lambda **arguments: MAKERS["grpc"](clock, **arguments)


@pytest.fixture(params=store_harness.MAKERS.values(), ids=store_harness.MAKERS)
async def desk(request):
    """A desk at an empty store, once for each kind; afterwards what is stored must be possible."""
    async with request.param(store_harness.POLICY) as stores:
        desk = store_harness.Desk(stores)
        yield desk
        await desk.check()
