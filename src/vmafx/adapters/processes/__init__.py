"""Child processes on Linux and macOS (ADR 0007)."""

from __future__ import annotations

from vmafx.adapters.processes.launch import Launcher
from vmafx.adapters.processes.posix import STDERR_BYTES_MAX, PosixProcesses
from vmafx.adapters.processes.subreaper import become_subreaper

__all__ = ["STDERR_BYTES_MAX", "Launcher", "PosixProcesses", "become_subreaper"]
