"""The log of a program: events and records of libraries in one form, ids on every line (ADR 0020)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.telemetry.foreign import LINES_MAX, WINDOW_S, ForeignLines
from vmafx.adapters.telemetry.program import LINES_DROPPED, LineTelemetry, LogForm, form_for, open_log
from vmafx.app.node.events import whole_result
from vmafx.domain.job import JobResult
from vmafx.ports.telemetry import Level


class Log:
    """A log into a file, and what is in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def open(self, **options: object) -> Iterator[LineTelemetry]:
        with (
            self.path.open("ab") as file,
            open_log(file.fileno(), **{"clock": VirtualClock(), **options}) as telemetry,
        ):
            yield telemetry

    @property
    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]

    @property
    def messages(self) -> list[str]:
        return [line["msg"] for line in self.lines]


@pytest.fixture
def log(tmp_path) -> Log:
    return Log(tmp_path / "log")


def test_an_event_is_a_line_with_its_fields_and_where_it_runs(log):
    with log.open(static_fields={"pod_name": "p-1", "level": "basement"}) as telemetry:
        telemetry.event(Level.WARN, "PullWork failed", {"slot": 2, "retry_in": 0.5}, error=OSError("reset"))
    assert log.lines == [
        {
            "time": VirtualClock().now().isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "level": "WARN",
            "msg": "PullWork failed",
            "slot": 2,
            "retry_in": 0.5,
            "error": "OSError: reset",
            "pod_name": "p-1",
            "level_": "basement",
        }
    ]


@pytest.mark.parametrize("form", [LogForm.JSON, LogForm.TINT])
def test_a_whole_result_of_64_features_reads_back_to_the_last_bit(log, form):
    names = [f"integer_vif_scale3_egl_1_of_a_model_of_some_name_{number:03}" for number in range(64)]
    features = {name: 100 / (number + 3) for number, name in enumerate(names)}
    fields = {"job_id": "j" * 256, **whole_result(JobResult(score=200 / 3, features=features), 1)}
    with log.open(form=form) as telemetry:
        telemetry.event(Level.ERROR, "result not delivered", fields, error=OSError("e" * 4096))
    if form is LogForm.TINT:
        text = log.path.read_text(encoding="utf-8").replace('\\"', '"')
        assert str(fields["features"]) in text
        return
    (line,) = log.lines
    assert (line["score"], json.loads(line["features"])) == (200 / 3, features)


@pytest.mark.parametrize("level", Level)
def test_events_below_the_level_are_not_written(log, level):
    with log.open(level=level) as telemetry:
        for one in Level:
            telemetry.event(one, one.value)
            logging.getLogger("vmafx.scorer").log(getattr(logging, one.name), "scorer %s", one.value)
    expected = list(Level)[list(Level).index(level) :]
    assert log.messages == [text for one in expected for text in (one.value, f"scorer {one.value}")]


def test_a_traceback_is_shown_at_debug_only(log):
    def fail(level: Level) -> None:
        with log.open(level=level) as telemetry:
            try:
                int("a\nb")
            except ValueError as error:
                telemetry.event(Level.ERROR, "m", error=error)
                logging.getLogger("asyncio").exception("n")

    fail(Level.INFO)
    assert all(
        line["error"] == "ValueError: invalid literal for int() with base 10: 'a\\nb'"
        and "traceback" not in line
        for line in log.lines
    )
    fail(Level.DEBUG)
    assert all("in fail" in line["traceback"] for line in log.lines[2:])
    assert len(log.lines) == 4


def test_records_of_the_library_are_lines_with_their_extra_fields(log):
    with log.open():
        logging.getLogger("vmafx.scorer").info(
            "scorer initialised", extra={"vmaf_binary": "/usr/bin/vmaf", "pids": (1, 2)}
        )
    (line,) = log.lines
    del line["time"]
    assert line == {
        "level": "INFO",
        "msg": "scorer initialised",
        "vmaf_binary": "/usr/bin/vmaf",
        "pids": "(1, 2)",
    }


def test_other_libraries_are_heard_from_warnings_on_and_named(log):
    with log.open(level=Level.DEBUG):
        chatty = logging.getLogger("httpx.chatty")
        chatty.setLevel(logging.DEBUG)
        chatty.debug("GET /?token=secret")
        chatty.info("GET /?token=secret")
        chatty.warning("slow %d", 7)
        logging.getLogger("vmafxtra").critical("not ours")
        chatty.setLevel(logging.NOTSET)
    assert [(line["logger"], line["msg"], line["level"]) for line in log.lines] == [
        ("httpx.chatty", "slow 7", "WARN"),
        ("vmafxtra", "not ours", "ERROR"),
    ]


def test_a_record_whose_arguments_do_not_fit_is_still_a_line(log, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # those of pytest raise
    with log.open():
        logging.getLogger("asyncio").error("%d of %d", "one")  # noqa: PLE1206 - on purpose
        logging.getLogger("asyncio").error({"not": "a text"})
    assert log.messages == ["%d of %d", "{'not': 'a text'}"]


def test_python_s_warnings_are_lines(log):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with log.open():
            warnings.warn("grows\nold", DeprecationWarning, stacklevel=1)
    (line,) = log.lines
    assert (line["msg"], line["logger"], line["category"]) == (
        "grows\nold",
        "py.warnings",
        "DeprecationWarning",
    )
    assert line["at"].startswith(__file__)


def test_a_library_that_logs_without_end_gets_some_lines_a_minute_and_the_rest_are_counted(log):
    clock = VirtualClock()
    with log.open(clock=clock):
        for _ in range(1000):
            logging.getLogger("asyncio").error("socket.accept() out of system resource")
        logging.getLogger("grpc").error("another")
        clock.move_to(clock.monotonic() + WINDOW_S)
        logging.getLogger("asyncio").error("once more")
    told = [line.get("left_out") for line in log.lines if line["logger"] == "asyncio"]
    assert told == [None] * LINES_MAX + [1000 - LINES_MAX]
    assert [line["msg"] for line in log.lines if line["logger"] == "grpc"] == ["another"]


def test_warnings_of_python_without_end_are_left_out_as_well(log):
    with log.open(), warnings.catch_warnings():
        warnings.simplefilter("always")
        for _ in range(2 * LINES_MAX):
            warnings.warn("again", UserWarning, stacklevel=1)
    assert len(log.lines) == LINES_MAX


def test_our_own_lines_are_all_written(log):
    with log.open() as telemetry:
        for _ in range(5 * LINES_MAX):
            telemetry.event(Level.WARN, "ours")
            logging.getLogger("vmafx.scorer").warning("ours")
    assert len(log.lines) == 10 * LINES_MAX


def test_the_loggers_that_are_remembered_are_bounded():
    foreign = ForeignLines(VirtualClock())
    assert [foreign.left_out(f"logger-{number}") for number in range(3000)] == [0] * 3000
    assert len(foreign._windows) <= 1000


def test_everything_about_logging_is_afterwards_as_it_was(log):
    def state() -> tuple:
        loggers = [logging.getLogger(name) for name in (None, "vmafx")]
        held = [(one.level, one.propagate, one.disabled, list(one.handlers)) for one in loggers]
        return held, warnings.showwarning

    before = state()
    with log.open(level=Level.DEBUG):
        assert state() != before
    assert state() == before


def test_lines_of_a_task_carry_the_ids_of_its_span(log):
    async def job(telemetry: LineTelemetry, job_id: str, turn: asyncio.Barrier) -> None:
        with telemetry.span("vmafx.scoring", {"job_id": job_id, "model": "m", "node_id": None}):
            await turn.wait()
            logging.getLogger("vmafx.scorer").warning("in %s", job_id)
            await asyncio.to_thread(logging.getLogger("grpc").error, "in %s", job_id)
            telemetry.event(Level.INFO, f"in {job_id}")
            await turn.wait()
        telemetry.event(Level.INFO, "outside")

    async def main(telemetry: LineTelemetry) -> None:
        turn = asyncio.Barrier(2)
        async with asyncio.TaskGroup() as group:
            for job_id in ("a", "b"):
                group.create_task(job(telemetry, job_id, turn))

    with log.open() as telemetry:
        asyncio.run(main(telemetry))
    inside = [line for line in log.lines if line["msg"] != "outside"]
    assert len(inside) == 6
    assert all(line["msg"] == f"in {line['job_id']}" for line in inside)
    assert all("model" not in line and "node_id" not in line for line in inside)
    assert all("job_id" not in line for line in log.lines if line["msg"] == "outside")


def test_an_event_s_own_id_counts_before_that_of_the_span(log):
    with log.open() as telemetry, telemetry.span("outer", {"job_id": "a", "node_id": "n"}):
        telemetry.event(Level.INFO, "m", {"job_id": "b"})
        with telemetry.span("inner", {"job_id": "c"}):
            telemetry.event(Level.INFO, "m")
    assert [(line["job_id"], line["node_id"]) for line in log.lines] == [("b", "n"), ("c", "n")]


def test_a_value_that_logs_while_it_is_shown_does_no_harm(log):
    class Chatty:
        def __str__(self) -> str:
            logging.getLogger("vmafx").warning("shown")
            return "chatty"

    with log.open() as telemetry:
        telemetry.event(Level.INFO, "m", {"x": Chatty()})
        logging.getLogger("vmafx").warning("n", extra={"x": Chatty()})
    assert log.messages == ["shown", "m", "shown", "n"]


@pytest.mark.parametrize("form", [LogForm.TINT, LogForm.PLAIN])
def test_the_form_for_people_has_colours_only_when_asked(log, form):
    with log.open(form=form) as telemetry:
        telemetry.event(Level.ERROR, "m", {"a": 1})
    assert ("\x1b[31m" in log.path.read_text()) is (form is LogForm.TINT)


@pytest.mark.parametrize(
    ("environment", "form"),
    [
        ({}, LogForm.TINT),
        ({"NO_COLOR": "1", "TERM": "xterm"}, LogForm.PLAIN),
        ({"NO_COLOR": "", "TERM": "xterm"}, LogForm.TINT),
        ({"TERM": "dumb"}, LogForm.PLAIN),
    ],
)
def test_people_at_a_terminal_get_the_form_for_people(environment, form):
    leader, terminal = os.openpty()
    try:
        assert form_for(terminal, environment) is form
    finally:
        os.close(leader)
        os.close(terminal)


@pytest.mark.parametrize("descriptor", [None, -1, 987_654])
def test_without_a_terminal_the_form_is_json(descriptor, tmp_path):
    assert form_for(descriptor, {}) is LogForm.JSON
    with (tmp_path / "log").open("wb") as file:
        assert form_for(file.fileno(), {}) is LogForm.JSON


def test_what_was_dropped_is_counted_and_told_as_soon_as_there_is_room():
    reader, end = os.pipe()
    try:
        with open_log(end, clock=VirtualClock()) as telemetry:
            size = filled(end)
            for _ in range(3):
                telemetry.event(Level.INFO, "lost")
            os.set_blocking(reader, False)
            while size:
                size -= len(os.read(reader, size))
            telemetry.event(Level.INFO, "back")
        first, second = [json.loads(line) for line in os.read(reader, 4096).splitlines()]
    finally:
        os.close(reader)
        os.close(end)
    assert (first["msg"], first["level"], first["lines"]) == (LINES_DROPPED, "WARN", 3)
    assert second["msg"] == "back"


def test_a_clock_that_fails_costs_the_line_alone(log, tmp_path):
    class Broken(VirtualClock):
        def now(self):
            raise RuntimeError("no time")

    with log.path.open("ab") as file, open_log(file.fileno(), clock=Broken()) as telemetry:
        telemetry.event(Level.INFO, "lost")
    assert log.lines == []


def test_threads_write_whole_lines(log):
    with log.open() as telemetry:

        def work(write: Callable[[str], object], name: str) -> None:
            for number in range(50):
                write(f"{name} {number}")

        logger = logging.getLogger("vmafx.scorer")
        writes = [logger.warning, lambda text: telemetry.event(Level.INFO, text)] * 3
        threads = [threading.Thread(target=work, args=(w, str(n))) for n, w in enumerate(writes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(log.messages) == sorted(f"{n} {number}" for n in range(6) for number in range(50))


def filled(descriptor: int) -> int:
    os.set_blocking(descriptor, False)
    size = 0
    try:
        while True:
            size += os.write(descriptor, b"\n" * 4096)
    except BlockingIOError:
        os.set_blocking(descriptor, True)
    return size
