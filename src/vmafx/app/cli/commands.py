"""The command line of `vmafx`: what may be written, and which command it asks for."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

import click
from click.shell_completion import ShellComplete, get_completion_class

from vmafx.app.cli.arguments import (
    Arguments,
    CompletionArguments,
    ControllerArguments,
    DoctorArguments,
    NodeArguments,
    ScoreArguments,
)
from vmafx.app.cli.exits import FAILED, OK, USAGE, InterruptedRunError
from vmafx.app.cli.kept_signals import find_kept
from vmafx.app.cli.streams import say, write_out
from vmafx.domain.scoring import SUBSAMPLE_MAX, THREADS_MAX, Backend, model_name_problem
from vmafx.domain.text import printable
from vmafx.domain.version import __version__

__all__ = ["CONTROLLER", "NODE", "VMAFX", "execute"]

VMAFX: Final = "vmafx"
NODE: Final = "vmafx-node"
CONTROLLER: Final = "vmafx-controller"
COMPLETE_VARIABLE: Final = "_VMAFX_COMPLETE"


def execute(arguments: Sequence[str], environment: Mapping[str, str], *, program: str = VMAFX) -> int:
    """Run the command that the arguments ask for and return its exit code.

    Args:
        arguments: The command line without the program's name.
        environment: The settings.
        program: The program's name; one that is a command by itself has its own.

    Raises:
        VmafxError: The command failed.
        OutputError: The answer could not be written.
        ReaderGoneError: Nobody reads the answer.
        InterruptedRunError: A signal ended the command.
    """
    asked = _parse(arguments, program)
    if asked not in _RUNS:  # what runs ends in order
        for number in find_kept().take():
            raise InterruptedRunError(number)
    match asked:
        case ScoreArguments():
            from vmafx.app.cli.score import score  # noqa: PLC0415 - --help and completion must start fast

            return score(asked, environment)
        case DoctorArguments():
            from vmafx.app.cli.doctor import doctor  # noqa: PLC0415 - the same

            return doctor(asked, environment)
        case NodeArguments():
            from vmafx.app.cli.node import node  # noqa: PLC0415 - the same

            return node(asked, environment, program=program)
        case ControllerArguments():
            from vmafx.app.cli.controller import controller  # noqa: PLC0415 - the same

            return controller(asked, environment, program=program)
        case CompletionArguments():
            write_out(_completion_script(asked.shell))
            return OK
        case int():
            return asked


def _parse(arguments: Sequence[str], program: str) -> Arguments | int:
    """The command asked for, or the exit code where click has already given the answer."""
    said = io.BytesIO()
    text_of_said = io.TextIOWrapper(said, encoding="utf-8", errors="replace", write_through=True)
    with contextlib.redirect_stdout(text_of_said):  # goes the same guarded way as every answer
        asked = _asked(arguments, program)
    text = said.getvalue().decode("utf-8", "replace")
    if text:
        write_out(text)
    return asked


def _asked(arguments: Sequence[str], program: str) -> Arguments | int:
    command, complete = _PROGRAMS[program]
    try:
        return cast(
            "Arguments | int", command.main(list(arguments), program, complete, standalone_mode=False)
        )
    except click.ClickException as error:
        say(_told(error, program))
        return USAGE
    except click.Abort as error:  # how click tells of Ctrl-C
        raise KeyboardInterrupt from error
    except SystemExit as end:  # how click ends a completion
        return end.code if isinstance(end.code, int) else FAILED


def _told(error: click.ClickException, program: str) -> str:
    """What a usage error says; click's own way would drop escape sequences instead of showing them."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.format_message()
    message = error.format_message()
    if isinstance(error, click.MissingParameter):  # the choices come on lines of their own
        message = " ".join(message.split())
    hints: list[str] = []
    if isinstance(error, click.NoSuchOption) and error.ctx is not None and error.ctx.command is score_command:
        hints.append("the name of a clip that begins with a dash goes behind --")
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hints.append(f"see {error.ctx.command_path} --help")
    shown = printable(message).rstrip(".")
    return f"{program}: {shown} ({'; '.join(hints)})" if hints else f"{program}: {shown}"


def _completion_script(shell: str) -> str:
    complete = get_completion_class(shell)
    if complete is None:
        raise LookupError(shell)
    # bash's own version would ask a bash for its version first
    return ShellComplete.source(complete(vmafx, {}, "vmafx", COMPLETE_VARIABLE)) + "\n"


def _whole_number(
    lowest: int, highest: int
) -> Callable[[click.Context, click.Parameter, str | None], int | None]:
    """Return a callback that takes whole numbers within limits only."""

    def parse(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
        if text is None:
            return None
        number = int(text) if _DIGITS.fullmatch(text) else None
        if number is None or not lowest <= number <= highest:
            raise click.BadParameter(f"must be a whole number from {lowest} to {highest}, not {text!r}")
        return number

    return parse


_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,18}")


def _model(_context: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
    problem = None if name is None else model_name_problem(name)
    if problem is not None:
        raise click.BadParameter(problem)
    return name


def _named(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    if not name:
        raise click.BadParameter("the name of a clip is empty")
    return name


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="vmafx", message="%(prog)s %(version)s")
def vmafx() -> None:
    """Score how close a distorted video is to its reference, with VMAF."""


@vmafx.command(name="score")
@click.argument("reference", metavar="REF", type=click.Path(readable=False), callback=_named)
@click.argument("distorted", metavar="DIS", type=click.Path(readable=False), callback=_named)
@click.option(
    "--model",
    metavar="NAME",
    callback=_model,
    help="Name of the model, such as vmaf_v0.6.1 (VMAFX_DEFAULT_MODEL).",
)
@click.option(
    "--threads",
    callback=_whole_number(1, THREADS_MAX),
    metavar="N",
    help=f"Threads of the scorer, 1 to {THREADS_MAX} (VMAFX_SCORE_THREADS).",
)
@click.option(
    "--subsample",
    callback=_whole_number(1, SUBSAMPLE_MAX),
    metavar="N",
    default="1",
    help=f"Score every Nth frame only, 1 to {SUBSAMPLE_MAX}.",
)
@click.option(
    "--backend",
    type=click.Choice([backend.value for backend in Backend]),
    help="What must score (VMAFX_BACKEND).",
)
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON, with every digit.")
@click.option("--frames", is_flag=True, help="Show the score of every frame too.")
@click.option("--features", is_flag=True, help="Show the pooled features too.")
def score_command(  # noqa: PLR0913 - one parameter for each option
    *,
    reference: str,
    distorted: str,
    model: str | None,
    threads: int | None,
    subsample: int,
    backend: str | None,
    as_json: bool,
    frames: bool,
    features: bool,
) -> ScoreArguments:
    """Score the Y4M clip DIS against the Y4M clip REF.

    Both need the same size, format and number of frames. The score goes to standard output, everything else
    to standard error.

    A name that begins with a dash goes behind --.

    Exit status: 0 scored, 1 not scored, 2 wrong command line or setting, 129, 130 or 143 interrupted.
    """
    return ScoreArguments(
        reference=reference,
        distorted=distorted,
        model=model,
        threads=threads,
        subsample=subsample,
        backend=None if backend is None else Backend(backend),
        as_json=as_json,
        frames=frames,
        features=features,
    )


@vmafx.command(name="doctor", short_help="Show what this machine can do, and what it lacks.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def doctor_command(*, as_json: bool) -> DoctorArguments:
    """Show what this machine can do, and what to do about each missing thing.

    Exit status: 0 it can score, 1 it cannot, 2 wrong command line or setting, 129, 130 or 143 interrupted.
    """
    return DoctorArguments(as_json=as_json)


@vmafx.command(name="completion", short_help="Print the script that completes vmafx in a shell.")
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(*, shell: str) -> CompletionArguments:
    """Print the script that completes vmafx in SHELL: bash, zsh or fish.

    For bash: eval "$(vmafx completion bash)" in ~/.bashrc; the same with zsh in ~/.zshrc. For fish:
    vmafx completion fish > ~/.config/fish/completions/vmafx.fish
    """
    return CompletionArguments(shell=shell)


@vmafx.command(name="node", short_help="Run a node: pull jobs from a controller, score and report them.")
@click.option(
    "--check", is_flag=True, help="Check the configuration, run the self-test, show both, and exit."
)
def node_command(*, check: bool) -> NodeArguments:
    """Run a node: pull jobs from the controller of VMAFX_CONTROLLER_ADDR, score them and report.

    Everything it is told comes from VMAFX_ variables; its log goes to standard error. SIGTERM or Ctrl-C lets
    running jobs end first, for VMAFX_SHUTDOWN_TIMEOUT at most; a second one interrupts them.

    Exit status: 0 stopped, 1 a fault ended it, 2 wrong command line or setting, or no scorer that works, 128
    and the signal's number when told twice to stop.
    """
    return NodeArguments(check=check)


@click.command(name=NODE, help=node_command.help, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-V", "--version", is_flag=True, help="Show the version and exit.")
@click.pass_context
def vmafx_node(context: click.Context, *, check: bool, version: bool) -> NodeArguments | int:
    """Run a node, or tell the version where that is all that is asked for.

    Raises:
        UsageError: More was asked for.
    """
    return _version_told(context, NODE, alone=not check) if version else NodeArguments(check=check)


vmafx_node.params[:0] = node_command.params


@vmafx.command(name="controller", short_help="Run a controller: take jobs, hand them to nodes, keep results.")
@click.option("--check", is_flag=True, help="Check the configuration and the database, show both, and exit.")
def controller_command(*, check: bool) -> ControllerArguments:
    """Run a controller: take jobs, hand them out to nodes, and keep what becomes of them.

    Everything it is told comes from VMAFX_ variables; its log goes to standard error. This version verifies
    no tokens and starts with VMAFX_AUTH_DISABLED=true only. SIGTERM or Ctrl-C lets calls that are under way
    end first; a second one cuts them off. Jobs and sessions are kept in a database file.

    Exit status: 0 stopped, 1 a fault ended it, 2 wrong command line or setting, or a database or an address
    that cannot be used, 128 and the signal's number when told twice to stop.
    """
    return ControllerArguments(check=check)


@click.command(
    name=CONTROLLER,
    help=controller_command.help,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("-V", "--version", is_flag=True, help="Show the version and exit.")
@click.pass_context
def vmafx_controller(context: click.Context, *, check: bool, version: bool) -> ControllerArguments | int:
    """Run a controller, or tell the version where that is all that is asked for.

    Raises:
        UsageError: More was asked for.
    """
    return (
        _version_told(context, CONTROLLER, alone=not check) if version else ControllerArguments(check=check)
    )


vmafx_controller.params[:0] = controller_command.params


def _version_told(context: click.Context, program: str, *, alone: bool) -> int:
    if not alone:
        raise click.UsageError("--version goes alone", context)
    click.echo(f"{program} {__version__}")
    return OK


_RUNS: Final[tuple[Arguments, ...]] = (NodeArguments(), ControllerArguments())
"""What runs until it is stopped."""
_PROGRAMS: Final = {
    VMAFX: (vmafx, COMPLETE_VARIABLE),
    NODE: (vmafx_node, "_VMAFX_NODE_COMPLETE"),
    CONTROLLER: (vmafx_controller, "_VMAFX_CONTROLLER_COMPLETE"),
}
