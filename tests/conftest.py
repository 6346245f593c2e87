"""What every test may use: virtual time on a marker, the clock that goes with it, hypothesis profiles."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping

import pytest
from hypothesis import settings

from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.loop import VirtualTimeLoop
from vmafx.adapters.grpc.environment import quieten

quieten(os.environ)  # before the first test module imports grpc

pytest_plugins = ["tests.plugins.ci_skips", "tests.plugins.coverage_once"]

# By hand and in `make soak` every run draws other histories; what decides about a change draws the same ones
# each time, so that a change is never refused, or let in, by luck.
settings.register_profile("vmafx", deadline=None, print_blob=True)
settings.register_profile("ci", settings.get_profile("vmafx"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "vmafx")


def pytest_configure() -> None:
    """Undo what a shell does to what runs in its background: ignored signals would be inherited by all."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests marked `virtual_time` run on a virtual-time loop, all others on an ordinary one."""
    if item.get_closest_marker("virtual_time"):
        return {"virtual": VirtualTimeLoop}
    return {"ordinary": asyncio.new_event_loop}


@pytest.fixture
async def clock() -> VirtualClock:
    """The clock of the virtual-time loop; on an ordinary loop, one that is moved by hand."""
    loop = asyncio.get_running_loop()
    return loop.clock if isinstance(loop, VirtualTimeLoop) else VirtualClock()
