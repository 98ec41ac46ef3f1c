"""Going on from a checkpoint with other queries.

What earlier runs counted stays as it was: its panes, its candidates, its answers. Panes of new
boundaries begin at a place that no row of an earlier run has reached, and a new query is answered
from its first window on that starts there or later; earlier ones would miss rows that nobody kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

from pyspark.sql import SparkSession

from skyband.errors import QueryError
from skyband.spark.families.workload.boundaries import Boundaries, Era
from skyband.spark.jobs import checkpoint as manifest
from skyband.spark.paths import plain_path
from skyband.workload.queries import Workload


@dataclass(frozen=True)
class Past:
    """What earlier runs of a job left.

    ``reached``   no row of theirs is at this place or later
    ``passed``    rows before this place are later than the delay
    """

    workload: dict[str, Any]
    by: tuple[str, ...]
    revision: int
    reached: int
    passed: int

    @property
    def spread(self) -> int:
        """Milliseconds by which rows may be ahead of the watermark, in any run so far."""
        return int(self.workload["spread"])

    @property
    def largest(self) -> list[int]:
        """The largest k so far by each score: what an aggregation holds must stay within it."""
        return list(self.workload["largest"])

    def scores(self, workload: Workload) -> tuple[str, ...]:
        """The scores of the job, which cannot become more."""
        for name, by in workload.by.items():
            if by not in self.by:
                raise QueryError(
                    f"query {name!r} ranks by {by!r}, which the job does not compute",
                    f"one of its scores: {', '.join(self.by)}",
                    "start a new checkpoint, and a new sink, for another score",
                )
        return self.by

    def since(self, workload: Workload) -> dict[str, int]:
        """From where on the windows of queries are complete that joined the job."""
        known = self.workload["queries"]
        found = {name: known[name][-1] if name in known else self.reached for name in workload}
        return {name: place for name, place in found.items() if place is not None}

    def eras(self, boundaries: Boundaries) -> tuple[Era, ...]:
        """The panes of earlier runs, as far as rows may still come for them, then the new ones."""
        found = [Era.of(plain) for plain in self.workload["eras"]]
        last = found[-1]
        if last.boundaries != boundaries:
            if last.begins is not None and last.begins >= self.reached:  # nothing is in it yet
                found.pop()
            found.append(Era(max(self.reached, last.begins or self.reached), boundaries))
        while len(found) > 1 and (found[1].begins or 0) <= self.passed:
            found.pop(0)
        return tuple(found)


def past(spark: SparkSession, checkpoint: str | PathLike[str], per_ms: int) -> Past | None:
    """What earlier runs left in a checkpoint; None if they committed nothing."""
    place = plain_path(checkpoint, "checkpoint")
    held = manifest.read(spark, place)
    watermark = None if held is None else manifest.committed(spark, place)
    if held is None or watermark is None:
        return None
    query = held["query"]
    if "workload" not in query:
        raise QueryError(
            f"checkpoint {place} belongs to a single query",
            "a checkpoint of a workload",
            "start a new checkpoint, and a new sink",
        )
    workload = query["workload"]
    return Past(
        workload,
        tuple(query["scores"]),
        held["revision"],
        (watermark + workload["spread"] + 1) * per_ms,
        watermark * per_ms,
    )
