"""Going on from a checkpoint with other queries, and what its manifest has to hold for that.

What earlier runs counted stays as it was: its panes, its candidates, its answers. Panes of new
boundaries begin at a position that no row of an earlier run has reached, and a new query is
answered from its first window on that starts there or later; earlier ones would miss rows that
nobody kept.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from pyspark.sql import SparkSession

from skyband.errors import QueryError
from skyband.query import TopK
from skyband.spark.families.workload.boundaries import Boundaries, Era
from skyband.spark.jobs import checkpoint as manifest
from skyband.spark.jobs.checkpoint import same_score as same
from skyband.spark.options import plain_path
from skyband.windows import CountWindow
from skyband.workload.queries import Workload

_DEFINES = 6  # of the values of a plain query; behind them is where its windows are complete


def plain_query(query: TopK, by: str) -> list[Any]:
    """A query as values that JSON knows: k, window, slide, offset of ends, full, score."""
    window = query.window
    full = isinstance(window, CountWindow) and window.full
    return [query.k, window.size, window.slide, window.end_offset, full, by]


def packed(value: Any) -> str:
    """A value of JSON as a short text."""
    return base64.b64encode(zlib.compress(json.dumps(value).encode())).decode()


def unpacked(text: str) -> Any:
    """What :func:`packed` packed."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


@dataclass(frozen=True)
class EarlierRuns:
    """What earlier runs of a job left.

    ``workload``     what the manifest says of it
    ``scores``       what the job computes
    ``fresh_from``   no row of theirs is at this position or later
    ``late_before``  rows before this position are later than the delay
    """

    workload: dict[str, Any]
    scores: tuple[str, ...]
    revision: int
    fresh_from: int
    late_before: int

    @property
    def spread(self) -> int:
        """Milliseconds by which rows may be ahead of the watermark, in any run so far."""
        return int(self.workload["spread"])

    @property
    def largest_k(self) -> list[int]:
        """The largest k so far by each score: what an aggregation holds must stay within it."""
        return list(self.workload["largest"])

    def check_scores(self, workload: Workload) -> None:
        """Refuse other scores than those of the job, which cannot become more."""
        for name, by in workload.by.items():
            if by not in self.scores:
                raise QueryError(
                    f"query {name!r} ranks by {by!r}, which the job does not compute",
                    f"one of its scores: {', '.join(self.scores)}",
                    "start a new checkpoint, and a new sink, for another score",
                )

    def with_casts(self, workload: Workload) -> EarlierRuns:
        """The same with scores as a workload writes them, if it casts to doubles what were such."""
        texts = {old: new for new in workload.scores for old in self.scores if same(old, new)}
        return replace(self, scores=tuple(texts.get(score, score) for score in self.scores))

    def complete_from(self, workload: Workload) -> dict[str, int]:
        """From where on the windows of queries are complete that joined the job."""
        known = self.workload["queries"]
        first = {name: known[name][-1] if name in known else self.fresh_from for name in workload}
        return {name: position for name, position in first.items() if position is not None}

    def eras(self, boundaries: Boundaries) -> tuple[Era, ...]:
        """The panes of earlier runs, as far as rows may still come for them, then the new ones."""
        eras = [Era.of(plain) for plain in self.workload["eras"]]
        last = eras[-1]
        if last.boundaries != boundaries:
            if last.start is not None and last.start >= self.fresh_from:  # nothing is in it yet
                eras.pop()
            eras.append(Era(max(self.fresh_from, last.start or self.fresh_from), boundaries))
        while len(eras) > 1 and (eras[1].start or 0) <= self.late_before:
            eras.pop(0)
        return tuple(eras)


def earlier_runs(
    spark: SparkSession, checkpoint: str | PathLike[str], per_ms: int
) -> EarlierRuns | None:
    """What earlier runs left in a checkpoint; None if they committed nothing."""
    directory = plain_path(checkpoint, "checkpoint")
    before = manifest.read(spark, directory)
    watermark = None if before is None else manifest.committed(spark, directory)
    if before is None or watermark is None:
        return None
    query = before["query"]
    if "workload" not in query:
        raise QueryError(
            f"checkpoint {directory} belongs to a single query",
            "a checkpoint of a workload",
            "start a new checkpoint, and a new sink",
        )
    workload = query["workload"]
    return EarlierRuns(
        workload,
        tuple(query["scores"]),
        before["revision"],
        (watermark + workload["spread"] + 1) * per_ms,
        watermark * per_ms,
    )


def revised(
    spark: SparkSession, before: dict[str, Any], query: dict[str, Any], checkpoint: str
) -> bool:
    """Whether a workload has changed in a way that it may; raises if it may not."""
    old, new = before["query"].get("workload"), query.get("workload")
    if old == new or old is None or new is None:
        return False
    for name, now in new["queries"].items():
        was = old["queries"].get(name)
        if was is None:
            continue
        *window, score = was[:_DEFINES]
        if window != now[: _DEFINES - 1] or not same(score, now[_DEFINES - 1]):
            raise QueryError(
                f"query {name!r} of checkpoint {checkpoint} was {was[:_DEFINES]} and is now "
                f"{now[:_DEFINES]} (k, window, slide, offset of ends, full, score)",
                "the query that it was: a job may add queries and remove them",
                "give the new query a name of its own",
            )
    if all(old[name] == new[name] for name in ("queries", "eras", "largest")):
        return False
    if new["goes_on"] != before["revision"] and manifest.committed(spark, checkpoint) is not None:
        raise QueryError(
            f"the queries are not those of checkpoint {checkpoint}",
            "a workload that knows how far the checkpoint is",
            "write top_k_workload(..., checkpoint=...), and claim what it returns",
        )
    return True
