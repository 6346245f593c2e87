"""A wall clock that steps under a program while its monotonic time goes on, by libfaketime."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

__all__ = ["SteppingClock"]

_LIBRARY = "vendor/libfaketime/src/libfaketime.so.1"
_PROBE = "import time; print(time.time(), time.monotonic())"
_DAY_S = 86400.0


class SteppingClock:
    """The clock of the programs that are started with its settings; skips the test where there is none.

    Args:
        folder: Where the step is written to.
    """

    def __init__(self, folder: Path) -> None:
        package = find_spec("libfaketime")
        if package is None or package.origin is None:
            pytest.skip("libfaketime is not installed")
        self._file = folder / "step"
        self.settings = {
            "LD_PRELOAD": os.path.realpath(Path(package.origin).parent / _LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        self.step("+1d")
        probe = [sys.executable, "-c", _PROBE]
        shifted, plain = [
            subprocess.run(probe, env=env, capture_output=True, text=True, check=True).stdout.split()
            for env in (self.settings, {})
        ]
        if not float(shifted[0]) - float(plain[0]) > _DAY_S / 2 or float(shifted[1]) > float(plain[1]):
            pytest.skip("libfaketime cannot be used on this machine")
        self.step("+0")

    def step(self, offset: str) -> None:
        """Set the clock so far off the true one: `+12h`, `-1h`, `+0`."""
        beside = self._file.with_suffix(".new")
        beside.write_text(f"{offset}\n", encoding="utf-8")
        beside.replace(self._file)
