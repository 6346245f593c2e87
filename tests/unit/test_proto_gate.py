"""The gate of the wire trips when the contract is broken, and needs no network and no branch (ADR 0016)."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERATED = Path("src/vmafx/adapters/grpc/_generated")
CONTROLLER = "proto/vmafx/controller/v1/controller.proto"
NOTHING_TO_COMPARE = "changes of the wire were not compared"
HANG_S = 60


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository of its own with what the gate reads, on branch main, all of it committed."""
    if shutil.which("git") is None:
        pytest.skip("no git on PATH")
    folder = tmp_path / "copy"
    for part in ("proto", GENERATED):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tools").mkdir()
    shutil.copy(ROOT / "tools/proto.py", folder / "tools")
    shutil.copy(ROOT / "buf.yaml", folder)
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder)
    return folder


def git(folder: Path, *arguments: str) -> None:
    names = ("-c", "user.name=a", "-c", "user.email=a@b.invalid")
    subprocess.run(["git", *names, *arguments], cwd=folder, check=True, capture_output=True, timeout=HANG_S)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--no-verify", "--message=all")


def proto(folder: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "tools/proto.py", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def edit(folder: Path, before: str, after: str) -> None:
    path = folder / CONTROLLER
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1
    path.write_text(text.replace(before, after), encoding="utf-8")


def test_the_contract_as_it_stands_passes_and_is_compared(copy: Path) -> None:
    assert proto(copy, "check") == (0, "")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("string assigned_node = 5;", "string assigned_node = 11;", 'field "5"'),
        ("string assigned_node = 5;", "int32 assigned_node = 5;", "changed type"),
        ("string assigned_node = 5;", "string node = 5;", "assigned_node"),
    ],
)
def test_a_change_of_a_field_is_refused(copy: Path, before: str, after: str, told: str) -> None:
    edit(copy, before, after)
    assert proto(copy, "generate")[0] == 0
    code, words = proto(copy, "check")
    assert code == 1
    assert told in words


def test_an_addition_is_taken_once_it_is_generated(copy: Path) -> None:
    edit(copy, "string assigned_node = 5;", "string assigned_node = 5;\n  // New.\n  string more = 11;")
    code, words = proto(copy, "check")
    assert code == 1
    assert "controller_pb2.py is not what proto/ generates: run `make proto`" in words
    assert proto(copy, "generate") == (0, "")
    assert proto(copy, "check") == (0, "")


def test_a_field_without_a_comment_is_refused(copy: Path) -> None:
    edit(copy, "  // The node that runs it or ran it last; empty before.\n", "")
    code, words = proto(copy, "check")
    assert code == 1
    assert 'Field "assigned_node" should have a non-empty comment' in words


def test_generated_code_that_nobody_generates_is_refused(copy: Path) -> None:
    (copy / GENERATED / "stray.py").write_text("", encoding="utf-8")
    code, words = proto(copy, "check")
    assert code == 1
    assert "stray.py is not what proto/ generates" in words


def test_a_clone_of_depth_one_compares_with_its_origin(copy: Path, tmp_path: Path) -> None:
    commit_more(copy)
    git(tmp_path, "clone", "--quiet", "--depth=1", copy.as_uri(), "shallow")
    git(tmp_path / "shallow", "checkout", "--quiet", "--detach")
    git(tmp_path / "shallow", "branch", "--quiet", "-D", "main")
    assert proto(tmp_path / "shallow", "check") == (0, "")
    edit(tmp_path / "shallow", "string assigned_node = 5;", "int32 assigned_node = 5;")
    assert "changed type" in proto(tmp_path / "shallow", "check")[1]


def test_a_clone_without_a_branch_main_says_so_and_passes(copy: Path, tmp_path: Path) -> None:
    git(copy, "branch", "--quiet", "-m", "work")
    git(tmp_path, "clone", "--quiet", "--depth=1", copy.as_uri(), "clone")
    code, words = proto(tmp_path / "clone", "check")
    assert code == 0
    assert NOTHING_TO_COMPARE in words


def test_a_folder_that_is_no_repository_says_so_and_passes(copy: Path) -> None:
    shutil.rmtree(copy / ".git")
    code, words = proto(copy, "check")
    assert code == 0
    assert NOTHING_TO_COMPARE in words


def test_a_main_without_the_contract_says_so_and_passes(copy: Path) -> None:
    git(copy, "rm", "--quiet", "-r", "--cached", "proto")
    git(copy, "commit", "--quiet", "--no-verify", "--message=none")
    assert proto(copy, "check") == (
        0,
        "proto: the branch main has no .proto files: nothing to compare with\n",
    )


def test_generated_code_loads_with_the_oldest_protobuf_that_we_allow() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (oldest,) = re.findall(r"^protobuf>=([\d.]+)$", "\n".join(project["dependencies"]), re.MULTILINE)
    modules = sorted((ROOT / GENERATED).rglob("*_pb2.py"))
    assert len(modules) == 2
    for module in modules:
        (needed,) = re.findall(r"^# Protobuf Python Version: ([\d.]+)$", module.read_text(), re.MULTILINE)
        assert needed == oldest, module


def commit_more(folder: Path) -> None:
    (folder / "more").write_text("", encoding="utf-8")
    commit(folder)
