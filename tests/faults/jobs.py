"""Jobs in processes of their own, killed with -9 when they have passed a point."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.faults.test_driver_killed import MOST_SECONDS, ROOT, end


def run_job_until(home: Path, passed: Callable[[], int] | None, point: str = "") -> bool:
    """Run ``job.yaml`` until ``passed`` grows, and kill it; False if it ended before.

    Without ``passed`` it runs to its end.
    """
    before = 0 if passed is None else passed()
    with (home / "words").open("wb") as words:
        job = subprocess.Popen(
            [sys.executable, "-m", "skyband.cli", "run", "job.yaml", "--quiet"],
            cwd=home,
            env={**os.environ, "TMPDIR": str(home), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            start_new_session=True,
            stderr=words,
        )
    try:
        for _ in range(MOST_SECONDS * 20):
            try:
                assert job.wait(0.05) == 0, (home / "words").read_text()
                return False
            except subprocess.TimeoutExpired:
                if passed is not None and passed() > before:
                    return True
        raise AssertionError(f"the job did not come to {point!r} in {MOST_SECONDS} s")
    finally:
        if job.poll() is None:
            end(job)


def largest_number(home: Path, pattern: str) -> Callable[[], int]:
    """A function that tells the largest number in the names of what fits a pattern."""

    def largest() -> int:
        try:
            names = [path.name for path in home.glob(pattern)]
        except FileNotFoundError:  # something temporary went while it was looked at
            return -1
        numbers = [re.search(r"\d+", name) for name in names]
        return max((int(number.group()) for number in numbers if number), default=-1)

    return largest
