"""The errors of vmafx; callers choose by class, never by message.

VmafxError
├── ConfigurationError          a setting that cannot be honoured: names it
├── IllegalTransitionError      an event that a state does not allow: names both
├── SourceError                 an input: names it as its owner wrote it
│   ├── SourceSyntaxError       text that is no source reference or no root
│   ├── OutsideRootsError       an input outside the tenant's scoring roots
│   └── ClipError               content that cannot be scored: no Y4M, a partial frame, a mismatch
├── NotFiniteError              a value that is no finite number: names it
├── ScorerError                 a scorer run that gave no result: exit status, last stderr
│   ├── ScorerUnavailableError  no executable here can do what was asked: names the setting
│   ├── ScoreTimeoutError       the run took longer than it may
│   ├── BackendMismatchError    another backend than the one asked for: names both
│   └── ReportError             a report that is missing, damaged or contradicts itself
└── ControllerError             a call to the controller: status code, retryable or not
"""

from __future__ import annotations

__all__ = [
    "BackendMismatchError",
    "ClipError",
    "ConfigurationError",
    "ControllerError",
    "IllegalTransitionError",
    "NotFiniteError",
    "OutsideRootsError",
    "ReportError",
    "ScoreTimeoutError",
    "ScorerError",
    "ScorerUnavailableError",
    "SourceError",
    "SourceSyntaxError",
    "VmafxError",
]


class VmafxError(Exception):
    """Any error that vmafx raises on purpose."""


class ConfigurationError(VmafxError):
    """A setting cannot be honoured.

    Attributes:
        setting: The environment variable or option at fault, such as `VMAFX_BACKEND`.
    """

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(f"{setting}: {problem}")
        self.setting = setting
        self.problem = problem


class IllegalTransitionError(VmafxError):
    """An event arrived that the state it met does not allow.

    Attributes:
        state: The state, in words.
        event: The event, in words.
    """

    def __init__(self, state: str, event: str) -> None:
        super().__init__(f"{event} is not allowed in state {state}")
        self.state = state
        self.event = event


class SourceError(VmafxError):
    """An input cannot be used.

    Attributes:
        source: The input, as its owner wrote it.
    """

    def __init__(self, source: str, message: str) -> None:
        super().__init__(message)
        self.source = source


class SourceSyntaxError(SourceError):
    """Text is no source reference, or no scoring root.

    Attributes:
        reason: What is wrong with the text, without the text itself.
    """

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(source, reason)
        self.reason = reason


class OutsideRootsError(SourceError):
    """An input lies outside the tenant's scoring roots."""


class ClipError(SourceError):
    """The content of an input cannot be scored."""


class NotFiniteError(VmafxError):
    """A value that must be a finite number is none.

    Attributes:
        name: The score or feature, such as `vmaf`.
    """

    def __init__(self, name: str, value: object) -> None:
        shown = "null" if value is None else ascii(value)[:64]
        super().__init__(f"non-finite value for {name}: {shown}")
        self.name = name


class ScorerError(VmafxError):
    """A run of the scorer gave no result.

    Attributes:
        exit_status: The exit status of the process; a negative number is the signal that ended it; None
            when there was none.
        stderr: The last words of the process, printable and bounded.
        machine_fault: Whether the machine, not the input, is the likely cause (ADR 0010): another
            machine may do better.
    """

    def __init__(
        self, message: str, *, exit_status: int | None = None, stderr: str = "", machine_fault: bool = False
    ) -> None:
        super().__init__(message)
        self.exit_status = exit_status
        self.stderr = stderr
        self.machine_fault = machine_fault


class ScorerUnavailableError(ScorerError):
    """No executable on this machine can do what was asked.

    Attributes:
        setting: The setting that decides it, such as `VMAFX_VMAF_BINARY`.
    """

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(f"{setting}: {problem}", machine_fault=True)
        self.setting = setting
        self.problem = problem


class ScoreTimeoutError(ScorerError):
    """A run took longer than it may."""


class BackendMismatchError(ScorerError):
    """A run used, or would use, another backend than the one asked for.

    Attributes:
        asked: The backend asked for.
        used: The backend used or available.
    """

    def __init__(self, asked: str, used: str, message: str) -> None:
        super().__init__(message)
        self.asked = asked
        self.used = used


class ReportError(ScorerError):
    """The report of a run is missing, damaged, too large or contradicts itself."""


class ControllerError(VmafxError):
    """A call to the controller failed.

    Attributes:
        code: The gRPC status code's name, such as `UNAVAILABLE`.
        retryable: Whether the same call may succeed later.
    """

    def __init__(self, code: str, message: str, *, retryable: bool) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retryable = retryable
