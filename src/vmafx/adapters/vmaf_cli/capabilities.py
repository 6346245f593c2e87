"""What an executable says of itself: its version and the options in its usage text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from vmafx.domain.text import bounded, printable

__all__ = ["VERSION_BYTES_MAX", "Capabilities", "parse_usage", "parse_version"]

VERSION_BYTES_MAX: Final = 128
"""Longest version that is kept, in bytes."""

_LONG_OPTION: Final = re.compile(r"(?<![\w-])--([A-Za-z][\w-]*)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an executable says of itself.

    Attributes:
        version: Its version in its own words; empty when it gave none.
        options: The long options of its usage text, without the dashes.
    """

    version: str
    options: frozenset[str]

    def has(self, option: str) -> bool:
        """Return whether the usage text names the long option, which is given without its dashes."""
        return option in self.options


def parse_usage(text: str) -> frozenset[str]:
    """Return the long options that a usage text names, without their dashes."""
    return frozenset(_LONG_OPTION.findall(text))


def parse_version(text: str) -> str:
    """Return the first line of `text` that is not blank, printable and bounded; empty when there is none."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return bounded(printable(line), VERSION_BYTES_MAX)
