"""A scorer in a few lines of shell, for tests with hundreds of jobs: it starts in a millisecond.

It can be told to hold a job until it is let go, and to kill the node that it works for.
"""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import Final

from tests import reports

__all__ = ["QuickScorer"]

_SCRIPT: Final = """#!/bin/sh
# Without a clip it says what it can do; with one it leaves the report.
here={here}
output= clip=
while [ $# -gt 0 ]; do
    case $1 in
        --version) echo quick 0.0 >&2; exit 0 ;;
        -r) clip=$2 ;;
        -o) output=$2 ;;
    esac
    shift
done
if [ -z "$clip" ]; then
    printf '%s\\n' 'Usage: vmaf' ' --reference/-r $path' ' --distorted/-d $path' ' --model/-m $params' \\
        ' --output/-o $path' ' --json' ' --threads $n' ' --subsample $n' >&2
    exit 1
fi
case $VMAFX_JOB_ID in
    *-*)  # of a controller; the self-test's has no hyphens
        echo "$VMAFX_JOB_ID" >> "$here/began"
        if [ -e "$here/deadly" ]; then kill -9 $PPID; fi
        while [ -e "$here/hold" ] && [ ! -e "$here/go-$VMAFX_JOB_ID" ]; do sleep 0.02; done ;;
esac
exec /bin/cat "$here/report" > "$output"
"""


class QuickScorer:
    """The scorer of one node, in a folder of its own; all its scores are the same."""

    def __init__(self, folder: Path, score: float = reports.SCORE) -> None:
        folder.mkdir()
        self._folder = folder
        self.path = folder / "vmaf"
        self.score = score
        same = [score] * len(reports.SCORES)
        (folder / "report").write_text(reports.report(same, mean=score), encoding="utf-8")
        self.path.write_text(_SCRIPT.format(here=shlex.quote(str(folder))), encoding="utf-8")
        self.path.chmod(0o755)

    def hold(self) -> None:
        """From now on no job ends that was not let go."""
        (self._folder / "hold").touch()

    def let_go(self, *job_ids: str) -> None:
        """Let these jobs end, now or later; all when none is named."""
        for job_id in job_ids:
            (self._folder / f"go-{job_id}").touch()
        if not job_ids:
            (self._folder / "hold").unlink(missing_ok=True)

    def be_deadly(self) -> None:
        """From now on each job kills its node."""
        (self._folder / "deadly").touch()

    def began(self) -> Counter[str]:
        """How often each job was begun."""
        try:
            return Counter((self._folder / "began").read_text(encoding="utf-8").split())
        except FileNotFoundError:
            return Counter()
