"""EbpfSettings: the tracker of descriptors below rclone's mounts (ADR 0019)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from vmafx.app.settings.forms import BOOLEAN, TEXT, Form
from vmafx.app.settings.parts import Part, Rule, setting
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.text import quoted

__all__ = ["EbpfSettings"]

PREFIX_BYTES_MAX: Final = 255
"""The longest prefix that the tracker can compare, with its slash."""
_BYPASS: Final = "VMAFX_EBPF_BYPASS"
_PREFIX: Final = "VMAFX_EBPF_MOUNT_PREFIX"


def _bypass(name: str, text: str) -> bool:
    try:
        return BOOLEAN.parse(name, text)
    except ConfigurationError as error:
        problem = f"ebpf.bypass={quoted(text)} {error.problem} ({name})"
        raise ConfigurationError(name, problem, named=True) from None


def _prefix(name: str, text: str) -> str:
    return TEXT.parse(name, text).rstrip("/") + "/"


_BYPASSES: Final = Form(parse=_bypass, check=BOOLEAN.check, show=BOOLEAN.show)
_PREFIXES: Final = Form(parse=_prefix, check=TEXT.check)


@dataclass(frozen=True, slots=True, kw_only=True)
class EbpfSettings(Part):
    """The tracker of descriptors below rclone's mounts; this version has none.

    Attributes:
        bypass: Whether it is asked for, which is refused.
        mount_prefix: The paths that it watches, with a slash at the end.
    """

    bypass: bool = setting(_BYPASS, _BYPASSES, default=False)
    mount_prefix: str = setting(_PREFIX, _PREFIXES, "/rclone-mount/")

    def rules(self) -> tuple[Rule, ...]:
        """Return what the fields must be together."""
        return (
            Rule(fields=frozenset({"bypass"}), broken=partial(_there_is_none, self)),
            Rule(fields=frozenset({"bypass", "mount_prefix"}), broken=partial(_prefix_fits, self)),
        )


def _there_is_none(settings: EbpfSettings) -> Iterator[ConfigurationError]:
    if settings.bypass:
        problem = "cannot be honoured: this version has no tracker of descriptors"
        yield ConfigurationError(_BYPASS, problem, value="true")


def _prefix_fits(settings: EbpfSettings) -> Iterator[ConfigurationError]:
    prefix = settings.mount_prefix
    if settings.bypass and not (prefix.startswith("/") and len(prefix.encode()) <= PREFIX_BYTES_MAX):
        problem = f"must be absolute and at most {PREFIX_BYTES_MAX} bytes with the slash at its end"
        yield ConfigurationError(_PREFIX, problem, value=prefix)
