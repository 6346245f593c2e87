"""What a mount in user space lacks on a machine."""

from __future__ import annotations

import os

import pytest

from vmafx.app.container.fuse import fuse_helper, fuse_problem


def helper(folder, name, mode=0o755):
    path = folder / name
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize("name", ["fusermount3", "fusermount"])
def test_a_device_and_a_helper_are_enough(tmp_path, name):
    found = helper(tmp_path, name)
    environment = {"PATH": str(tmp_path)}
    assert fuse_problem(environment, device=os.devnull) is None
    assert fuse_helper(environment) == found


def test_the_newer_helper_is_taken_first(tmp_path):
    for name in ("fusermount", "fusermount3"):
        helper(tmp_path, name)
    assert fuse_helper({"PATH": str(tmp_path)}) == str(tmp_path / "fusermount3")


@pytest.mark.parametrize("environment", [{}, {"PATH": ""}, {"PATH": "/nowhere"}], ids=str)
def test_without_a_helper_there_is_no_mount(environment):
    assert fuse_problem(environment, device=os.devnull) == "no fusermount3 or fusermount"


def test_a_helper_that_cannot_be_run_is_none(tmp_path):
    helper(tmp_path, "fusermount3", 0o644)
    assert fuse_helper({"PATH": str(tmp_path)}) is None


def test_everything_that_is_missing_is_told(tmp_path):
    device = str(tmp_path / "fuse")
    assert fuse_problem({}, device=device) == f"no {device}, no fusermount3 or fusermount"
    (tmp_path / "fuse").touch()  # a file is no device
    assert fuse_problem({}, device=device) == f"no {device}, no fusermount3 or fusermount"


def test_a_device_that_may_not_be_opened_is_told(tmp_path, monkeypatch):
    helper(tmp_path, "fusermount3")
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != os.devnull and access(path, mode))
    problem = fuse_problem({"PATH": str(tmp_path)}, device=os.devnull)
    assert problem == f"{os.devnull} may not be opened"
