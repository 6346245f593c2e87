"""Which executable is chosen: the first of the order, never a substitute for what was named (ADR 0003)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vmafx.adapters.vmaf_cli.engine_ffmpeg import Engine
from vmafx.adapters.vmaf_cli.lookup import EngineFinder, Executable, find_executable
from vmafx.adapters.vmaf_cli.options import ScorerOptions
from vmafx.domain.errors import ScorerUnavailableError

ENGINE = Engine(argv=("/py", "-I", "/engine.py"), files=("/py", "/engine.py", "/ffmpeg"))


def program(path: Path, mode: int = 0o755) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return str(path)


def found(
    options: ScorerOptions, *, engine: EngineFinder = lambda: ENGINE, last: str = "/nowhere/vmaf"
) -> Executable:
    return find_executable(options, find_engine=engine, last_path=last)


def test_order_is_first_setting_second_setting_path_fixed_place_engine(tmp_path: Path) -> None:
    first, second = program(tmp_path / "first"), program(tmp_path / "second")
    on_path, last = program(tmp_path / "bin/vmaf"), program(tmp_path / "last/vmaf")
    search = str(tmp_path / "bin")
    options = [
        ScorerOptions(vmaf_binary=first, vmaf_bin=second, search_path=search),
        ScorerOptions(vmaf_bin=second, search_path=search),
        ScorerOptions(search_path=search),
        ScorerOptions(),
    ]
    assert [found(o, last=last).argv for o in options] == [(first,), (second,), (on_path,), (last,)]
    assert found(ScorerOptions()).argv == ENGINE.argv


def test_choice_says_why_and_what_the_program_is(tmp_path: Path) -> None:
    path = program(tmp_path / "vmaf")
    named = found(ScorerOptions(vmaf_bin=path))
    assert named.setting == "VMAF_BIN"
    assert named.why == "VMAF_BIN names it"
    assert named.files == (path,)
    assert str(named) == path
    engine = found(ScorerOptions())
    assert engine.files == ENGINE.files
    assert "embedded engine" in engine.why
    assert str(engine) == "/py -I /engine.py"
    assert "PATH" in found(ScorerOptions(search_path=str(tmp_path))).why


@pytest.mark.parametrize("setting", ["VMAFX_VMAF_BINARY", "VMAF_BIN"])
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("missing", "No such file or directory"),
        ("folder", "a directory"),
        ("plain", "not executable"),
        ("pipe", "not a regular file"),
        ("zero", "not a path"),
        ("bin/vmaf", "not an absolute path"),
        ("", "not an absolute path"),
    ],
)
def test_setting_that_names_no_program_never_falls_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, kind: str, reason: str
) -> None:
    program(tmp_path / "bin/vmaf")
    program(tmp_path / "plain", 0o644)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe", 0o755)
    monkeypatch.chdir(tmp_path)
    value = kind if kind in {"bin/vmaf", ""} else str(tmp_path / kind) + ("\0" if kind == "zero" else "")
    search = str(tmp_path / "bin")
    options = (
        ScorerOptions(vmaf_binary=value, vmaf_bin=str(tmp_path / "bin/vmaf"), search_path=search)
        if setting == "VMAFX_VMAF_BINARY"
        else ScorerOptions(vmaf_bin=value, search_path=search)
    )
    with pytest.raises(ScorerUnavailableError, match="vmaf binary not accessible at ") as caught:
        found(options)
    assert caught.value.setting == setting
    assert str(caught.value).startswith(f"{setting}: ")
    assert reason in str(caught.value)


def test_nothing_is_found_by_way_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "vmaf")
    program(tmp_path / "bin/vmaf")
    monkeypatch.chdir(tmp_path)
    assert found(ScorerOptions(search_path=":.:bin:./bin:")).argv == ENGINE.argv


def test_search_path_passes_over_what_cannot_be_executed(tmp_path: Path) -> None:
    program(tmp_path / "a/vmaf", 0o644)
    (tmp_path / "b/vmaf").mkdir(parents=True)
    good = program(tmp_path / "c/vmaf")
    search = ":".join(str(tmp_path / name) for name in ("none", "a", "b", "c"))
    assert found(ScorerOptions(search_path=search)).argv == (good,)


def test_without_any_program_the_error_says_why_there_is_no_engine() -> None:
    with pytest.raises(ScorerUnavailableError, match="imageio-ffmpeg is not installed") as caught:
        found(ScorerOptions(), engine=lambda: "imageio-ffmpeg is not installed")
    assert caught.value.setting == "VMAFX_VMAF_BINARY"


def test_engine_is_not_looked_for_when_a_program_is_there(tmp_path: Path) -> None:
    def never() -> Engine:
        raise AssertionError

    path = program(tmp_path / "vmaf")
    assert found(ScorerOptions(vmaf_binary=path), engine=never).argv == (path,)
