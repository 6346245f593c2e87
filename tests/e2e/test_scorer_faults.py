"""Executables that misbehave: every way has a stated end, and leaves nothing behind (ADR 0005, ADR 0010)."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import clips, reports
from tests.cli_scorer import (
    cli_scorer,
    descriptors,
    endless_request,
    pair_request,
    plain,
    plain_request,
    processes_of_runs,
)
from tests.fake_vmaf import FakeVmaf
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.vmaf_cli.report import REPORT_BYTES_MAX
from vmafx.adapters.vmaf_cli.scorer import SCORED_SHORTEST, CliScorer
from vmafx.domain.errors import (
    ClipError,
    ModelError,
    NotFiniteError,
    ReportError,
    ScorerError,
    ScoreTimeoutError,
    VmafxError,
)
from vmafx.domain.scoring import ClipDescriptor, LengthMismatch, ScoreRequest, ScoreResult

GUARD_S = 60.0
TEMPORARY = ("tmp",)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> FakeVmaf:
    """One executable for all tests, so that its self-test can be remembered."""
    return FakeVmaf(tmp_path_factory.mktemp("fake"))


@pytest.fixture
def fake(installed: FakeVmaf) -> FakeVmaf:
    installed.forget()
    tell_report(installed, "good")
    return installed


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """After a test no process, temporary file or descriptor of a run is there."""
    temporary = tmp_path.joinpath(*TEMPORARY)
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    before = descriptors()
    yield
    assert processes_of_runs() == []
    assert list(temporary.iterdir()) == []
    assert descriptors().keys() <= before.keys()
    for thread in threading.enumerate():
        if thread.name.startswith("vmafx"):
            thread.join(GUARD_S)  # it ends after it has told its result
            assert not thread.is_alive(), thread.name


def tell_report(fake: FakeVmaf, name: str) -> None:
    path = fake.path.with_name("report.json")
    path.write_bytes(reports.made(name))
    fake.tell(report=str(path))


async def proven(fake: FakeVmaf, **options: Any) -> CliScorer:
    """A scorer whose self-test is done, so that the fake can misbehave from now on."""
    cache_dir = str(fake.path.with_name("cache"))
    scorer = cli_scorer(vmaf_binary=str(fake.path), cache_dir=cache_dir, **options)
    await scorer.self_test()
    return scorer


async def scored(scorer: CliScorer, request: ScoreRequest) -> ScoreResult:
    async with SystemClock().timeout(GUARD_S):
        return await scorer.score(request)


async def failure(scorer: CliScorer, request: ScoreRequest) -> VmafxError:
    """The error of a request; a plain one after it is scored as ever."""
    before = descriptors()
    with pytest.raises(VmafxError) as caught:
        await scored(scorer, request)
    assert descriptors() == before
    assert processes_of_runs() == []
    return caught.value


@pytest.mark.parametrize("name", ["good", "fps_null", "fps_infinity", "with_bom"])
async def test_good_report_is_believed(fake: FakeVmaf, tmp_path: Path, name: str) -> None:
    scorer = await proven(fake)
    tell_report(fake, name)
    result = await scored(scorer, plain_request(tmp_path))
    assert result.score == pytest.approx(reports.SCORE)


@pytest.mark.parametrize(
    "name",
    [
        *("nan_token", "infinity_token", "minus_infinity", "null_score", "huge_exponent", "huge_integer"),
        *("string_score", "string_mean", "true_score", "true_mean", "empty_pooled"),
    ],
)
async def test_score_that_is_no_finite_number_fails_and_is_named(
    fake: FakeVmaf, tmp_path: Path, name: str
) -> None:
    scorer = await proven(fake)
    tell_report(fake, name)
    error = await failure(scorer, plain_request(tmp_path))
    assert isinstance(error, NotFiniteError)
    assert error.name.startswith("vmaf")


@pytest.mark.parametrize(
    "name",
    [
        *("fps_c_inf", "nan_c_style", "missing_pooled", "pooled_differs", "no_frames", "five_of_six_frames"),
        *(
            "seven_of_six_frames",
            "duplicate_keys",
            "leading_comma",
            "cut_short",
            "rubbish_after",
            "list_at_top",
        ),
        *("empty", "nested"),
    ],
)
async def test_damaged_report_fails(fake: FakeVmaf, tmp_path: Path, name: str) -> None:
    scorer = await proven(fake)
    tell_report(fake, name)
    error = await failure(scorer, plain_request(tmp_path))
    assert isinstance(error, ReportError)
    assert str(error).startswith("libvmaf: ")
    assert not error.machine_fault


async def test_success_without_a_report_fails_with_the_last_words(fake: FakeVmaf, tmp_path: Path) -> None:
    scorer = await proven(fake)
    fake.tell(mode="no_report")
    error = await failure(scorer, plain_request(tmp_path))
    assert isinstance(error, ReportError)
    assert "the scorer wrote no report" in str(error)
    assert "could not open file: the report" in str(error)


async def test_refused_pair_fails_with_status_words_and_names(fake: FakeVmaf, tmp_path: Path) -> None:
    scorer = await proven(fake)
    fake.tell(mode="fails")
    error = await failure(scorer, plain_request(tmp_path))
    assert isinstance(error, ScorerError)
    assert error.exit_status == 255
    assert not error.machine_fault
    assert str(error).startswith(
        "libvmaf: vmaf binary failed: exit status 255\nstderr: dimensions do not match"
    )
    assert '"ref.y4m"' in str(error)
    assert '"dis.y4m"' in str(error)


async def test_report_is_never_read_after_a_failure(fake: FakeVmaf, tmp_path: Path) -> None:
    scorer = await proven(fake)
    fake.tell(mode="fails_after_report")
    error = await failure(scorer, plain_request(tmp_path))
    assert "exit status 1" in str(error)
    assert "problem after the report" in str(error)


@pytest.mark.parametrize(
    ("number", "machine"),
    [
        (signal.SIGKILL, True),
        (signal.SIGTERM, True),
        (signal.SIGHUP, True),
        (signal.SIGILL, True),
        (signal.SIGSEGV, False),
        (signal.SIGABRT, False),
        (signal.SIGBUS, False),
        (signal.SIGFPE, False),
    ],
)
async def test_death_by_signal_with_half_a_report_names_the_signal_and_whose_fault_it_is(
    fake: FakeVmaf, tmp_path: Path, number: signal.Signals, *, machine: bool
) -> None:
    scorer = await proven(fake)
    fake.tell(mode="dies", signal=int(number))
    error = await failure(scorer, plain_request(tmp_path))
    assert isinstance(error, ScorerError)
    assert number.name in str(error)
    assert (error.exit_status, error.machine_fault) == (-number, machine)


async def test_want_of_space_that_the_run_tells_of_is_the_machines_fault(
    fake: FakeVmaf, tmp_path: Path
) -> None:
    scorer = await proven(fake)
    fake.tell(mode="says", words="avformat: No space left on device\n")
    error = await failure(scorer, plain_request(tmp_path))
    assert isinstance(error, ScorerError)
    assert error.machine_fault


async def test_flood_of_words_without_a_line_end_changes_nothing(fake: FakeVmaf, tmp_path: Path) -> None:
    scorer = await proven(fake)
    fake.tell(mode="floods")
    assert (await scored(scorer, plain_request(tmp_path))).score == pytest.approx(reports.SCORE)


async def test_flood_of_words_is_bounded_in_an_error(fake: FakeVmaf, tmp_path: Path) -> None:
    scorer = await proven(fake)
    fake.tell(mode="says", words="x" * 100_000 + "\nthe last words")
    error = await failure(scorer, plain_request(tmp_path))
    assert len(str(error).encode()) < 4096
    assert "the last words" in str(error)


async def test_words_show_clips_as_their_owner_wrote_them(fake: FakeVmaf, tmp_path: Path) -> None:
    scorer = await proven(fake)
    request = plain_request(tmp_path)
    words = f'"{request.reference.path}": bad\n{request.distorted.path}: worse\n'
    fake.tell(mode="says", words=words)
    error = await failure(scorer, request)
    assert isinstance(error, ScorerError)
    assert '"ref.y4m": bad\ndis.y4m: worse' in str(error)
    assert str(tmp_path) not in str(error) + error.stderr


async def test_bytes_that_are_no_text_change_nothing(fake: FakeVmaf, tmp_path: Path) -> None:
    scorer = await proven(fake)
    fake.tell(mode="bad_bytes")
    assert (await scored(scorer, plain_request(tmp_path))).score == pytest.approx(reports.SCORE)


async def test_bytes_that_are_no_text_are_shown_with_replacements(fake: FakeVmaf, tmp_path: Path) -> None:
    scorer = await proven(fake)
    fake.tell(mode="says", words="latin1-\udce9t\udce9\x1b[2J\n")
    error = await failure(scorer, plain_request(tmp_path))
    assert "latin1-\ufffdt\ufffd\\x1b[2J" in str(error)


@pytest.mark.parametrize("new_session", [False, True])
async def test_process_left_behind_is_gone_when_the_score_is_there(
    fake: FakeVmaf, tmp_path: Path, *, new_session: bool
) -> None:
    scorer = await proven(fake)
    fake.tell(mode="grandchild", new_session=new_session)
    assert (await scored(scorer, plain_request(tmp_path))).score == pytest.approx(reports.SCORE)
    pid = int(fake.log.with_suffix(".grandchild").read_text(encoding="utf-8"))
    assert not is_running(pid)


@pytest.mark.parametrize("mode", ["stays", "ignores_term", "stuck_after"])
async def test_run_that_never_ends_is_killed_at_its_limit(fake: FakeVmaf, tmp_path: Path, mode: str) -> None:
    scorer = await proven(fake)
    fake.tell(mode=mode)
    error = await failure(scorer, plain_request(tmp_path, timeout_s=0.5))
    assert isinstance(error, ScoreTimeoutError)
    assert str(error).startswith('500ms exceeded: reference "ref.y4m", distorted "dis.y4m": ')
    assert "libvmaf: vmaf subprocess cancelled: " in str(error)
    if mode == "stuck_after":
        assert "Error reading YUV frame data." in str(error)


async def test_limit_of_the_options_holds_where_the_request_says_nothing(
    fake: FakeVmaf, tmp_path: Path
) -> None:
    scorer = await proven(fake, score_timeout_s=0.5)
    fake.tell(mode="stays")
    error = await failure(scorer, plain_request(tmp_path))
    assert isinstance(error, ScoreTimeoutError)
    assert str(error).startswith("500ms (VMAFX_SCORE_TIMEOUT) exceeded: ")


@pytest.mark.parametrize("mode", ["stays", "ignores_term", "stuck_after"])
async def test_cancelled_run_is_gone_when_the_call_is(fake: FakeVmaf, tmp_path: Path, mode: str) -> None:
    scorer = await proven(fake)
    fake.tell(mode=mode)
    request = plain_request(tmp_path)
    run = asyncio.create_task(scorer.score(request))
    async with SystemClock().timeout(GUARD_S):
        while not fake.log.with_suffix(".ready").exists():
            await asyncio.sleep(0.005)
    pid = int(str(fake.runs()[-1]["pid"]))
    assert is_running(pid)
    run.cancel()
    async with SystemClock().timeout(GUARD_S):
        with pytest.raises(asyncio.CancelledError):
            await run
    assert not is_running(pid)
    fake.tell(mode="ok")
    assert (await scored(scorer, request)).score == pytest.approx(reports.SCORE)


async def test_cancelled_count_starts_no_process(fake: FakeVmaf, tmp_path: Path) -> None:
    scorer = await proven(fake)
    started = len(fake.runs())
    run = asyncio.create_task(scorer.score(endless_request(tmp_path)))
    await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert len(fake.runs()) == started


@pytest.mark.parametrize("change", ["grown", "truncated", "replaced", "touched", "removed"])
@pytest.mark.parametrize("which", ["ref.y4m", "dis.y4m"])
async def test_clip_that_changes_during_the_run_fails_it_and_is_named(
    fake: FakeVmaf, tmp_path: Path, change: str, which: str
) -> None:
    scorer = await proven(fake)
    fake.tell(mode="changes", clip=str(tmp_path / which), change=change)
    error = await failure(scorer, plain_request(tmp_path))
    assert isinstance(error, ClipError)
    assert error.source == which
    assert "changed while it was being scored" in str(error)


@pytest.mark.parametrize("rule", list(LengthMismatch))
async def test_clips_of_different_lengths_are_refused_or_scored_as_far_as_both_go(
    fake: FakeVmaf, tmp_path: Path, caplog: pytest.LogCaptureFixture, rule: LengthMismatch
) -> None:
    scorer = await proven(fake, length_mismatch=rule)
    started = len(fake.runs())
    request = pair_request(tmp_path, plain(distorted=False), clips.y4m(distorted=True, frames=8))
    if rule is LengthMismatch.FAIL:
        error = await failure(scorer, request)
        assert isinstance(error, ClipError)
        assert "has 6" in str(error)
        assert "has 8" in str(error)
        assert len(fake.runs()) == started
        return
    assert (await scored(scorer, request)).frames == 6
    (record,) = [r for r in caplog.records if r.message == SCORED_SHORTEST]
    assert record.levelno == logging.WARNING
    told = vars(record)
    assert (told["ref_frames"], told["dis_frames"], told["frames"]) == (6, 8, 6)


async def test_descriptor_clips_are_passed_on_and_shown_by_their_real_paths(
    fake: FakeVmaf, tmp_path: Path
) -> None:
    scorer = await proven(fake)
    request = plain_request(tmp_path)
    opened = [os.open(clip.path, os.O_RDONLY) for clip in (request.reference, request.distorted)]
    clip, other = (
        ClipDescriptor(descriptor=descriptor, name=name, path=f"/real/{name}")
        for descriptor, name in zip(opened, ("ref.y4m", "dis.y4m"), strict=True)
    )
    by_descriptor = ScoreRequest(reference=clip, distorted=other)
    try:
        assert (await scored(scorer, by_descriptor)).frames == 6
        arguments = fake.runs()[-1]["arguments"]
        assert isinstance(arguments, list)
        assert arguments[1:4:2] == ["/dev/fd/3", "/dev/fd/4"]
        fake.tell(mode="says", words="cannot read /dev/fd/3 or /dev/fd/4")
        error = await failure(scorer, by_descriptor)
        assert "cannot read /real/ref.y4m or /real/dis.y4m" in str(error)
        assert [os.lseek(descriptor, 0, os.SEEK_CUR) for descriptor in opened] == [0, 0]
    finally:
        for descriptor in opened:
            os.close(descriptor)


async def test_child_gets_no_secret_and_no_descriptor_of_ours(fake: FakeVmaf, tmp_path: Path) -> None:
    scorer = await proven(fake, environment={"PATH": "/usr/bin:/bin", "VMAFX_CONTROLLER_TOKEN": "s3cret"})
    await scored(scorer, dataclasses.replace(plain_request(tmp_path), job_id="job-7"))
    environment = fake.runs()[-1]["environment"]
    assert isinstance(environment, dict)
    assert environment["VMAFX_JOB_ID"] == "job-7" != environment["VMAFX_RUN_ID"]
    assert environment.keys() <= {"PATH", "LC_ALL", "LC_CTYPE", "VMAFX_JOB_ID", "VMAFX_RUN_ID"}


async def test_progress_of_the_executable_is_heard(fake: FakeVmaf, tmp_path: Path) -> None:
    fake.tell(options=["progress-fd"])
    scorer = await proven(fake, score_threads=2)
    heard: list[tuple[int, int]] = []
    await scorer.score(plain_request(tmp_path), progress=lambda done, total: heard.append((done, total)))
    assert heard == [(2, 6), (4, 6), (6, 6)]


async def test_progress_of_a_run_that_failed_ends_where_it_was(fake: FakeVmaf, tmp_path: Path) -> None:
    fake.tell(options=["progress-fd"])
    scorer = await proven(fake, score_threads=2)
    fake.tell(mode="fails")
    heard: list[int] = []
    with pytest.raises(ScorerError):
        await scorer.score(plain_request(tmp_path), progress=lambda done, _: heard.append(done))
    assert heard == [2, 4]


async def test_report_of_100_mb_is_read_in_little_memory(fake: FakeVmaf, tmp_path: Path) -> None:
    scorer = await proven(fake)
    fake.tell(mode="huge")
    tracemalloc.start()
    try:
        result = await scored(scorer, plain_request(tmp_path))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.score == pytest.approx(reports.SCORE)
    assert peak_bytes < 64 * 1024 * 1024


async def test_report_above_the_limit_is_refused(fake: FakeVmaf, tmp_path: Path) -> None:
    scorer = await proven(fake)
    fake.tell(mode="too_large", bytes=REPORT_BYTES_MAX + 1)
    error = await failure(scorer, plain_request(tmp_path))
    assert isinstance(error, ReportError)
    assert f"larger than {REPORT_BYTES_MAX} bytes" in str(error)


async def test_report_that_would_grow_further_is_cut_off(fake: FakeVmaf, tmp_path: Path) -> None:
    scorer = await proven(fake)
    fake.tell(mode="too_large", bytes=REPORT_BYTES_MAX + (1 << 20))
    error = await failure(scorer, plain_request(tmp_path))
    assert isinstance(error, ReportError)
    assert error.exit_status == -signal.SIGXFSZ
    assert "larger than a report may be" in str(error)


@pytest.mark.parametrize("kind", ["missing", "read-only", "full"])
async def test_temporary_directory_plays_no_part(
    fake: FakeVmaf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = tmp_path / "other"
    if kind != "missing":
        folder.mkdir()
        options = "ro,size=4k" if kind == "read-only" else "size=4k"
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=False)
        if mounted.returncode != 0:
            pytest.skip("this user may not mount")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    try:
        if kind == "full":
            (folder / "fill").write_bytes(b"x" * 4096)
        scorer = await proven(fake)
        assert (await scored(scorer, plain_request(tmp_path))).score == pytest.approx(reports.SCORE)
    finally:
        if kind != "missing":
            subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a/b", "is no model name"),
        ("list", "does not hold a JSON object"),
        ("out", "outside VMAFX_MODEL_DIR"),
    ],
)
async def test_model_that_cannot_be_used_fails_the_job_by_name(
    fake: FakeVmaf, tmp_path: Path, name: str, words: str
) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (models / "list.json").write_text("[]", encoding="utf-8")
    (tmp_path / "outside.json").write_text("{}", encoding="utf-8")
    (models / "out.json").symlink_to("../outside.json")
    scorer = await proven(fake, model_dir=str(models))
    error = await failure(scorer, plain_request(tmp_path, model=name))
    assert isinstance(error, ModelError)
    assert error.model == name
    assert words in str(error)


async def test_model_under_an_awkward_path_is_read_through_its_descriptor(
    fake: FakeVmaf, tmp_path: Path
) -> None:
    models = tmp_path / "a:b=c\\d|e'f,g"
    models.mkdir()
    (models / "m.json").write_text("{}", encoding="utf-8")
    scorer = await proven(fake, model_dir=str(models))
    assert (await scored(scorer, plain_request(tmp_path, model="m"))).model == "m"
    arguments = fake.runs()[-1]["arguments"]
    assert isinstance(arguments, list)
    assert "path=/dev/fd/6" in arguments


async def test_want_of_descriptors_is_the_machines_fault_and_passes(fake: FakeVmaf, tmp_path: Path) -> None:
    scorer = await proven(fake)
    request = plain_request(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    errors: list[VmafxError] = []
    for room in range(40):
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + room, hard))
        try:
            await scored(scorer, request)
            break
        except VmafxError as error:
            errors.append(error)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert 1 <= len(errors) < 40
    for error in errors:
        assert isinstance(error, ScorerError), error
        assert error.machine_fault, error


async def test_executable_that_is_gone_is_the_machines_fault(fake: FakeVmaf, tmp_path: Path) -> None:
    gone = FakeVmaf(tmp_path)
    gone.tell(report=str(fake.path.with_name("report.json")))
    scorer = await proven(gone)
    gone.path.unlink()
    error = await failure(scorer, plain_request(tmp_path))
    assert isinstance(error, ScorerError)
    assert error.machine_fault
    assert str(error).startswith("libvmaf: start vmaf binary: ")
    assert str(gone.path) in str(error)


async def test_executable_that_prints_its_usage_and_stays_is_no_scorer(
    fake: FakeVmaf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vmafx.adapters.vmaf_cli.selftest.SELF_TEST_TIMEOUT_S", 0.5)
    fake.tell(mode="mute")
    os.utime(fake.path)
    with pytest.raises(ScorerError, match=r"VMAFX_VMAF_BINARY: 500ms exceeded: .* its usage text: "):
        await proven(fake)


def test_death_of_this_process_leaves_no_report(fake: FakeVmaf, tmp_path: Path) -> None:
    """The report has no name that a `kill -9` could leave behind."""
    fake.tell(mode="stuck_after")
    plain_request(tmp_path)
    program = (
        "import asyncio, sys\nsys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\nfrom tests.cli_scorer import cli_scorer, plain_request\n"
        "asyncio.run(cli_scorer(vmaf_binary=sys.argv[2]).score(plain_request(Path(sys.argv[3]))))"
    )
    root = str(Path(__file__).parents[2])
    ready = fake.log.with_suffix(".ready")
    with subprocess.Popen([sys.executable, "-c", program, root, str(fake.path), str(tmp_path)]) as child:
        while not ready.exists() and child.poll() is None:
            os.sched_yield()
        assert child.poll() is None
        child.kill()
    pid = int(str(fake.runs()[-1]["pid"]))
    while is_running(pid):
        os.sched_yield()


def is_running(pid: int) -> bool:
    """Whether there is such a process; one that only waits to be reaped by its parent is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
