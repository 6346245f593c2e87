"""A disk, or another program, that does not let the controller write: nothing is lost (ADR 0024)."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
from contextlib import ExitStack, closing, contextmanager

import pytest

from tests.e2e import disks
from tests.e2e.cluster import FORGETFUL, so
from tests.e2e.quick_scorer import QuickScorer
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb

JOBS = 20
UPKEEP_FAILED = "upkeep failed; attempts that are lost stay as they are until it works"
START_BYTES = 32768
"""Less than the database and more than the log."""


@contextmanager
def file_limit(cluster):
    """The controller may write to no file beyond its start, its log among them."""

    @contextmanager
    def trouble():
        process = cluster.controller.process.pid
        was = resource.prlimit(process, resource.RLIMIT_FSIZE)
        resource.prlimit(process, resource.RLIMIT_FSIZE, (START_BYTES, was[1]))
        yield
        resource.prlimit(process, resource.RLIMIT_FSIZE, was)

    yield trouble


@contextmanager
def full_disk(cluster):
    """No room is left on the disk; where none can be had to fill, no file may grow."""

    @contextmanager
    def trouble():
        disk.fill()
        yield
        disk.empty()

    with ExitStack() as stack:
        try:
            disk = stack.enter_context(disks.tmpfs(cluster.program.folder / "disk"))
        except disks.NoDiskError:
            yield stack.enter_context(file_limit(cluster))
            return
        cluster.database = disk.folder / "jobs.db"
        yield trouble


@contextmanager
def moved_away(cluster):
    """The file has another name."""

    @contextmanager
    def trouble():
        elsewhere = cluster.database.rename(cluster.database.with_name("elsewhere"))
        yield
        elsewhere.rename(cluster.database)

    yield trouble


@contextmanager
def locked(cluster):
    """Another program writes, and takes its time."""

    @contextmanager
    def trouble():
        with closing(sqlite3.connect(cluster.database, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")

    yield trouble


TROUBLES = [
    pytest.param(full_disk, "cannot", id="full disk"),
    pytest.param(file_limit, "cannot", id="file limit", marks=pytest.mark.soak),
    pytest.param(moved_away, "was removed while in use", id="moved away"),
    pytest.param(locked, "is locked by another process", id="locked", marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("way", "words"), TROUBLES)
async def test_what_cannot_be_stored_is_refused_for_now_and_nothing_is_lost(cluster, way, words):
    with way(cluster) as trouble:
        await cluster.start()
        node = await cluster.node(prepare=QuickScorer.hold)
        jobs = [await cluster.client.job() for _ in range(JOBS)]
        await so(node.scorer.began, what="a job runs")
        with trouble():
            code, told = await cluster.client.refused()
            assert (code, words in told) == ("UNAVAILABLE", True), told
            assert str(cluster.database.parent) not in told
            assert (await asyncio.to_thread(cluster.controller.get, "/readyz"))[0] == 503
            node.scorer.let_go()
            await so(lambda: node.told("ReportResult failed; retrying"), what="the node cannot report either")
            assert await not_ready(cluster) == 503
        jobs.append(await cluster.client.job())
        assert {job.status for job in await cluster.client.ended(*jobs)} == {pb.COMPLETED}
        assert (await asyncio.to_thread(cluster.controller.get, "/readyz"))[0] == 200
        history = await cluster.finish()
        assert history.statuses == {"completed": JOBS + 1}
        assert node.scorer.began() == dict.fromkeys(jobs, 1)
        assert "Traceback" not in cluster.controller.text()


async def not_ready(cluster):
    """Return how the controller answers a probe, once that is not well."""
    await asyncio.to_thread(cluster.controller.wait_told, UPKEEP_FAILED)
    return (await asyncio.to_thread(cluster.controller.get, "/readyz"))[0]


@pytest.mark.soak
@pytest.mark.parametrize("full_s", [3.3, 3.8, 5.0])
async def test_a_disk_that_was_full_for_longer_than_a_lease_costs_no_node_its_job(cluster, full_s):
    with full_disk(cluster) as trouble:
        await cluster.start(**FORGETFUL, VMAFX_STORE_BACKOFF_BASE="1ms")
        node = await cluster.node(prepare=QuickScorer.hold)
        job = await cluster.client.job()
        await so(node.scorer.began, what="the job runs")
        other = await cluster.node()  # would take the job if it were lost
        with trouble():
            await asyncio.sleep(full_s)
        await asyncio.to_thread(cluster.controller.wait_told, "store works again")
        node.scorer.let_go()
        await cluster.client.ended(job)
        history = await cluster.finish()
        assert history.jobs[job].outcomes == ["completed"]
        assert not other.scorer.began()
        assert not cluster.told("job requeued")


@pytest.fixture
def fragile(cluster):
    """A disk for the database that can break."""
    with ExitStack() as stack:
        try:
            disk = stack.enter_context(disks.ext4(cluster.program.folder / "disk"))
        except disks.NoDiskError as error:
            pytest.skip(f"no file system can be mounted here: {error}")
        cluster.database = disk.folder / "jobs.db"
        yield disk


async def test_a_disk_that_turns_read_only_under_the_controller_costs_nothing(cluster, fragile):
    await cluster.start()
    jobs = [await cluster.client.job() for _ in range(JOBS)]
    fragile.fail()
    code, told = await cluster.client.refused()
    assert code == "UNAVAILABLE"
    assert "cannot be" in told
    assert await asyncio.to_thread(cluster.controller.stop) == 0
    fragile.unmount()
    fragile.mount()
    await cluster.start()
    assert [job.id async for job in cluster.client.stream(pb.PENDING)] == jobs
    assert (await cluster.finish()).statuses == {"pending": JOBS}


async def test_a_file_that_is_damaged_while_in_use_is_told_and_refused_at_the_next_start(cluster):
    await cluster.start()
    jobs = [await cluster.client.job() for _ in range(JOBS * 5)]
    assert await asyncio.to_thread(cluster.controller.stop) == 0
    await cluster.start()
    whole = cluster.database.read_bytes()
    with cluster.database.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (len(whole) - 4096))
    told = [await cluster.client.outcome(cluster.client.get(job)) for job in jobs]
    told.append(await cluster.client.outcome(cluster.client.submit(*cluster.client.pair)))
    assert {code for code, _ in told} <= {"OK", "UNAVAILABLE"}
    assert any("damaged" in words for _, words in told)
    await cluster.kill()
    cluster.database.with_name("jobs.db-wal").unlink(missing_ok=True)
    await cluster.start(ready=False)
    assert await asyncio.to_thread(cluster.controller.wait) == 2
    (refused,) = cluster.controller.told("controller refuses to start")
    assert refused["setting"] == "VMAFX_DB_PATH"
    assert "damaged" in refused["error"]
    cluster.database.write_bytes(whole)
    assert set(cluster.history().jobs) == set(jobs)


async def test_a_file_that_is_removed_while_in_use_takes_no_more_and_a_new_start_minds_its_log(cluster):
    await cluster.start()
    await cluster.client.job()
    cluster.database.unlink()
    code, told = await cluster.client.refused()
    assert code == "UNAVAILABLE"
    assert "was removed while in use" in told
    assert await asyncio.to_thread(cluster.controller.stop) == 0
    log = cluster.database.with_name(cluster.database.name + "-wal")
    await cluster.start(ready=False)
    assert await asyncio.to_thread(cluster.controller.wait) == 2
    (refused,) = cluster.controller.told("controller refuses to start")
    assert refused["setting"] == "VMAFX_DB_PATH"
    assert str(log) in refused["error"]
    log.rename(cluster.database.with_name("log-of-before"))
    await cluster.start()
    job = await cluster.client.job()
    assert [job.id async for job in cluster.client.stream()] == [job]
    assert (await cluster.finish()).statuses == {"pending": 1}
