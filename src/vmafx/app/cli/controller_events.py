"""What the controller's program itself says in the log, beside the controller: fixed messages (ADR 0028).

Operators search for them and alert on them, so they are part of what vmafx promises; `docs/controller.md`
explains each.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CONTROLLER_DIED", "CONTROLLER_REFUSED", "CONTROLLER_SIGNALLED", "CONTROLLER_STARTING"]

CONTROLLER_STARTING: Final = "controller starting"
"""INFO, the first line; `version`, and `ignored_signals` when there are any."""
CONTROLLER_REFUSED: Final = "controller refuses to start"
"""ERROR, once for each thing at fault; `error`, and `setting` where it is one."""
CONTROLLER_SIGNALLED: Final = "controller told to stop"
"""INFO, once for each signal; `signal` is its name."""
CONTROLLER_DIED: Final = "controller ended by a fault"
"""ERROR; `error`."""
