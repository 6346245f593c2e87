"""The self-test: an executable scores only after it has shown that it can (ADR 0003, ADR 0004)."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import clips, reports
from tests.cli_scorer import descriptors, pair_request, plain_request
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.processes import FakeProcesses, FakeProgram
from vmafx.adapters.vmaf_cli.engine_ffmpeg import Engine
from vmafx.adapters.vmaf_cli.options import ScorerOptions
from vmafx.adapters.vmaf_cli.scorer import BACKEND_NOT_VERIFIED, LOGGER, SCORER_INITIALISED, CliScorer
from vmafx.domain.errors import (
    BackendMismatchError,
    ClipError,
    ModelError,
    ScorerError,
    ScorerUnavailableError,
    ScoreTimeoutError,
)
from vmafx.domain.process import Command
from vmafx.domain.scoring import Backend
from vmafx.ports.clock import Clock

REPORT_FD = 5
STOCK = ("reference", "distorted", "gpumask", "subsample")
FORK = (*STOCK, "backend", "precision", "progress-fd")


class FakeTool:
    """An executable that is none: its usage text, its report, and every start of it."""

    def __init__(self, path: Path, *options: str, clock: Clock | None = None) -> None:
        path.write_text("#!/bin/sh\n", encoding="utf-8")
        path.chmod(0o755)
        self.path = path
        self.options = options
        self.report: bytes = reports.made("good")
        self.status = 0
        self.version = "v3.1"
        self.hangs_on: str | None = None
        self.words = b"words of the run"
        self.clips: list[list[bytes]] = []
        self.processes = FakeProcesses(clock or SystemClock(), self._program)

    def scorer(self, **options: Any) -> CliScorer:
        numbers = iter(range(1000))
        return CliScorer(
            ScorerOptions(vmaf_binary=str(self.path), **options),
            processes=self.processes,
            clock=self.processes._clock,
            new_run_id=lambda: f"run-{next(numbers)}",
        )

    @property
    def runs(self) -> list[tuple[str, ...]]:
        """The arguments of every start with clips."""
        return [c.argv[1:] for c in self.processes.commands if "-r" in c.argv]

    def _program(self, command: Command) -> FakeProgram:
        asked = command.argv[3:] if "/engine.py" in command.argv else command.argv[1:]
        kind = asked[0] if asked else "usage"
        takes_s = math.inf if kind == self.hangs_on else 0.0
        if kind == "--version":
            return FakeProgram(writes=((2, f"{self.version}\n".encode()),), takes_s=takes_s)
        if kind == "usage":
            usage = "".join(f" --{option} $x\n" for option in self.options)
            return FakeProgram(status=1, writes=((2, usage.encode()),), takes_s=takes_s)
        writes = ((2, self.words),)
        return FakeProgram(status=self.status, writes=writes, takes_s=takes_s, does=self._score)

    def _score(self, command: Command) -> None:
        self.clips.append(
            [os.pread(command.descriptors[n], 1 << 20, 0) for n in (3, 4) if n in command.descriptors]
        )
        os.pwrite(command.descriptors[REPORT_FD], self.report, 0)


@pytest.fixture
def stock(tmp_path: Path) -> FakeTool:
    return FakeTool(tmp_path / "vmaf", *STOCK)


@pytest.fixture
def fork(tmp_path: Path) -> FakeTool:
    return FakeTool(tmp_path / "vmaf", *FORK)


@pytest.fixture(autouse=True)
def no_descriptor_is_left() -> Iterator[None]:
    """Clips, models and reports are closed, whatever happens."""
    before = len(descriptors())
    yield
    assert len(descriptors()) <= before


def receipt(**said: object) -> bytes:
    return reports.report(extra=said).encode()


async def unavailable(scorer: CliScorer) -> ScorerUnavailableError:
    with pytest.raises(ScorerUnavailableError) as caught:
        await scorer.self_test()
    assert scorer.info is None
    return caught.value


async def test_usage_and_version_are_asked_for_and_a_pair_is_scored(stock: FakeTool) -> None:
    scorer = stock.scorer()
    assert scorer.info is None
    await scorer.self_test()
    assert [len(c.argv) for c in stock.processes.commands[:2]] == [1, 2]
    assert len(stock.runs) == 1
    assert scorer.info is not None
    assert scorer.info.version == "v3.1"
    assert scorer.info.executable == str(stock.path)
    assert scorer.info.why == "VMAFX_VMAF_BINARY names it"
    assert scorer.info.tool.capabilities.options == set(STOCK)
    assert (scorer.info.backend, scorer.info.verified) == (Backend.CPU, False)


async def test_built_in_pair_is_two_different_clips_of_two_frames(stock: FakeTool) -> None:
    await stock.scorer().self_test()
    reference, distorted = stock.clips[0]
    assert reference != distorted
    for clip in (reference, distorted):
        assert clip.startswith(b"YUV4MPEG2 W176 H144 ")
        assert clip.count(b"FRAME\n") == 2
        assert len(clip) == clip.index(b"\n") + 1 + 2 * (6 + 176 * 144 * 3 // 2)


@pytest.mark.parametrize("backend", [Backend.CPU, Backend.CUDA])
async def test_self_test_has_exactly_the_options_of_a_job(
    fork: FakeTool, tmp_path: Path, backend: Backend
) -> None:
    fork.report = receipt(backend_used=backend.value)
    scorer = fork.scorer(backend=backend, score_threads=3)
    await scorer.score(plain_request(tmp_path), progress=lambda *_: None)
    test, job = fork.runs
    assert [*test[:4:2], *test[4:]] == [*job[:4:2], *job[4:]]
    assert job[1] == str(tmp_path / "ref.y4m")
    assert test[1:4:2] == ("/dev/fd/3", "/dev/fd/4")


async def test_stock_executable_is_kept_on_the_cpu_by_mask(stock: FakeTool) -> None:
    await stock.scorer().self_test()
    arguments = stock.runs[0]
    assert arguments[arguments.index("--gpumask") + 1] == "4294967295"
    assert "--backend" not in arguments


async def test_report_about_other_frames_passes_the_self_test_but_not_a_job(
    stock: FakeTool, tmp_path: Path
) -> None:
    scorer = stock.scorer()
    await scorer.self_test()
    with pytest.raises(ScorerError, match="6 frame entries, 4 expected"):
        await scorer.score(
            pair_request(tmp_path, clips.y4m(distorted=False, frames=4), clips.y4m(distorted=True, frames=4))
        )


@pytest.mark.parametrize(
    "name", ["no_frames", "null_score", "cut_short", "empty", "pooled_differs", "duplicate_keys"]
)
async def test_damaged_report_fails_the_self_test(stock: FakeTool, name: str) -> None:
    stock.report = reports.made(name)
    error = await unavailable(stock.scorer())
    assert error.setting == "VMAFX_VMAF_BINARY"
    assert str(stock.path) in str(error)


async def test_failing_run_fails_the_self_test_with_its_words(stock: FakeTool) -> None:
    stock.status = 1
    error = await unavailable(stock.scorer())
    assert error.setting == "VMAFX_VMAF_BINARY"
    assert error.machine_fault
    assert "exit status 1" in str(error)
    assert str(error).startswith("VMAFX_VMAF_BINARY: words of the run (exit status 1); ")
    assert "vmaf_v0.6.1" in str(error)
    assert "\n" not in str(error)


async def test_usage_text_is_no_cause_and_words_are_bounded(stock: FakeTool) -> None:
    stock.status = 1
    stock.words = b"usage: vmaf\n  --reference x\n" + b"more\n" * 500 + b"a" * 5000 + b"\nthe reason\n"
    error = await unavailable(stock.scorer())
    assert "--reference" not in str(error)
    assert "the reason (exit status 1)" in str(error)
    assert "\n" not in str(error)
    assert len(str(error).encode()) < 2048


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGILL])
@pytest.mark.parametrize("backend", [Backend.CPU, Backend.CUDA])
async def test_self_test_that_the_machine_ends_is_tried_once_more(
    fork: FakeTool, number: signal.Signals, backend: Backend
) -> None:
    fork.status = -number
    error = await unavailable(fork.scorer(backend=backend))
    assert len(fork.runs) == 2
    assert (error.setting, error.exit_status) == ("VMAFX_VMAF_BINARY", -number)
    assert str(error).startswith(f"VMAFX_VMAF_BINARY: {fork.path} was killed (signal: ")
    assert number.name in str(error)


@pytest.mark.parametrize("asked", [0, 1, 2], ids=["usage", "version", "run"])
async def test_self_test_that_was_killed_once_succeeds_the_second_time(stock: FakeTool, asked: int) -> None:
    answers = [FakeProgram(), FakeProgram(), FakeProgram()]
    stock.processes.cue(*answers[:asked], FakeProgram(status=-signal.SIGKILL))
    scorer = stock.scorer()
    await scorer.self_test()
    assert scorer.info is not None
    assert scorer.info.tool.capabilities.options == set(STOCK)
    assert len(stock.runs) == (2 if asked == 2 else 1)


async def test_crash_is_not_tried_again(stock: FakeTool) -> None:
    stock.status = -signal.SIGSEGV
    error = await unavailable(stock.scorer())
    assert len(stock.runs) == 1
    assert f"{stock.path} crashed (signal: segmentation fault (SIGSEGV))" in str(error)


MODEL_WORDS = [
    b"[Parsed_libvmaf_10 @ 0x55] could not load libvmaf model with version: m",
    b"libvmaf ERROR could not load model\nproblem",
    b"problem loading model: m",
]


@pytest.mark.parametrize("words", MODEL_WORDS)
async def test_model_that_the_executable_does_not_know_is_told_where_it_was_looked_for(
    stock: FakeTool, tmp_path: Path, words: bytes
) -> None:
    scorer = stock.scorer(model_dir=str(tmp_path))
    await scorer.self_test()
    stock.status, stock.words = 255, words
    with pytest.raises(ModelError) as caught:
        await scorer.score(plain_request(tmp_path, model="m"))
    assert caught.value.model == "m"
    assert str(caught.value) == (
        f'libvmaf: model "m" not found (modelDir="{tmp_path}"): '
        f"neither in VMAFX_MODEL_DIR ({tmp_path}) nor built into {stock.path}"
    )


@pytest.mark.parametrize("words", [*MODEL_WORDS, b"usage: x\n --y\nvmafx-vmaf: --model: collections"])
@pytest.mark.parametrize("is_file", [False, True])
async def test_default_model_that_the_executable_refuses_is_blamed_on_its_setting(
    stock: FakeTool, tmp_path: Path, words: bytes, *, is_file: bool
) -> None:
    if is_file:
        (tmp_path / "m.json").write_text("{}", encoding="utf-8")
    stock.status, stock.words = 1, words
    error = await unavailable(stock.scorer(default_model="m", model_dir=str(tmp_path)))
    assert error.setting == "VMAFX_DEFAULT_MODEL"
    assert 'model "m"' in str(error)
    assert "\n" not in str(error)


async def test_empty_model_is_no_default(stock: FakeTool, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"^a model name is needed"):
        await stock.scorer().score(plain_request(tmp_path, model=""))


async def test_limit_of_the_options_is_named_and_that_of_the_request_is_not(
    stock: FakeTool, tmp_path: Path
) -> None:
    scorer = stock.scorer(score_timeout_s=1e-9)
    with pytest.raises(ScoreTimeoutError, match=r"^1ns \(VMAFX_SCORE_TIMEOUT\) exceeded: ") as caught:
        await scorer.score(plain_request(tmp_path))
    assert 'reference "ref.y4m", distorted "dis.y4m": libvmaf: vmaf subprocess cancelled: ' in str(
        caught.value
    )
    with pytest.raises(ScoreTimeoutError, match=r"^1ns exceeded: ") as caught:
        await scorer.score(plain_request(tmp_path, timeout_s=1e-9))
    assert "VMAFX" not in str(caught.value)


async def test_executable_that_cannot_be_started_is_unavailable(stock: FakeTool) -> None:
    stock.processes.cue(FakeProgram(error=ScorerError("cannot start: Exec format error", machine_fault=True)))
    assert "Exec format error" in str(await unavailable(stock.scorer()))


@pytest.mark.virtual_time
@pytest.mark.parametrize("step", ["usage", "--version"])
async def test_executable_that_hangs_is_unavailable_after_a_minute(
    tmp_path: Path, clock: VirtualClock, step: str
) -> None:
    tool = FakeTool(tmp_path / "vmaf", clock=clock)
    tool.hangs_on = step
    error = await unavailable(tool.scorer())
    assert str(error).startswith("VMAFX_VMAF_BINARY: 1m exceeded: ")
    assert "\n" not in str(error)
    assert clock.monotonic() == pytest.approx(60.0)
    assert tool.processes.alive == ()


@pytest.mark.parametrize("unverified", [False, True])
async def test_backend_without_an_option_for_it_is_refused_before_a_run(
    stock: FakeTool, *, unverified: bool
) -> None:
    error = await unavailable(stock.scorer(backend=Backend.CUDA, backend_unverified=unverified))
    assert error.setting == "VMAFX_BACKEND"
    assert str(error) == (
        f"VMAFX_BACKEND: {stock.path} has no --backend option, so only cpu can be honoured; "
        "cuda was asked for"
    )
    assert stock.runs == []


async def test_backend_without_a_receipt_is_refused(fork: FakeTool) -> None:
    error = await unavailable(fork.scorer(backend=Backend.CUDA))
    assert error.setting == "VMAFX_BACKEND"
    assert fork.runs[0][fork.runs[0].index("--backend") + 1] == "cuda"


@pytest.mark.parametrize(
    ("said", "used"),
    [
        ({"backend_used": "cpu"}, "cpu"),
        ({"backend_used": "vulkan"}, "vulkan"),
        ({"backend_used": ""}, ""),
        ({"backend_used": ["cuda"]}, "['cuda']"),
        ({"feature_backends": [{"backend": "cuda"}, {"backend": "cpu"}]}, "cuda,cpu"),
        ({"feature_backends": [{"backend": "cuda"}, {"extractor": "x"}]}, "cuda,unknown"),
        ({"feature_backends": [{"backend": "cpu"}], "backend_used": "cpu"}, "cpu"),
    ],
)
@pytest.mark.parametrize("unverified", [False, True])
async def test_receipt_for_another_backend_is_refused_whoever_vouches(
    fork: FakeTool, said: Mapping[str, object], used: str, *, unverified: bool
) -> None:
    fork.report = receipt(**said)
    error = await unavailable(fork.scorer(backend=Backend.CUDA, backend_unverified=unverified))
    assert error.setting == "VMAFX_BACKEND"
    assert f"the report says that {used} was used" in str(error)


@pytest.mark.parametrize(
    "said",
    [
        {"backend_used": "cuda"},
        {"backend_used": "CUDA"},
        {"feature_backends": [{"backend": "cuda"}, {"backend": "Cuda"}]},
        {"backend_used": "cuda", "feature_backends": [{"backend": "cuda"}, {"backend": "cpu"}]},
    ],
)
async def test_receipt_for_the_backend_verifies_it(
    fork: FakeTool, said: Mapping[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    fork.report = receipt(**said)
    scorer = fork.scorer(backend=Backend.CUDA, backend_unverified=True)
    await scorer.self_test()
    assert scorer.info is not None
    assert scorer.info.verified
    assert [r.message for r in caplog.records if r.levelno >= logging.WARNING] == []


async def test_operator_may_vouch_for_a_backend_without_receipt_and_is_warned_each_time(
    fork: FakeTool, caplog: pytest.LogCaptureFixture
) -> None:
    scorer = fork.scorer(backend=Backend.CUDA, backend_unverified=True)
    await scorer.self_test()
    await scorer.self_test()
    assert scorer.info is not None
    assert not scorer.info.verified
    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert [r.message for r in warnings] == [BACKEND_NOT_VERIFIED] * 2
    assert vars(warnings[0])["backend"] == "cuda"
    assert vars(warnings[0])["setting"] == "VMAFX_BACKEND_UNVERIFIED"


async def test_cpu_scorer_that_says_it_used_a_device_is_refused(fork: FakeTool) -> None:
    fork.report = receipt(backend_used="cuda")
    error = await unavailable(fork.scorer())
    assert error.setting == "VMAFX_BACKEND"


async def test_failing_run_on_a_device_names_the_backend_setting(fork: FakeTool) -> None:
    fork.status = 1
    assert (await unavailable(fork.scorer(backend=Backend.HIP))).setting == "VMAFX_BACKEND"


@pytest.mark.parametrize(
    ("later", "used"), [(receipt(backend_used="cpu"), "cpu"), (reports.made("good"), "unknown")]
)
async def test_every_job_must_bring_its_own_receipt(
    fork: FakeTool, tmp_path: Path, later: bytes, used: str
) -> None:
    fork.report = receipt(backend_used="cuda")
    scorer = fork.scorer(backend=Backend.CUDA)
    result = await scorer.score(plain_request(tmp_path))
    assert result.backend_used is Backend.CUDA
    fork.report = later
    with pytest.raises(BackendMismatchError) as caught:
        await scorer.score(plain_request(tmp_path))
    assert (caught.value.asked, caught.value.used) == ("cuda", used)


async def test_vouched_backend_is_not_claimed_in_the_result(fork: FakeTool, tmp_path: Path) -> None:
    scorer = fork.scorer(backend=Backend.CUDA, backend_unverified=True)
    assert (await scorer.score(plain_request(tmp_path))).backend_used is None


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ({"default_model": "../m"}, "VMAFX_DEFAULT_MODEL"),
        ({"model_dir": "models", "default_model": "broken"}, "VMAFX_DEFAULT_MODEL"),
        ({"model_dir": "models", "default_model": "out"}, "VMAFX_DEFAULT_MODEL"),
        ({"default_model": ""}, "VMAFX_DEFAULT_MODEL"),
        ({"model_dir": "nowhere"}, "VMAFX_MODEL_DIR"),
    ],
)
async def test_default_model_is_checked_and_its_setting_named(
    stock: FakeTool, tmp_path: Path, options: dict[str, str], setting: str
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/broken.json").write_text("[]", encoding="utf-8")
    (tmp_path / "models/out.json").symlink_to("/etc/passwd")
    if "model_dir" in options:
        options = options | {"model_dir": str(tmp_path / options["model_dir"])}
    assert (await unavailable(stock.scorer(**options))).setting == setting
    assert stock.runs == []


async def test_start_is_logged_with_what_was_chosen_and_why(
    stock: FakeTool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    (tmp_path / "models").mkdir()
    await stock.scorer(model_dir=str(tmp_path / "models")).self_test()
    record = next(r for r in caplog.records if r.message == SCORER_INITIALISED)
    assert record.levelno == logging.INFO
    told = vars(record)
    assert told["vmaf_binary"] == str(stock.path)
    assert told["model_dir"] == str(tmp_path / "models")
    assert told["why"] == "VMAFX_VMAF_BINARY names it"
    assert set(told) - set(vars(logging.makeLogRecord({}))) - {"message", "asctime"} == {
        "vmaf_binary",
        "model_dir",
        "why",
    }


async def test_calls_at_the_same_time_share_one_self_test(stock: FakeTool) -> None:
    scorer = stock.scorer()
    await asyncio.gather(*(scorer.self_test() for _ in range(5)))
    assert len(stock.runs) == 1
    await scorer.self_test()
    assert len(stock.runs) == 2


async def test_calls_at_the_same_time_share_one_failure(stock: FakeTool) -> None:
    stock.status = 1
    scorer = stock.scorer()
    outcomes = await asyncio.gather(*(scorer.self_test() for _ in range(5)), return_exceptions=True)
    assert len(stock.runs) == 1
    assert {type(outcome) for outcome in outcomes} == {ScorerUnavailableError}
    assert len({id(outcome) for outcome in outcomes}) == 5


async def test_cancelled_self_test_is_done_by_the_next_in_line(stock: FakeTool) -> None:
    scorer = stock.scorer()
    first, second = (asyncio.create_task(scorer.self_test()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert first.cancelled()
    assert scorer.info is not None
    assert len(stock.runs) == 1
    assert stock.processes.alive == ()


async def test_first_scores_share_one_self_test(stock: FakeTool, tmp_path: Path) -> None:
    scorer = stock.scorer()
    request = plain_request(tmp_path)
    await asyncio.gather(*(scorer.score(request) for _ in range(3)))
    assert len(stock.runs) == 4


async def test_scorer_that_breaks_is_unavailable_and_one_that_heals_is_not(
    stock: FakeTool, tmp_path: Path
) -> None:
    scorer, request = stock.scorer(), plain_request(tmp_path)
    await scorer.self_test()
    stock.status = 1
    await unavailable(scorer)
    with pytest.raises(ScorerUnavailableError):
        await scorer.score(request)
    stock.status = 0
    assert (await scorer.score(request)).score == pytest.approx(reports.SCORE)


async def test_other_backend_is_refused_before_anything_is_started(stock: FakeTool, tmp_path: Path) -> None:
    with pytest.raises(BackendMismatchError):
        await stock.scorer().score(plain_request(tmp_path, backend=Backend.METAL))
    assert stock.processes.commands == []


@pytest.mark.parametrize(("told", "shown"), [("v9", "v9"), ("", "3.0.0")])
async def test_result_shows_the_version_of_the_executable_or_else_of_the_report(
    stock: FakeTool, tmp_path: Path, told: str, shown: str
) -> None:
    stock.version = told
    assert (await stock.scorer().score(plain_request(tmp_path))).scorer == shown


async def test_children_get_a_small_environment_with_the_id_of_their_run(stock: FakeTool) -> None:
    environment = {"PATH": "/bin", "VMAFX_CONTROLLER_TOKEN": "s3cret", "HOME": "/root", "LANG": "de_DE.UTF-8"}
    await stock.scorer(environment=environment).self_test()
    ids = [command.run_id for command in stock.processes.commands]
    assert len(set(ids)) == len(ids)
    for command in stock.processes.commands:
        assert command.environment == {"PATH": "/bin", "LC_ALL": "C", "VMAFX_JOB_ID": command.run_id}


async def test_embedded_engine_is_run_with_its_own_arguments_first(stock: FakeTool) -> None:
    engine = Engine(argv=(str(stock.path), "-I", "/engine.py"), files=(str(stock.path),))
    clock = SystemClock()
    processes = FakeProcesses(clock, lambda _: FakeProgram(status=1))
    scorer = CliScorer(
        ScorerOptions(), processes=processes, clock=clock, new_run_id=lambda: "r", find_engine=lambda: engine
    )
    await unavailable(scorer)
    assert all(command.argv[:3] == engine.argv for command in processes.commands)
    assert "-r" in processes.commands[2].argv


def engine_scorer(path: Path, processes: FakeProcesses, **options: Any) -> CliScorer:
    engine = Engine(argv=(str(path), "-I", "/engine.py"), files=(str(path),))
    return CliScorer(
        ScorerOptions(**options),
        processes=processes,
        clock=SystemClock(),
        new_run_id=lambda: "r",
        find_engine=lambda: engine,
    )


@pytest.mark.parametrize("backend", [backend for backend in Backend if backend is not Backend.CPU])
@pytest.mark.parametrize("unverified", [False, True])
async def test_engine_on_another_backend_is_refused_in_one_line_and_never_run(
    stock: FakeTool, backend: Backend, *, unverified: bool
) -> None:
    scorer = engine_scorer(stock.path, stock.processes, backend=backend, backend_unverified=unverified)
    error = await unavailable(scorer)
    assert str(error) == (f"VMAFX_BACKEND: the embedded engine runs cpu only; {backend.value} was asked for")
    assert stock.processes.commands == []


async def test_engine_that_a_setting_names_is_known_by_its_version(fork: FakeTool) -> None:
    fork.version = "vmafx-vmaf 0.1.0 (libvmaf of ffmpeg)"
    error = await unavailable(fork.scorer(backend=Backend.CUDA))
    assert str(error) == "VMAFX_BACKEND: the embedded engine runs cpu only; cuda was asked for"
    assert fork.runs == []


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"size": (35, 27)}, "odd size 35x27"),
        ({"size": (16, 16)}, "size 16x16 is too small"),
        ({"sub": "mono"}, "pixel format mono"),
        ({"sub": "411"}, "pixel format 4:1:1"),
        ({"depth": 16}, "16 bit"),
        ({"extra": "XCOMMENT=" + "x" * 100}, "Y4M header of "),
    ],
)
async def test_clips_that_the_engine_cannot_take_start_no_process_of_it_alone(
    fork: FakeTool, tmp_path: Path, parts: dict[str, Any], words: str
) -> None:
    pair = (clips.y4m(distorted=False, frames=6, **parts), clips.y4m(distorted=True, frames=6, **parts))
    request = pair_request(tmp_path, *pair)
    stock = fork.scorer()
    assert (await stock.score(request)).frames == 6
    scorer = engine_scorer(fork.path, fork.processes, search_path="")
    await scorer.self_test()
    started = len(fork.runs)
    with pytest.raises(ClipError) as caught:
        await scorer.score(request)
    assert caught.value.source == "ref.y4m"
    assert str(caught.value).startswith(f'"ref.y4m": {words}')
    assert str(tmp_path) not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(fork.runs) == started
