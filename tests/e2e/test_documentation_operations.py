"""What is written about backing up, restoring and moving works, with a controller that runs (ADR 0024)."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.stored_history import stored_history

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
HANG_S = 60.0


@pytest.fixture
def follow(cluster):
    """Does what the page says about something."""

    async def follow(what: str, **names: Path) -> subprocess.CompletedProcess[str]:
        (script,) = re.findall(rf"^```sh {what}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
        programs = Path(sys.executable).parent
        settings = {"DB": str(cluster.database)} | {name: str(path) for name, path in names.items()}
        path = {"PATH": f"{programs}:{cluster.program.environment['PATH']}"}
        return await asyncio.to_thread(
            subprocess.run,
            ["sh", "-c", script],
            cwd=cluster.program.folder,
            env=cluster.program.environment | path | settings,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )

    return follow


@pytest.mark.parametrize("what", ["backup", "restore", "move"])
async def test_steps_about_a_file_that_is_missing_fail_and_touch_nothing(cluster, follow, tmp_path, what):
    missing, there, free = (tmp_path / name for name in ("missing.db", "there.db", "free.db"))
    there.write_bytes(b"something")
    names = {
        "backup": {"DB": missing, "COPY": free},
        "restore": {"DB": there, "COPY": missing},
        "move": {"DB": missing, "TO": free},
    }
    done = await follow(what, **names[what])
    assert done.returncode != 0
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.db*")} == {"there.db": b"something"}


@pytest.mark.parametrize(("what", "name"), [("backup", "COPY"), ("move", "TO"), ("restore", "DB.before")])
@pytest.mark.parametrize("content", [b"", b"a file of somebody"], ids=["empty", "full"])
async def test_a_file_that_is_there_is_never_overwritten(cluster, follow, tmp_path, what, name, content):
    await cluster.start()
    await cluster.client.job()
    assert await asyncio.to_thread(cluster.controller.stop) == 0
    there, copy = tmp_path / "there.db", tmp_path / "copy.db"
    copy.write_bytes(cluster.database.read_bytes())
    names = {name: there} if what != "restore" else {"COPY": copy}
    if what == "restore":
        there = cluster.database.with_name(f"{cluster.database.name}.before")
    there.write_bytes(content)
    kept = cluster.database.read_bytes()
    done = await follow(what, **names)
    assert done.returncode != 0
    assert (there.read_bytes(), cluster.database.read_bytes()) == (content, kept)


async def jobs_of(cluster) -> list[str]:
    return [job.id async for job in cluster.client.stream()]


@pytest.mark.parametrize("crashes", [False, True], ids=["stopped", "killed"])
async def test_a_back_up_of_a_running_controller_can_be_restored(cluster, follow, tmp_path, crashes):
    copy = tmp_path / "it's a copy.db"
    await cluster.start()
    jobs = [await cluster.client.job() for _ in range(3)]
    done = await follow("backup", COPY=copy)
    assert done.returncode == 0, done.stderr
    assert copy.stat().st_mode & 0o777 == 0o600
    kept = copy.read_bytes()
    assert (await follow("backup", COPY=copy)).returncode != 0
    assert copy.read_bytes() == kept
    await cluster.client.job()
    if crashes:
        await cluster.kill()
    else:
        assert await asyncio.to_thread(cluster.controller.stop) == 0
    later = await follow("backup", COPY=tmp_path / "later.db")  # of a file that nobody serves
    assert later.returncode == 0, later.stderr
    done = await follow("restore", COPY=copy)
    assert done.returncode == 0, done.stderr
    await cluster.start()
    assert await jobs_of(cluster) == jobs
    assert (await cluster.finish()).statuses == {"pending": 3}
    assert stored_history(tmp_path / "later.db").statuses == {"pending": 4}


@pytest.mark.parametrize("crashes", [False, True], ids=["stopped", "killed"])
async def test_a_file_that_was_moved_holds_every_job(cluster, follow, tmp_path, crashes):
    await cluster.start()
    jobs = [await cluster.client.job() for _ in range(3)]
    if crashes:
        await cluster.kill()
    else:
        assert await asyncio.to_thread(cluster.controller.stop) == 0
    assert cluster.database.with_name("jobs.db-wal").exists() is crashes  # as the page says
    to = tmp_path / "moved.db"
    done = await follow("move", TO=to)
    assert done.returncode == 0, done.stderr
    cluster.database = to
    await cluster.start()
    assert await jobs_of(cluster) == jobs
