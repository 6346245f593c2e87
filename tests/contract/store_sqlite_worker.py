"""A child that works at a SQLite store until it is killed, and tells each answer on its standard output."""

from __future__ import annotations

import asyncio
import os
import sys
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.contract.store_sqlite_harness import desk_at, open_store

CALLERS = 8


async def main(path: str) -> None:
    async with open_store(Path(path)) as store:
        desk = desk_at(store)
        lives = len(await desk.live())
        key = await desk.register(f"s{lives}", node=f"node-{lives}")
        async with asyncio.TaskGroup() as group:
            for caller in range(CALLERS):
                group.create_task(work(desk, key, f"{lives}-{caller}"))


async def work(desk, key, name):
    for number in count():
        job_id = f"job-{name}-{number}"
        await desk.submit(job_id)
        tell("submitted", job_id)
        claim = await desk.claim(key)
        tell("claimed", claim.job.id)
        if number % 3:
            await desk.succeed(key, claim.job.id, attempt=claim.attempt.number)
            tell("done", claim.job.id)


def tell(word: str, job_id: str) -> None:
    os.write(sys.stdout.fileno(), f"{word} {job_id}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
