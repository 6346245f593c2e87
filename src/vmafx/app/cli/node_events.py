"""What the node's program itself says in the log, beside the node: fixed messages (ADR 0022).

Operators search for them and alert on them, so they are part of what vmafx promises; `docs/node.md` explains
each.
"""

from __future__ import annotations

from typing import Final

__all__ = ["NODE_DIED", "NODE_REFUSED", "NODE_SIGNALLED", "NODE_STARTING"]

NODE_STARTING: Final = "node starting"
"""INFO, the first line; `version`, and `ignored_signals` when there are any."""
NODE_REFUSED: Final = "node refuses to start"
"""ERROR, once for each thing at fault; `error`, and `setting` where it is one."""
NODE_SIGNALLED: Final = "node told to stop"
"""INFO, once for each signal; `signal` is its name."""
NODE_DIED: Final = "node ended by a fault"
"""ERROR; `error`."""
