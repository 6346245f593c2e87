"""What `vmafx doctor` says of everything but the scorer."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys

import pytest

from vmafx.app.container import doctor as probes
from vmafx.app.container import fuse
from vmafx.app.settings.scorer import ScorerSettings

RCLONE = "#!/bin/sh\necho 'rclone v{version}'\n"


def look(program, **environment):
    environment = program.environment | environment
    settings = ScorerSettings.from_environment(environment)
    return {
        check.name: dataclasses.asdict(check)
        for check in asyncio.run(probes.machine_checks(settings, environment))
    }


def executable(program, name, text):
    path = program.folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("version", "ok", "words"),
    [
        ("1.75.2", True, "rclone v1.75.2"),
        ("1.71.0", True, "v1.71.0"),
        ("1.70.9", False, "older than 1.71"),
        ("2.0.0", True, "v2.0.0"),
    ],
)
def test_rclone_must_be_new_enough(program, version, ok, words):
    path = executable(program, "my rclone", RCLONE.format(version=version))
    rclone = look(program, VMAFX_RCLONE_BIN=path)["rclone"]
    assert not rclone["needed"]
    assert rclone["ok"] is ok
    assert words in rclone["found"]
    assert path in rclone["found"]
    assert (rclone["advice"] is None) is ok


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/bin/sh\nexit 3\n", "tells no version: nothing"),
        ("#!/bin/sh\nprintf 'hm\\033[2J\\n'\n", r"tells no version: hm\x1b[2J"),
        ("#!/bin/sh\nsleep 600\n", "no answer within 0.2 s"),
        ("#!/no/such/interpreter\n", "tells no version"),
    ],
    ids=["silent", "odd", "hangs", "broken"],
)
def test_an_rclone_that_does_not_work_is_no_reason_to_hang(program, monkeypatch, script, words):
    monkeypatch.setattr(probes, "PROGRAM_TIMEOUT_S", 0.2)
    path = executable(program, "rclone", script)
    rclone = look(program, VMAFX_RCLONE_BIN=path)["rclone"]
    assert not rclone["ok"]
    assert words in rclone["found"]
    assert rclone["advice"].startswith("correct VMAFX_RCLONE_BIN")


def test_a_missing_rclone_is_told(program, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(program.temporary / "python"))
    rclone = look(program, PATH=str(program.temporary))["rclone"]
    assert (rclone["ok"], rclone["found"]) == (False, "missing")
    assert "pip install 'vmafx[rclone]'" in rclone["advice"]


def test_a_setting_that_names_no_rclone_is_told_with_its_value(program):
    rclone = look(program, VMAFX_RCLONE_BIN="/no/such/rclone")["rclone"]
    assert not rclone["ok"]
    assert rclone["found"] == 'VMAFX_RCLONE_BIN="/no/such/rclone" names no executable'
    assert rclone["advice"].startswith("correct VMAFX_RCLONE_BIN")


def test_the_rclone_of_the_environment_comes_before_that_of_the_path(program, monkeypatch):
    (program.folder / "venv").mkdir()
    (program.folder / "path").mkdir()
    own = executable(program, "venv/rclone", RCLONE.format(version="1.80.0"))
    executable(program, "path/rclone", RCLONE.format(version="1.60.1"))
    monkeypatch.setattr(sys, "executable", str(program.folder / "venv" / "python"))
    found = look(program, PATH=f"{program.folder / 'path'}:/usr/bin:/bin")
    assert found["rclone"]["found"].startswith(f"{own} (rclone v1.80.0")


def test_models_are_listed(program):
    models = program.folder / "models"
    (models / "vmaf_v1.0.16").mkdir(parents=True)
    for name in ("vmaf_v0.6.1", "vmaf_v1.0.16/vmaf_v1.0.16_x"):
        (models / f"{name}.json").write_text("{}", encoding="utf-8")
    found = look(program, VMAFX_MODEL_DIR=str(models))["models"]
    assert found["found"] == f"{models}: vmaf_v0.6.1, vmaf_v1.0.16_x"
    assert found["ok"]


def test_only_models_that_a_name_can_choose_are_listed(program):
    models = program.folder / "models"
    (models / "family").mkdir(parents=True)
    (models / "folder.json").mkdir()
    secret = program.folder / "secret.json"
    for path in (secret, models / "good.json", models / "two words.json", models / "a..b.json"):
        path.write_text("{}", encoding="utf-8")
    (models / "family" / "elsewhere.json").write_text("{}", encoding="utf-8")
    (models / "damaged.json").write_text("{", encoding="utf-8")
    (models / "outside.json").symlink_to(secret)
    (models / "dangling.json").symlink_to(models / "nowhere")
    (models / "inside.json").symlink_to(models / "good.json")
    os.mkfifo(models / "pipe.json")
    found = look(program, VMAFX_MODEL_DIR=str(models))["models"]
    assert found["found"] == f"{models}: good, inside"
    (models / "good.json").unlink()
    found = look(program, VMAFX_MODEL_DIR=str(models))["models"]
    assert found["found"] == f"{models}: no usable model file (.json) in it"
    assert not found["ok"]


def test_a_model_folder_that_does_not_exist_is_told_so(program):
    found = look(program, VMAFX_MODEL_DIR="/no/such")["models"]
    assert found["found"] == "/no/such: No such file or directory"
    assert found["advice"].startswith("correct VMAFX_MODEL_DIR")


def test_a_model_folder_without_models_is_told(program):
    found = look(program, VMAFX_MODEL_DIR=str(program.temporary))["models"]
    assert not found["ok"]
    assert "VMAFX_MODEL_DIR" in found["advice"]


def test_threads_are_told_with_their_reason(program):
    assert look(program, VMAFX_SCORE_THREADS="7")["threads"]["found"].startswith("7 (")
    assert "may use" in look(program)["threads"]["found"]


def test_a_missing_setpriv_is_told(program, monkeypatch):
    monkeypatch.setattr(probes, "TOOL_FOLDERS", (str(program.temporary),))
    found = look(program)["setpriv"]
    assert (found["ok"], found["needed"], found["advice"]) == (False, False, "install util-linux")


@pytest.mark.parametrize(
    ("device", "usable", "helper", "words"),
    [
        (False, False, False, "no /dev/fuse, no fusermount3"),
        (True, False, True, "/dev/fuse may not be opened"),
        (True, True, False, "no fusermount3"),
        (True, True, True, "/dev/fuse, "),
    ],
)
def test_fuse_needs_device_right_and_helper(program, monkeypatch, device, usable, helper, words):
    monkeypatch.setattr(fuse, "_is_device", lambda _: device)
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: usable if path == "/dev/fuse" else access(path, mode)
    )
    if helper:
        executable(program, "fusermount3", "#!/bin/sh\n")
    found = look(program, PATH=f"{program.folder}:/bin")["fuse"]
    assert found["found"].startswith(words)
    assert found["ok"] == (device and usable and helper)


@pytest.mark.parametrize(
    ("system", "machine", "words"),
    [
        ("Linux", "x86_64", ": complete"),
        ("Linux", "aarch64", "a vmaf of your own"),
        ("Darwin", "arm64", "a vmaf of your own"),
        ("FreeBSD", "amd64", "not tested"),
    ],
)
def test_the_platform_is_told(program, monkeypatch, system, machine, words):
    monkeypatch.setattr(probes.platform, "system", lambda: system)
    monkeypatch.setattr(probes.platform, "machine", lambda: machine)
    assert words in look(program)["platform"]["found"]
