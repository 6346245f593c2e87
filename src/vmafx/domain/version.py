"""The version: its one source, for the package, its programs and its metadata."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
