"""On a build server (`CI` is set) a skip for want of something that `make` installs is a failure."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Final

import pytest

__all__ = ["INSTALLED", "pytest_runtest_makereport"]

INSTALLED: Final = ("engine", "not installed", "rclone", "setpriv")
"""What the reason of such a skip tells, in lower case."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn such a skip into a failure."""
    report = yield
    reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    if os.environ.get("CI") and any(word in reason.lower() for word in INSTALLED):
        report.outcome = "failed"
        report.longrepr = f"{reason}: make installs it, and CI is set"
    return report
