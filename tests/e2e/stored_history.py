"""Reads the database of a controller from beside it, and says what cannot be true of the histories in it.

It knows the tables and the rules of a job's life, and nothing of the code that keeps them.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

__all__ = ["StoredHistory", "StoredJob", "counted", "stored_history"]

LOST_MAX: Final = 3
"""How many attempts of a job may be lost."""
_ENDED: Final = {"completed", "failed", "cancelled"}
_METRIC: Final = re.compile(r"^(?P<name>\w+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class StoredJob:
    """A row of a job with the rows of its attempts, the earliest first."""

    row: Mapping[str, Any]
    attempts: tuple[Mapping[str, Any], ...]

    @property
    def status(self) -> str:
        """How far it has come."""
        return self.row["status"]

    @property
    def outcomes(self) -> list[str | None]:
        """How its attempts ended; None is one that runs."""
        return [attempt["outcome"] for attempt in self.attempts]

    @property
    def nodes(self) -> list[str]:
        """Which node had each attempt."""
        return [attempt["node"] for attempt in self.attempts]

    @property
    def features(self) -> dict[str, float]:
        """The features of the result."""
        return json.loads(self.row["features"])

    def problems(self) -> Iterator[str]:
        """Say in words what cannot be true."""
        return (claim for claim, true in self._claims() if not true)

    def _claims(self) -> Iterator[tuple[str, bool]]:
        row, attempts, outcomes, status = self.row, self.attempts, self.outcomes, self.status
        open_ones = [number for number, outcome in enumerate(outcomes, 1) if outcome is None]
        yield (
            "attempts are numbered from 1",
            [a["number"] for a in attempts] == [*range(1, len(attempts) + 1)],
        )
        yield "the job knows its last attempt", row["attempt"] == len(attempts)
        yield "an open attempt is the last one", open_ones in ([], [len(attempts)])
        yield "it runs exactly while an attempt is open", (status == "running") == bool(open_ones)
        yield (
            "an attempt has an end exactly when it has an outcome, and a lease until then",
            all(
                (a["outcome"] is None) == (a["ended_us"] is None) == (a["lease_expires_us"] is not None)
                for a in attempts
            ),
        )
        yield (
            "no attempt began before the one before it ended, but for one whose success came late",
            all(
                before["outcome"] == "completed" or before["ended_us"] <= after["started_us"]
                for before, after in pairwise(attempts)
                if before["outcome"] is not None
            ),
        )
        yield "it has an end exactly when it ended", (row["finished_us"] is not None) == (status in _ENDED)
        yield "only a completed job has a score", (row["score"] is not None) == (status == "completed")
        yield "only a completed job has features", (row["features"] is not None) == (status == "completed")
        yield "only a failed job has an error", (row["error"] is not None) == (status == "failed")
        yield "one attempt completed a completed job", outcomes.count("completed") == (status == "completed")
        yield (
            "an attempt is superseded by a success only",
            "superseded" not in outcomes or status == "completed",
        )
        cancelled = [number for number, outcome in enumerate(outcomes, 1) if outcome == "cancelled"]
        yield (
            "a cancel ends the last attempt alone",
            cancelled in ([], [len(attempts)]) and (not cancelled or status == "cancelled"),
        )
        losses = sum(outcome in {"expired", "failed", "never_started"} for outcome in outcomes)
        losses += status == "completed"  # the attempt may have been lost before its success came
        yield "it lost no more attempts than were lost", row["lost_attempts"] <= losses
        yield (
            "the last loss that it may have fails it",
            row["lost_attempts"] < LOST_MAX or (row["lost_attempts"] == LOST_MAX and status == "failed"),
        )
        yield "a pending job is nobody's", status != "pending" or row["assigned_node"] is None
        yield "a running job is its attempt's node's", not open_ones or row["assigned_node"] == self.nodes[-1]


@dataclass(frozen=True)
class StoredHistory:
    """All that a file held at one moment.

    Attributes:
        jobs: By id.
        sessions: The sessions' rows.
        damage: What SQLite itself finds wrong.
    """

    jobs: Mapping[str, StoredJob]
    sessions: tuple[Mapping[str, Any], ...]
    damage: tuple[str, ...]

    @property
    def statuses(self) -> Counter[str]:
        """How many jobs have come how far."""
        return Counter(job.status for job in self.jobs.values())

    def problems(self) -> list[str]:
        """Say in words what cannot be true, of which job."""
        told = [
            f"{problem}: {dict(j.row)}, {j.attempts}" for j in self.jobs.values() for problem in j.problems()
        ]
        return [*self.damage, *told]


def stored_history(database: Path) -> StoredHistory:
    """Read the file of a controller, whether it runs or not."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("BEGIN")  # one moment for all that is read
        attempts: dict[str, list[dict[str, Any]]] = {}
        for row in connection.execute("SELECT * FROM attempts ORDER BY job, number"):
            attempts.setdefault(row["job"], []).append(dict(row))
        jobs = {
            row["id"]: StoredJob(dict(row), tuple(attempts.pop(row["id"], ())))
            for row in connection.execute("SELECT * FROM jobs")
        }
        sessions = tuple(dict(row) for row in connection.execute("SELECT * FROM sessions"))
        damage = [str(row[0]) for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
        damage += [
            f"a foreign key hangs: {tuple(row)}" for row in connection.execute("PRAGMA foreign_key_check")
        ]
    damage += [f"an attempt of no job: {job}" for job in attempts]
    return StoredHistory(jobs=jobs, sessions=sessions, damage=tuple(damage))


def counted(page: str, name: str, **labels: str) -> float:
    """Return the sum of a metric's series that have these labels; 0 without one."""
    wanted = {f'{label}="{value}"' for label, value in labels.items()}
    return sum(
        float(found["value"])
        for found in _METRIC.finditer(page)
        if found["name"] == name and wanted <= set((found["labels"] or "").split(","))
    )
