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
from skyband.query import RANK_BYS, RankBy, Ties, TopK
from skyband.spark.families.workload.boundaries import Boundaries, Era
from skyband.spark.jobs import checkpoint as manifest
from skyband.spark.jobs.checkpoint import same_score as same
from skyband.spark.options import plain_path
from skyband.windows import CountWindow
from skyband.workload.queries import Workload

PaneOrder = tuple[Ties, RankBy]
USUAL_ORDER: PaneOrder = ("newest", "row_number")

_SCORE = 5  # the place of the score among the values of a plain query


def plain_query(query: TopK, by: str) -> list[Any]:
    """A query as values that JSON knows: k, window, slide, offset of ends, full, score.

    Behind them stands what is unusual in it, if anything is: its ties, ranks, kind of window.
    """
    window = query.window
    full = isinstance(window, CountWindow) and window.full
    unusual = {
        **({"ties": query.ties} if query.ties != "newest" else {}),
        **({"rank_by": query.rank_by} if query.shares_ranks else {}),
        **({"window": window.kind} if window.panes.together else {}),
    }
    size = 0 if window.kind == "all_time" else window.size
    plain: list[Any] = [query.k, size, window.slide, window.end_offset, full, by]
    return [*plain, unusual] if unusual else plain


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
    ``pane_order``   that by which the best rows of panes are chosen
    """

    workload: dict[str, Any]
    scores: tuple[str, ...]
    revision: int
    fresh_from: int
    late_before: int
    pane_order: PaneOrder = USUAL_ORDER

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

    def check_windows(self, workload: Workload) -> None:
        """Refuse windows of all time that join: they hold rows that nobody kept."""
        for name, query in workload.queries.items():
            if name not in self.workload["queries"] and query.window.kind == "all_time":
                raise QueryError(
                    f"query {name!r} over {query.window} joins a job that has begun",
                    "windows that begin after its rows",
                    "start a new checkpoint, and a new sink, for it",
                )

    def checked_order(self, order: PaneOrder) -> PaneOrder:
        """The order in which the job chooses the best rows of panes, if it serves another.

        Rows of the best ranks hold the k best rows; rows of the best scores hold both.
        """
        least, most = (RANK_BYS.index(rank_by) for _, rank_by in (order, self.pane_order))
        if order != self.pane_order and least >= most:
            ties, rank_by = self.pane_order
            raise QueryError(
                f"queries with ties={order[0]!r} and rank_by={order[1]!r} among them join a job",
                f"what its panes hold: the best rows by ties={ties!r}, rank_by={rank_by!r}",
                "start a new checkpoint, and a new sink, for them",
            )
        return self.pane_order

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
        (query.get("ties", USUAL_ORDER[0]), query.get("rank_by", USUAL_ORDER[1])),
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
        *old_query, _ = was  # behind a query stands where its windows are complete
        *new_query, _ = now
        rest = [[*each[:_SCORE], *each[_SCORE + 1 :]] for each in (old_query, new_query)]
        if rest[0] != rest[1] or not same(old_query[_SCORE], new_query[_SCORE]):
            raise QueryError(
                f"query {name!r} of checkpoint {checkpoint} was {old_query} and is now "
                f"{new_query} (k, window, slide, offset of ends, full, score, what is unusual)",
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
