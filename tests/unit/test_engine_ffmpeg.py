"""The engine's FFmpeg is the one of the installed wheel, and no other (ADR 0009)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine import GUARD_S
from vmafx.adapters.vmaf_cli import engine_ffmpeg
from vmafx.adapters.vmaf_cli.engine_ffmpeg import Engine, check_libvmaf, ffmpeg_path, find_engine
from vmafx.domain.errors import ScorerUnavailableError

SAYS_WHERE = (
    "import sys; sys.path.append({root!r})\n"
    "from vmafx.adapters.vmaf_cli.engine_ffmpeg import ffmpeg_path\n"
    "print(ffmpeg_path())\n"
    "assert 'imageio_ffmpeg' not in sys.modules\n"
    "assert 'subprocess' not in sys.modules\n"
)
ROOT = str(Path(__file__).parents[2] / "src")


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """An installed wheel to put programs into; the only one there is."""
    monkeypatch.setattr(
        engine_ffmpeg, "_package_folders", lambda: iter([str(tmp_path / "none"), str(tmp_path)])
    )
    folder = tmp_path / "imageio_ffmpeg" / "binaries"
    folder.mkdir(parents=True)

    def put(name, text="#!/bin/sh\n", mode=0o755):
        (folder / name).write_text(text)
        (folder / name).chmod(mode)
        return str(folder / name)

    return put


def where(*options, environment=None, cwd=None):
    done = subprocess.run(
        [sys.executable, *options, "-c", SAYS_WHERE.format(root=ROOT)],
        capture_output=True,
        text=True,
        env=os.environ | (environment or {}),
        cwd=cwd,
        timeout=GUARD_S,
        check=True,
    )
    return done.stdout.strip()


def test_the_engine_is_a_command_of_absolute_paths_and_the_files_that_it_is_made_of():
    engine = find_engine()
    assert isinstance(engine, Engine)
    assert engine.argv[:3] == (sys.executable, "-I", "-S")
    assert Path(engine.argv[3]).name == "engine.py"
    assert engine.files[0] == ffmpeg_path()
    assert engine.argv[3] in engine.files
    assert {"engine_command.py", "engine_clips.py", "y4m.py"} <= {Path(file).name for file in engine.files}
    assert all(Path(file).is_absolute() and Path(file).is_file() for file in engine.files)


def test_the_same_ffmpeg_is_found_without_site_packages():
    assert where("-I", "-S") == where() == ffmpeg_path()


def test_no_environment_and_no_working_directory_puts_another_ffmpeg_in_its_place(tmp_path):
    other = tmp_path / "imageio_ffmpeg" / "binaries" / "ffmpeg-linux-x86_64-v0"
    other.parent.mkdir(parents=True)
    (other.parent.parent / "__init__.py").touch()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    environment = {
        "IMAGEIO_FFMPEG_EXE": str(other),
        "PYTHONPATH": str(tmp_path),
        "PATH": str(other.parent),
        "VIRTUAL_ENV": str(tmp_path),
    }
    for options in ((), ("-I", "-S")):
        assert where(*options, environment=environment, cwd=tmp_path) == ffmpeg_path()


def test_without_the_extra_the_reason_tells_how_to_get_it(wheel, tmp_path):
    (tmp_path / "imageio_ffmpeg" / "binaries").rmdir()
    assert find_engine() == "the embedded engine is not installed (pip install 'vmafx[engine]' brings it)"


def test_a_python_that_does_not_know_itself_has_no_engine(monkeypatch):
    monkeypatch.setattr(sys, "executable", "")
    assert find_engine() == "this Python does not know its own path"


@pytest.mark.parametrize(
    "name", ["ffmpeg-linux-x86_64-v9.0.2", "ffmpeg-linux-aarch64-v7.0.2", "ffmpeg-macos-aarch64-v9.0"]
)
def test_the_ffmpeg_of_each_platform_is_found(wheel, name):
    path = wheel(name)
    wheel("README.md")
    assert ffmpeg_path() == path


def test_a_wheel_without_a_program_or_with_two_is_refused(wheel):
    wheel("README.md")
    assert str(find_engine()).endswith("found none")
    wheel("ffmpeg-linux-b")
    wheel("ffmpeg-linux-a")
    assert str(find_engine()).endswith("found ffmpeg-linux-a, ffmpeg-linux-b")


def test_a_program_that_is_not_executable_is_refused(wheel):
    wheel("ffmpeg-linux-a", mode=0o644)
    assert str(find_engine()).endswith("ffmpeg-linux-a is not executable")


@pytest.mark.parametrize(
    ("config", "shared"),
    [
        ("include-system-site-packages = false\n", False),
        ("Include-System-Site-Packages=TRUE\n", True),
        ("", False),
    ],
)
def test_a_virtual_environment_shares_packages_only_when_it_says_so(tmp_path, monkeypatch, config, shared):
    (tmp_path / "bin").mkdir()
    (tmp_path / "pyvenv.cfg").write_text(config)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setattr(sys, "prefix", "/outside")
    monkeypatch.setattr(sys, "exec_prefix", "/outside")
    _beside, *folders = engine_ffmpeg._package_folders()
    assert any(folder.startswith(str(tmp_path)) for folder in folders)
    assert any(folder.startswith("/outside") for folder in folders) == shared


def test_the_ffmpeg_of_the_installed_wheel_has_libvmaf():
    check_libvmaf(ffmpeg_path())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "#!/bin/sh\necho \"Unknown filter 'libvmaf'.\"\n",
            "has no libvmaf (ffmpeg-linux-a): set VMAFX_VMAF_BINARY",
        ),
        ("#!/bin/sh\nkill -9 $$\n", "has no libvmaf"),
        ("#!/nowhere/sh\n", "cannot be run"),
        ("\x7fELF of another machine", "cannot be run"),
    ],
)
def test_an_ffmpeg_that_cannot_score_is_named(wheel, text, reason):
    with pytest.raises(ScorerUnavailableError) as caught:
        check_libvmaf(wheel("ffmpeg-linux-a", text))
    assert reason in str(caught.value)
    assert caught.value.setting == "VMAFX_VMAF_BINARY"
