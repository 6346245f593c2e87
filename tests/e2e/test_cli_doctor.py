"""`vmafx doctor`: what is found, what is missing, and what to do about it."""

from __future__ import annotations

import json
import signal

import pytest

from vmafx.adapters.vmaf_cli.scorer import CliScorer
from vmafx.app.container import scorer_checks as probes


def checks(done):
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}


@pytest.mark.usefixtures("engine")
def test_a_machine_with_the_engine_can_score(program):
    done = program.run("doctor", "--json")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    answer = json.loads(done.stdout)
    assert list(answer) == ["vmafx", "can_score", "checks"]
    assert answer["can_score"] is True
    found = checks(done)
    assert list(found) == ["scorer", "backends", "platform", "models", "threads", "setpriv", "rclone", "fuse"]
    for check in answer["checks"]:
        assert {key: type(value) for key, value in check.items()} == {
            "name": str,
            "ok": bool,
            "needed": bool,
            "found": str,
            "advice": type(check["advice"]),
            "command": type(check["command"]),
        }
        assert check["ok"] or check["advice"]
    assert found["scorer"]["found"].startswith("embedded engine (vmafx-vmaf ")
    assert "vmaf_v0.6.1" in found["scorer"]["found"]
    command = found["scorer"]["command"]
    assert command[0].startswith("/")
    assert not [word for word in command if word in found["scorer"]["found"]]
    assert found["backends"]["found"] == "cpu; not here: cuda, hip, sycl, metal"
    assert program.leftovers() == []


@pytest.mark.usefixtures("engine")
def test_looking_changes_nothing_at_home(program):
    before = sorted(program.folder.rglob("*"))
    rclone = checks(program.run("doctor", "--json"))["rclone"]
    if not rclone["ok"]:
        pytest.skip(f"no rclone, which would leave a folder: {rclone['found']}")
    assert sorted(program.folder.rglob("*")) == before


def test_the_table_tells_the_same_to_people(program, fake):
    done = program.run("doctor")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[0] == "vmafx"
    assert lines[-1].split() == ["can", "score", "yes"]
    assert any(line.startswith("scorer") and str(fake.path) in line for line in lines)


def test_without_a_scorer_it_says_what_to_do_and_ends_with_1(program):
    done = program.run("doctor", env={"VMAFX_VMAF_BINARY": "/no/such/vmaf"})
    assert done.returncode == 1
    assert not done.stderr
    assert "VMAFX_VMAF_BINARY" in done.stdout
    assert "to do: correct VMAFX_VMAF_BINARY" in done.stdout
    assert "pip install" not in done.stdout.split("setpriv")[0]
    assert done.stdout.splitlines()[-1].split() == ["can", "score", "no"]


def test_an_engine_that_is_not_installed_is_told_to_be_installed(program, monkeypatch):
    monkeypatch.setattr(probes, "find_engine", lambda: "it is not installed")
    monkeypatch.setitem(CliScorer.__init__.__kwdefaults__, "find_engine", lambda: "it is not installed")
    done = program.call("doctor", "--json")
    assert done.returncode == 1
    scorer_check = checks(done)["scorer"]
    assert not scorer_check["ok"]
    assert scorer_check["needed"]
    assert "install" in scorer_check["advice"]


def test_a_backend_that_is_not_here_is_not_replaced(program, fake):
    done = program.call("doctor", "--json", VMAFX_BACKEND="cuda")
    assert done.returncode == 1
    found = checks(done)
    assert "cuda was asked for" in found["scorer"]["found"]
    assert "correct or unset VMAFX_BACKEND" in found["scorer"]["advice"]
    assert found["backends"]["found"].startswith("cpu; not here: cuda")
    assert found["backends"]["advice"]


@pytest.mark.parametrize("setting", ["VMAFX_DEFAULT_MODEL", "VMAFX_MODEL_DIR", "VMAF_BIN", "VMAFX_BACKEND"])
@pytest.mark.usefixtures("engine")
def test_the_advice_is_about_the_setting_that_is_wrong(program, setting):
    value = {"VMAFX_DEFAULT_MODEL": "no_such_model", "VMAFX_BACKEND": "hip"}.get(setting, "/no/such/place")
    done = program.call("doctor", "--json", **{setting: value})
    assert done.returncode == 1
    found = checks(done)
    assert setting in found["scorer"]["found"]
    assert found["scorer"]["advice"].startswith("correct ")
    assert setting in found["scorer"]["advice"]
    assert "install" not in found["scorer"]["advice"]
    told = found["backends"]["found"]
    assert told == ("cpu; not here: cuda, hip, sycl, metal" if setting == "VMAFX_BACKEND" else NOT_TESTED)
    assert not found["backends"]["ok"]


NOT_TESTED = "not tested: the scorer does not work"


def test_a_scorer_that_is_killed_is_told_by_its_signal(program, fake):
    fake.tell(mode="dies", signal=signal.SIGKILL)
    scorer_check = checks(program.call("doctor", "--json"))["scorer"]
    assert "SIGKILL" in scorer_check["advice"]
    assert "memory" in scorer_check["advice"]
    assert "pip install" not in scorer_check["advice"]


@pytest.mark.parametrize("mode", ["no_report", "fails", "dies", "fails_after_report"])
def test_what_a_broken_scorer_said_is_one_line(program, fake, mode):
    fake.tell(mode=mode, signal=signal.SIGSEGV)
    done = program.call("doctor")
    assert done.returncode == 1
    assert r"\n" not in done.stdout
    told = [line for line in done.stdout.splitlines() if line.startswith("scorer ")]
    assert len(told) == 1
    assert "pip install" not in done.stdout.split("setpriv")[0]


def test_a_wrong_setting_is_a_usage_error(program):
    done = program.call("doctor", VMAFX_BACKEND="auto")
    assert done.returncode == 2
    assert not done.stdout
    assert "VMAFX_BACKEND" in done.stderr


def test_a_scorer_that_never_answers_is_given_up(program, fake, monkeypatch):
    monkeypatch.setattr(probes, "PROBE_TIMEOUT_S", 0.3)
    fake.tell(mode="mute")
    done = program.call("doctor", "--json")
    assert done.returncode == 1
    assert checks(done)["scorer"]["found"].endswith("no answer to the self-test within 0.3 s")
