"""Where the programs start: before anything else is loaded, Ctrl-C is made to end them in silence."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run `vmafx` with the arguments, the environment and the streams of this process, and exit."""
    import signal  # noqa: PLC0415 - as late as can be, as all of it

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from vmafx.app.cli import main as program  # noqa: PLC0415 - what takes time to load

    program.main()
