"""What is really started, so that the program is limited, and dies with us, from its first instruction on.

Two launchers do the same. The shell's way is `setpriv`, then a few words of shell: about 1 ms. The other is
a script of ours, `start.py`, under the running Python: about 12 ms, for machines whose `setpriv` or shell
cannot do it, and for the few programs and environments that a shell would not pass on unchanged.
"""

from __future__ import annotations

import enum
import errno
import os
import re
import shutil
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vmafx.domain.process import Command

if sys.platform != "win32":
    import resource

__all__ = [
    "TOOL_FOLDERS",
    "Launch",
    "Launcher",
    "Tools",
    "complaint",
    "environment",
    "find_tools",
    "launch",
    "passes_shell",
    "plainly_native",
    "probe",
    "probe_passed",
]

TOOL_FOLDERS: Final = ("/usr/bin", "/bin")


class Launcher(enum.Enum):
    """What becomes the program."""

    SHELL = "shell"
    PYTHON = "python"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The absolute paths of what the shell's way needs."""

    setpriv: str
    shell: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What `posix_spawn` is given.

    Attributes:
        path: The executable.
        argv: Its arguments.
        environment: Its whole environment.
        mark: The name under which the launcher complains when it cannot become the program.
    """

    path: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    mark: str


def launch(command: Command, tools: Tools | None) -> Launch:
    """Return what to start so that it becomes the command's program.

    Args:
        command: The command, its program checked.
        tools: What the shell's way needs; None takes our script.

    Raises:
        OSError: There is neither a shell's way nor a Python to run our script.
    """
    mark = f"vmafx-start-{command.run_id}"
    path, argv = _by_python(command, mark) if tools is None else _by_shell(command, mark, tools)
    return Launch(path=path, argv=(*argv, *command.argv), environment=environment(command), mark=mark)


def _by_shell(command: Command, mark: str, tools: Tools) -> tuple[str, tuple[str, ...]]:
    limit = _file_limit(command)
    blocks = "-" if limit is None else str(-(-limit // _BLOCK_BYTES))
    words = ("--pdeathsig", "KILL", tools.shell, "-c", _STUB, mark, str(os.getpid()), blocks)
    return tools.setpriv, (mark, *words)


def _by_python(command: Command, mark: str) -> tuple[str, tuple[str, ...]]:
    if not sys.executable:
        raise OSError(errno.ENOENT, "neither a setpriv of util-linux nor a Python to start it with")
    script = str(Path(__file__).with_name("start.py"))
    limit = _file_limit(command)
    ctype = command.environment.get("LC_CTYPE")
    told = (
        mark,
        str(os.getpid()),
        "-" if limit is None else str(limit),
        "-" if ctype is None else f"={ctype}",
    )
    return sys.executable, (sys.executable, "-I", "-S", "-X", "utf8=1", script, *told)


def environment(command: Command) -> Mapping[str, str]:
    """Return the whole environment of the child: the command's own and the name of the run."""
    return {**command.environment, "VMAFX_RUN_ID": command.run_id}


def complaint(mark: str, stderr: bytes) -> str | None:
    """Return why the launcher could not become the program; None when it does not complain.

    A program may exit with the launcher's status, but it does not speak under the launcher's name.
    """
    found = re.search(
        rf"^{mark}: (?:(?:exec: )?(?:line )?[0-9]+: )?(?:exec: )?(.*)$".encode(), stderr, re.MULTILINE
    )
    return found[1].decode(errors="surrogateescape") if found else None


# ---------------------------------------------------------------- whether the shell's way will do


def find_tools(folders: tuple[str, ...]) -> Tools | None:
    """Return a `setpriv` and a shell found in `folders`; None when one is missing."""
    path = os.pathsep.join(folders)
    setpriv = shutil.which("setpriv", path=path)
    shell = shutil.which("dash", path=path) or shutil.which("sh", path=path)
    return Tools(setpriv=setpriv, shell=shell) if setpriv and shell else None


def probe(tools: Tools) -> Command:
    """Return a command that, started the shell's way, tells its environment on standard error."""
    return Command(
        argv=(tools.shell, "-c", _TELL_ENVIRONMENT, "sh"),
        environment={"VMAFX_PROBE": "a b"},  # and no PATH, which busybox's shell would add
        run_id=f"probe-{os.getpid()}",
        file_bytes_max=_BLOCK_BYTES,
    )


def probe_passed(command: Command, status: int, stderr: bytes) -> bool:
    """Return whether the probe became the program and neither tool added to or took from its environment.

    busybox has a `setpriv` that knows no parent-death signal, and so had util-linux before 2.33; bash leaves
    `SHLVL` in the environment.
    """
    expected = {f"{name}={value}".encode() for name, value in environment(command).items()}
    return status == 0 and {entry for entry in stderr.split(b"\0") if entry} == expected


def passes_shell(names: Mapping[str, str]) -> bool:
    """Return whether a shell hands all of an environment on as it is: it drops odd names and sets its own."""
    return all(_VARIABLE.fullmatch(name) and name not in _OF_THE_SHELL for name in names)


def plainly_native(program: str, *, depth: int = 2) -> bool:
    """Return whether the kernel runs a file for certain: an executable of this machine, or a script of one.

    A shell that the kernel tells "no executable format" reads the file as a script of its own, which must
    not happen to half a download; our script reports the kernel's answer instead.

    Args:
        program: The path of the file.
        depth: How many scripts may interpret each other.
    """
    head = _head(program, _SCRIPT_LINE_BYTES)
    if not head.startswith(b"#!"):
        found = _format(head)
        return found is not None and found == _format(_head(_SELF, _ELF_BYTES)) and _complete(program, head)
    line, newline, _ = head[2:].partition(b"\n")
    words = line.split()
    return bool(depth and newline and words) and plainly_native(os.fsdecode(words[0]), depth=depth - 1)


def _format(head: bytes) -> bytes | None:
    """Return magic, word size, byte order and machine of an ELF file; None for any that is no executable."""
    executable = len(head) >= _ELF_BYTES and head[:4] == b"\x7fELF" and {2, 3} & {head[16], head[17]}
    return head[:6] + head[18:20] if executable else None


def _complete(program: str, head: bytes) -> bool:
    """Return whether the table of segments, which the kernel reads first, is in the file."""
    order = "<" if head[5] == 1 else ">"
    wide = head[4] == 2
    (start,) = struct.unpack_from(order + ("Q" if wide else "I"), head, 32 if wide else 28)
    entry_bytes, count = struct.unpack_from(order + "HH", head, 54 if wide else 42)
    return bool(count) and Path(program).stat().st_size >= start + entry_bytes * count


def _head(path: str, count: int) -> bytes:
    try:
        with Path(path).open("rb", buffering=0) as file:
            return file.read(count) or b""
    except OSError:  # a program may be executable and not readable
        return b""


def _file_limit(command: Command) -> int | None:
    """Return the limit in bytes, at most what we may set: no one may raise a hard limit."""
    wanted = command.file_bytes_max
    if wanted is None:
        return None
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


# The parent is compared after the signal was asked for: one that died earlier left us to another. Values of
# the caller are only ever "$@". A shell sets PWD, and some the other three, whether or not we had them.
_STUB: Final = (
    'test "$PPID" = "$1" || exit 125; ulimit -c 0; test "$2" = - || ulimit -f "$2" || exit 125; '
    'shift 2; unset PWD OLDPWD SHLVL _; exec "$@"'
)
_BLOCK_BYTES: Final = 512  # the unit of `ulimit -f`, by POSIX
_TELL_ENVIRONMENT: Final = "unset PWD OLDPWD SHLVL _; exec cat /proc/self/environ >&2"
_SCRIPT_LINE_BYTES: Final = 255  # the kernel reads 256 bytes and refuses a longer first line
_ELF_BYTES: Final = 64
_SELF: Final = "/proc/self/exe"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_THE_SHELL: Final = frozenset(
    {"_", "ENV", "IFS", "LINENO", "OLDPWD", "OPTARG", "OPTIND", "PPID", "PS1", "PS2", "PS4", "PWD", "SHLVL"}
)
