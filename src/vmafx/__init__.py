"""Distributed VMAF scoring: a library first, and the programs made from it.

The names in `__all__` are the public API; nothing else is. They load on first use, so that importing the
package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vmafx.domain.errors import VmafxError as VmafxError

__all__ = ["VmafxError", "__version__"]

__version__ = "0.1.0"

_HOMES: Final = {
    "vmafx.domain.errors": ("VmafxError",),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
