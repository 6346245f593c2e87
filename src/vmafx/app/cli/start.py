"""Where the programs start: what signals do is decided before anything else is loaded (ADR 0022)."""

from __future__ import annotations

import sys

__all__ = ["controller_main", "main", "node_main"]


def main() -> None:
    """Run `vmafx` with the arguments, the environment and the streams of this process, and exit."""
    if sys.argv[1:2] in (["node"], ["controller"]):
        _keep_signals()
    else:
        _end_in_silence()
    _start("vmafx")


def node_main() -> None:
    """Run `vmafx-node` with the arguments, the environment and the streams of this process, and exit."""
    _keep_signals()
    _start("vmafx-node")


def controller_main() -> None:
    """Run `vmafx-controller` with the arguments, the environment and the streams of this process; exit."""
    _keep_signals()
    _start("vmafx-controller")


def _keep_signals() -> None:
    from vmafx.app.cli.kept_signals import keep_signals  # noqa: PLC0415 - as late as can be, as all of it

    keep_signals()


def _end_in_silence() -> None:
    """Let Ctrl-C end the program without a traceback."""
    import signal  # noqa: PLC0415 - the same

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _start(name: str) -> None:
    from vmafx.app.cli import main as program  # noqa: PLC0415 - what takes time to load

    program.main(name)
