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
│   ├── ModelError              a model that cannot be used: names it
│   ├── ScorerUnavailableError  no executable here can do what was asked: names the setting
│   ├── ScoreTimeoutError       the run took longer than it may
│   ├── BackendMismatchError    another backend than the one asked for: names both
│   └── ReportError             a report that is missing, damaged or contradicts itself
├── ControllerError             a call to the controller: status code, retryable or not
├── SpoolError                  a result that cannot be kept for later, or not be read again
├── TokenError                  a bearer token that cannot be had, or proves nothing
├── RoleRequiredError           a call that its caller may not make: names the roles that may
└── StoreError                  a call to a store of jobs or sessions that has no answer
    ├── StoreUnavailableError   the store failed: the same call may succeed later
    ├── JobNotFoundError        a job that does not exist: names it
    ├── ForeignJobError         a job of another tenant: names it
    ├── SessionNotFoundError    a session that is not live, or not the caller's: names it
    ├── SubmissionConflictError an idempotency key that was used for something else: names it
    └── QueueFullError          a tenant that has as many pending jobs as it may: names the limit
"""

from __future__ import annotations

from collections.abc import Sequence

from vmafx.domain.text import quoted

__all__ = [
    "BackendMismatchError",
    "ClipError",
    "ConfigurationError",
    "ControllerError",
    "ForeignJobError",
    "IllegalTransitionError",
    "JobNotFoundError",
    "ModelError",
    "NotFiniteError",
    "OutsideRootsError",
    "QueueFullError",
    "ReportError",
    "RoleRequiredError",
    "ScoreTimeoutError",
    "ScorerError",
    "ScorerUnavailableError",
    "SessionNotFoundError",
    "SourceError",
    "SourceSyntaxError",
    "SpoolError",
    "StoreError",
    "StoreUnavailableError",
    "SubmissionConflictError",
    "TokenError",
    "VmafxError",
]


class VmafxError(Exception):
    """Any error that vmafx raises on purpose.

    Attributes:
        machine_fault: Whether the machine, not what it was asked, is the likely cause (ADR 0010); False for
            every class that does not tell.
    """

    machine_fault: bool = False


class ConfigurationError(VmafxError):
    """A setting cannot be honoured.

    Attributes:
        setting: The environment variable or option at fault, such as `VMAFX_BACKEND`.
        problem: What is wrong with it.
        value: The refused value; None when it is not shown.
        others: Further settings that were found wrong at the same time; the message tells them too.
        group: What the setting is a part of, such as `controller client config`; the message tells the
            problems of one group together behind its name. Empty for none.
        named: Whether `problem` names the setting itself, and so stands alone in the message.
    """

    def __init__(  # noqa: PLR0913 - the parts of one message
        self,
        setting: str,
        problem: str,
        *,
        value: str | None = None,
        others: tuple[ConfigurationError, ...] = (),
        group: str = "",
        named: bool = False,
    ) -> None:
        self.setting = setting
        self.problem = problem
        self.value = value
        self.others = others
        self.group = group
        self.named = named
        super().__init__(_told((self, *others)))

    @property
    def all(self) -> tuple[ConfigurationError, ...]:
        """Every wrong setting on its own."""
        alone = ConfigurationError(
            self.setting, self.problem, value=self.value, group=self.group, named=self.named
        )
        return (alone, *self.others)


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
        machine_fault: Whether the machine, not the input, is the likely cause (ADR 0010): another
            machine may do better.
    """

    def __init__(self, source: str, message: str, *, machine_fault: bool = False) -> None:
        super().__init__(message)
        self.source = source
        self.machine_fault = machine_fault


class SourceSyntaxError(SourceError):
    """Text is no source reference, or no scoring root.

    Attributes:
        reason: What is wrong with the text, without the text itself.
    """

    def __init__(self, source: str, reason: str, *, subject: str = "") -> None:
        super().__init__(source, f"{subject}: {reason}" if subject else reason)
        self.reason = reason


class OutsideRootsError(SourceError):
    """An input lies outside the tenant's scoring roots."""


class ClipError(SourceError):
    """The content of an input cannot be scored."""


class NotFiniteError(VmafxError):
    """A value that must be a finite number is none.

    Attributes:
        name: The score or feature, such as `vmaf`.
        value: The value.
    """

    def __init__(self, name: str, value: object, *, about: str = "") -> None:
        super().__init__(f"non-finite value for {name}: {_shown_value(value)}{about and f' ({about})'}")
        self.name = name
        self.value = value


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


class ModelError(ScorerError):
    """A model cannot be used.

    Attributes:
        model: The model's name, as asked for.
    """

    def __init__(self, model: str, message: str) -> None:
        super().__init__(message)
        self.model = model


class ScorerUnavailableError(ScorerError):
    """No executable on this machine can do what was asked.

    Attributes:
        setting: The setting that decides it, such as `VMAFX_VMAF_BINARY`.
    """

    def __init__(self, setting: str, problem: str, *, exit_status: int | None = None) -> None:
        super().__init__(f"{setting}: {problem}", exit_status=exit_status, machine_fault=True)
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


class SpoolError(VmafxError):
    """A result cannot be kept for later, or what was kept cannot be read; says where it should lie."""


class TokenError(VmafxError):
    """A bearer token cannot be had, or one that was shown proves nothing; never tells what it holds.

    Attributes:
        code: The name of the gRPC status code to refuse with, such as `UNAUTHENTICATED`.
    """

    def __init__(self, message: str, *, code: str = "UNAUTHENTICATED") -> None:
        super().__init__(message)
        self.code = code


class RoleRequiredError(VmafxError):
    """A caller may not make a call: it holds none of the roles that may, or nobody may.

    Attributes:
        roles: The words of the roles that may, in the order of the table; none when nobody may.
    """

    def __init__(self, roles: Sequence[str]) -> None:
        super().__init__(f"role required: {' | '.join(roles)}" if roles else "no role may make this call")
        self.roles: tuple[str, ...] = tuple(roles)


class StoreError(VmafxError):
    """A call to a store of jobs or sessions has no answer; unless a class says otherwise nothing changed."""


class StoreUnavailableError(StoreError):
    """The store could not be reached, or could not read or write; the same call may succeed later.

    Whether it took effect is unknown; making it again is safe. The message is for the log of whoever runs
    the store: it may name files and machines.

    Args:
        message: What went wrong.
        told: What callers may be told of it.

    Attributes:
        told: What callers may be told of it.
    """

    def __init__(self, message: str, *, told: str = "the store cannot be used") -> None:
        super().__init__(message)
        self.told = told


class JobNotFoundError(StoreError):
    """There is no such job.

    Attributes:
        job_id: The id, as the caller gave it.
    """

    def __init__(self, job_id: str) -> None:
        super().__init__(f"job {quoted(job_id)} not found")
        self.job_id = job_id


class ForeignJobError(StoreError):
    """The job is another tenant's; the message names neither.

    Attributes:
        job_id: The id, as the caller gave it.
    """

    def __init__(self, job_id: str) -> None:
        super().__init__("resource belongs to another tenant")
        self.job_id = job_id


class SessionNotFoundError(StoreError):
    """The session is unknown, no longer live, another tenant's, or its secret is wrong.

    Attributes:
        session_id: The session's id, as the caller gave it.
    """

    def __init__(self, session_id: str) -> None:
        super().__init__(f"invalid session for node {quoted(session_id)}")
        self.session_id = session_id


class SubmissionConflictError(StoreError):
    """An idempotency key was used before, for a submission that asked for something else.

    Attributes:
        key: The idempotency key.
    """

    def __init__(self, key: str) -> None:
        super().__init__(f"idempotency key {quoted(key)} was used for another submission")
        self.key = key


class QueueFullError(StoreError):
    """The tenant has as many pending jobs as it may.

    Attributes:
        pending_max: The limit.
    """

    def __init__(self, pending_max: int) -> None:
        super().__init__(f"the tenant has {pending_max} pending jobs, which is the limit")
        self.pending_max = pending_max


def _told(problems: Sequence[ConfigurationError]) -> str:
    parts: list[str] = []
    group = ""
    for problem in problems:
        start = f"{problem.group}: " if problem.group not in {"", group} else ""
        parts.append(start + _own_words(problem))
        group = problem.group
    return "; ".join(parts)


def _own_words(problem: ConfigurationError) -> str:
    if problem.named:
        return problem.problem
    if problem.value is None:
        return f"{problem.setting}: {problem.problem}"
    return f"{problem.setting}={quoted(problem.value)} {problem.problem}"


def _shown_value(value: object) -> str:
    if value is None:
        return "null"
    try:
        return ascii(value)[:64]
    except ValueError:
        return "an integer of more digits than Python prints"
