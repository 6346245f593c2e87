"""One run of the executable: inputs opened, process watched, report believed or not."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from vmafx.adapters.vmaf_cli.capabilities import Capabilities
from vmafx.adapters.vmaf_cli.faults import (
    STDERR_BYTES_MAX,
    Tail,
    failed_run,
    machine_faults,
    stderr_words,
    timeout_text,
)
from vmafx.adapters.vmaf_cli.frames import check_unchanged
from vmafx.adapters.vmaf_cli.inputs import PROGRESS_FD, RunFiles, descriptor_names, open_files, path_names
from vmafx.adapters.vmaf_cli.lookup import Executable
from vmafx.adapters.vmaf_cli.models import refused_model
from vmafx.adapters.vmaf_cli.options import ScorerOptions, child_environment
from vmafx.adapters.vmaf_cli.progress import ProgressLines
from vmafx.adapters.vmaf_cli.receipts import check_backend
from vmafx.adapters.vmaf_cli.report import REPORT_BYTES_MAX, Report, check_report, read_report
from vmafx.adapters.vmaf_cli.threads import in_thread
from vmafx.adapters.vmaf_cli.unnamed import file_chunks
from vmafx.domain.errors import NotFiniteError, ReportError, ScorerError, ScoreTimeoutError
from vmafx.domain.process import Command, Exit, Listener
from vmafx.domain.scoring import Backend, ScoreRequest
from vmafx.domain.text import quoted
from vmafx.ports.clock import Clock
from vmafx.ports.processes import Processes
from vmafx.ports.scorer import Progress

__all__ = ["TIMEOUT_SETTING", "PairRuns", "Scored", "Tool"]

TIMEOUT_SETTING: Final = "VMAFX_SCORE_TIMEOUT"

_ENGINE_VERSION: Final = "vmafx-vmaf "
_USAGE_BYTES_MAX: Final = 256 * 1024
"""How much of a usage text is read, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """An executable and what it knows.

    Attributes:
        executable: The executable.
        capabilities: What it says of itself.
    """

    executable: Executable
    capabilities: Capabilities

    @property
    def is_engine(self) -> bool:
        """Whether it is the embedded engine, also where a setting names it."""
        return self.executable.engine or self.capabilities.version.startswith(_ENGINE_VERSION)

    @property
    def words(self) -> str:
        """What it is, in words."""
        return "the embedded engine" if self.is_engine else str(self.executable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A run whose report was believed.

    Attributes:
        report: The report.
        model: The name of the model used.
        frames: How many frames of each clip were compared.
        clip_frames: How many frames the reference and the distorted clip have.
        backend_used: The backend that the report vouches for; None when it says nothing of it.
    """

    report: Report
    model: str
    frames: int
    clip_frames: tuple[int, int]
    backend_used: Backend | None


@dataclass(slots=True, kw_only=True)
class _Run:
    """A run while it goes on."""

    tool: Tool
    request: ScoreRequest
    any_length: bool
    lines: ProgressLines
    stderr: Tail = field(default_factory=lambda: Tail(STDERR_BYTES_MAX))
    started: bool = False

    @property
    def words(self) -> str:
        return stderr_words(self.stderr.data, descriptor_names(self.request), path_names(self.request))

    @property
    def inputs(self) -> str:
        request = self.request
        return f"reference {quoted(request.reference.name)}, distorted {quoted(request.distorted.name)}"


class PairRuns:
    """Runs executables over pairs of clips; runs go on side by side.

    Args:
        options: How to score.
        processes: Starts the processes.
        clock: Limits them.
        new_run_id: Returns a new id for each run: letters, digits and `-` only.
    """

    def __init__(
        self, options: ScorerOptions, *, processes: Processes, clock: Clock, new_run_id: Callable[[], str]
    ) -> None:
        self._options = options
        self._processes = processes
        self._clock = clock
        self._new_run_id = new_run_id

    async def ask(self, executable: Executable, *arguments: str, timeout_s: float) -> str:
        """Return what the executable writes to standard error, unless the machine ends it.

        Args:
            executable: What to run.
            *arguments: Its arguments.
            timeout_s: How long it may take, in seconds.

        Raises:
            ScorerError: It cannot be started, or a fault of the machine ended it.
            ScoreTimeoutError: It took longer than it may.
        """
        heard = bytearray()

        def listen(data: bytes) -> None:
            heard.extend(data[: _USAGE_BYTES_MAX - len(heard)])

        try:
            async with self._clock.timeout(timeout_s):
                end = await self._ended(executable, arguments, descriptors={}, listeners={2: listen})
        except TimeoutError:
            words = stderr_words(bytes(heard), {})
            doing = f"{executable} was asked for its {'version' if arguments else 'usage text'}"
            text = timeout_text(timeout_s, words, doing=doing, started=True)
            raise ScoreTimeoutError(text, stderr=words) from None
        if end.machine_fault:
            failure = failed_run(end, stderr_words(bytes(heard), {}), inputs="no clips")
            raise failure
        return heard.decode("utf-8", errors="replace")

    async def score(
        self,
        tool: Tool,
        request: ScoreRequest,
        *,
        any_length: bool = False,
        progress: Progress | None = None,
    ) -> Scored:
        """Score a pair on the backend of the options, as the port promises.

        Args:
            tool: What to run.
            request: What to score.
            any_length: Whether a report about any number of frames is believed.
            progress: Hears of progress.

        Raises:
            ScoreTimeoutError: The run took longer than it may.
            VmafxError: Whatever else the port says.
        """
        run = _Run(tool=tool, request=request, any_length=any_length, lines=ProgressLines(progress))
        timeout_s = self._options.score_timeout_s if request.timeout_s is None else request.timeout_s
        with ExitStack() as resources, machine_faults("run vmaf"):
            resources.callback(run.lines.close)
            try:
                async with self._clock.timeout(timeout_s or None):
                    files = await self._opened(run)
                    resources.callback(files.close)
                    run.lines.frames_total = files.pair.frames
                    end = await self._scored(run, files)
            except TimeoutError:
                setting = TIMEOUT_SETTING if request.timeout_s is None else ""
                text = timeout_text(
                    timeout_s, run.words, doing=run.inputs, setting=setting, started=run.started
                )
                raise ScoreTimeoutError(text, stderr=run.words) from None
            scored = await in_thread(
                lambda sign: self._judged(run, files, end, sign.check), clock=self._clock
            )
            run.lines.finish()
            return scored

    async def _opened(self, run: _Run) -> RunFiles:
        return await in_thread(
            lambda sign: open_files(run.request, self._options, sign.check, engine=run.tool.is_engine),
            clock=self._clock,
            discard=RunFiles.close,
        )

    async def _scored(self, run: _Run, files: RunFiles) -> Exit:
        tool = run.tool
        listeners: dict[int, Listener] = {2: run.stderr.feed}
        heard = run.lines.wanted and tool.capabilities.has("progress-fd")
        if heard:
            listeners[PROGRESS_FD] = run.lines.feed
        arguments = files.arguments(run.request, self._options, tool.capabilities, progress=heard)
        run.started = True
        return await self._ended(
            tool.executable,
            arguments,
            descriptors=files.descriptors(),
            listeners=listeners,
            job_id=run.request.job_id,
        )

    async def _ended(
        self,
        executable: Executable,
        arguments: tuple[str, ...],
        *,
        descriptors: Mapping[int, int],
        listeners: Mapping[int, Listener],
        job_id: str | None = None,
    ) -> Exit:
        run_id = self._new_run_id()
        command = Command(
            argv=(*executable.argv, *arguments),
            environment=child_environment(self._options.environment, job_id=job_id or run_id),
            run_id=run_id,
            descriptors=descriptors,
            listeners=listeners,
            # One byte more than a report may have, so that one of exactly the limit is told from a cut one.
            file_bytes_max=REPORT_BYTES_MAX + 1,
        )
        try:
            async with self._processes.running(command) as child:
                return await child.wait()
        except ScorerError as error:
            raise ScorerError(
                f"libvmaf: start vmaf binary: {error}",
                stderr=error.stderr,
                machine_fault=error.machine_fault,
            ) from error

    def _judged(self, run: _Run, files: RunFiles, end: Exit, check: Callable[[], None]) -> Scored:
        """Say what became of a run that ended; the cause nearest to its root comes first; blocks.

        Raises:
            ModelError: The executable cannot use the model.
            NotFiniteError: The score or a feature is not a finite number.
            ReportError: The run left no report that can be believed.
        """
        failure = None if end.status == 0 else failed_run(end, run.words, inputs=run.inputs)
        if failure is not None and failure.machine_fault:
            raise failure
        check_unchanged(files.pair)
        if failure is not None:
            refused = refused_model(
                files.model, run.words, model_dir=self._options.model_dir, executable=run.tool.words
            )
            raise refused or failure
        try:
            return self._believed(run, files, check)
        except ReportError as error:  # what the run said may be why: it could not write, it was cut short
            words = run.words
            text = f"{error} ({run.inputs})\nstderr: {words}"
            raise ReportError(text, exit_status=end.status, stderr=words) from None
        except NotFiniteError as error:
            raise NotFiniteError(error.name, error.value, about=run.inputs) from None

    def _believed(self, run: _Run, files: RunFiles, check: Callable[[], None]) -> Scored:
        options, frames = self._options, files.pair.frames
        if os.fstat(files.report).st_size > REPORT_BYTES_MAX:
            raise ReportError(f"libvmaf: read output file: larger than {REPORT_BYTES_MAX} bytes")
        report = read_report(file_chunks(files.report), keep_frames=run.request.frame_scores, check=check)
        subsample = run.request.subsample
        expected = None if run.any_length else -(-frames // subsample)
        check_report(report, frames=expected, subsample=subsample)
        return Scored(
            report=report,
            model=files.model.name,
            frames=frames,
            clip_frames=(files.pair.reference.frames, files.pair.distorted.frames),
            backend_used=check_backend(report, options.backend, unverified=options.backend_unverified),
        )
