"""A worker of pytest-xdist counts lines once, so that a test which asks for `no_cover` goes uncounted.

pytest-cov begins to count when a worker reads its options, and once more when its session starts. Only the
second is paused for such a test; the first then goes on in its place, and takes as much time.
"""

from __future__ import annotations

import pytest
from coverage import Coverage

__all__ = ["pytest_sessionstart"]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Stop the first counting, whose figures nobody reads."""
    first = Coverage.current()
    if hasattr(session.config, "workerinput") and first is not None:
        first.stop()
