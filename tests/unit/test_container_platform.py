"""What the machine lets a process do: control groups of both kinds, affinity, platforms."""

from __future__ import annotations

import os
import sys

import pytest

from vmafx.app.container.platform import available_processors, platform_problem
from vmafx.app.container.score import open_scorer
from vmafx.domain.errors import ScorerUnavailableError


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Writes files of the kernel below a folder; the process may use 16 processors."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return write


def test_without_control_groups_the_affinity_decides(kernel):
    assert available_processors(kernel({})) == 16


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("max 100000", 16),
        ("400000 100000", 4),
        ("250000 100000", 2),
        ("50000 100000", 1),
        ("6400000 100000", 16),
        ("", 16),
        ("x y", 16),
        ("100000 0", 16),
        ("100000", 16),
    ],
)
def test_a_limit_of_version_2_counts_in_whole_processors(kernel, text, count):
    root = kernel({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": text})
    assert available_processors(root) == count


def test_the_tightest_limit_on_the_way_up_counts(kernel):
    root = kernel(
        {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
            "sys/fs/cgroup/a/cpu.max": "300000 100000\n",
            "sys/fs/cgroup/cpu.max": "800000 100000\n",
        }
    )
    assert available_processors(root) == 3


def test_a_group_outside_the_container_is_looked_for_at_the_top(kernel):
    root = kernel({"proc/self/cgroup": "0::/../../other\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"})
    assert available_processors(root) == 2


def test_a_limit_of_version_1_counts(kernel):
    root = kernel(
        {
            "proc/self/cgroup": "5:cpuset:/x\n4:cpu,cpuacct:/job\n",
            "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "200000\n",
            "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        }
    )
    assert available_processors(root) == 2


@pytest.mark.parametrize("text", ["", "\n", "0", "0:", "::", "\xff", "4:cpu", "a:b:c:d"])
def test_a_damaged_group_file_limits_nothing(kernel, text):
    assert available_processors(kernel({"proc/self/cgroup": text})) == 16


def test_without_affinity_all_processors_count(kernel, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert available_processors(kernel({})) == 6


def test_there_is_always_one_processor(kernel, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_processors(kernel({})) == 1


def test_the_machine_at_hand_has_some():
    assert 1 <= available_processors() <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("name", "refused"), [("win32", True), ("cygwin", True), ("linux", False), ("darwin", False)]
)
def test_only_windows_is_refused(name, refused):
    assert (platform_problem(name) is not None) == refused


async def test_a_scorer_is_refused_on_windows(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ScorerUnavailableError, match="Windows is not supported"):
        async with open_scorer():
            pass
