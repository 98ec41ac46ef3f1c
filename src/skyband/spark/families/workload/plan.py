"""A workload on a DataFrame, checked against its columns before anything runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike
from typing import Any

from pyspark.sql import Column, DataFrame

from skyband.durations import Duration
from skyband.errors import QueryError
from skyband.spark.families.workload.boundaries import Boundaries, Era, step_of
from skyband.spark.families.workload.manifest_codec import packed, plain_query
from skyband.spark.families.workload.restart import Past
from skyband.spark.options import Asked, Names
from skyband.spark.plan import Question, names_score, question, score_of
from skyband.windows import TimeWindow
from skyband.workload.queries import Workload

QUERY = "query"
"""The result column that says which query a row answers."""


@dataclass(frozen=True)
class SharedAsked:
    """What :func:`skyband.spark.top_k_workload` was asked, as it was written."""

    workload: Workload
    time: str | None = None
    sequence: str | None = None
    partition_by: Names | None = None
    id: Names | None = None
    keep: Names | None = None
    delay: Any = None
    skew: Duration | None = "1 hour"
    deduplicate_by: Names | None = None
    drain: str | None = None
    checkpoint: str | PathLike[str] | None = None

    def check(self) -> None:
        """Refuse what no DataFrame can make right."""
        if not isinstance(self.workload, Workload):
            raise QueryError(
                f"workload is {self.workload!r}",
                "a Workload",
                "write Workload({'name': TopK(k=10, window=last(time='1 hour'))})",
            )
        model = self.workload.model
        if model.emit != "all":
            first = next(iter(self.workload))
            raise QueryError(
                f"query {first!r} emits {model.emit!r}",
                "emit='all': on Spark a workload is answered with whole rankings",
                "leave emit out, or ask each query with top_k",
            )
        if isinstance(model.window, TimeWindow) and model.window.unit != "us":
            raise QueryError(
                "windows of ticks", "durations such as '1 hour'", "write last(time='1 hour')"
            )
        if self.workload.counted and self.sequence is None:
            raise QueryError(
                "windows that count rows as they arrive",
                "sequence=, a dense number 0, 1, 2, ..., or windows of time: arrivals by key are "
                "answered for one query at a time",
                "write sequence='offset', or ask each query with top_k",
            )
        self.like_one(self.workload.scores).query()

    def like_one(self, scores: tuple[str, ...]) -> Asked:
        """The same as one query, for all but its windows."""
        workload = self.workload
        window = workload.model.window
        size: Any = window.size
        slide: Any = window.slide
        if isinstance(window, TimeWindow):
            size, slide = timedelta(microseconds=size), timedelta(microseconds=slide)
        by = sorted(scores, key=names_score, reverse=True)[0]
        return Asked(
            k=max(query.k for query in workload.queries.values()),
            by=by,
            window=size,
            slide=slide,
            time=self.time,
            sequence=self.sequence,
            partition_by=self.partition_by,
            id=self.id,
            keep=self.keep,
            delay=self.delay,
            skew=self.skew,
            deduplicate_by=self.deduplicate_by,
            drain=self.drain,
        )


@dataclass(frozen=True)
class SharedQuestion:
    """A workload that fits a DataFrame.

    ``base`` is the same as one query, for all but its windows. ``largest`` is the largest k of the
    queries by each of the ``scores``. ``since`` holds, for queries that joined a running job, the
    place from which on their windows are complete. ``spread`` is how many milliseconds the
    watermark of earlier runs was behind the labels, at most. ``goes_on`` is the revision of the
    manifest that all this continues, 0 for a new job.
    """

    workload: Workload
    base: Question
    scores: tuple[str, ...]
    columns: tuple[Column, ...]
    largest: tuple[int, ...]
    eras: tuple[Era, ...]
    since: Mapping[str, int]
    spread: int
    goes_on: int

    @property
    def per_ms(self) -> int:
        """How many units of the windows a millisecond of Spark's watermark holds."""
        return 1000 if self.base.timed else 1

    @property
    def behind(self) -> int:
        """Milliseconds by which the watermark follows the labels."""
        return -(-(step_of(self.eras) + self.base.delay) // self.per_ms)

    @property
    def digest(self) -> str:
        """A short name for this workload among others."""
        text = json.dumps(self.description(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def description(self) -> dict[str, Any]:
        """What a checkpoint depends on, as plain values: see the manifest.

        What may change while a job goes on is in ``workload``.
        """
        one = self.base.description()
        same = ("windows", "time", "delay", "keys", "order", "keep", "emit")
        more = ("deduplicate_by", "drainable")
        return {
            **{name: one[name] for name in (*same, *more)},
            "scores": list(self.scores),
            "workload": {
                "queries": {
                    name: [*plain_query(query, self.workload.by[name]), self.since.get(name)]
                    for name, query in self.workload.queries.items()
                },
                "eras": [era.plain() for era in self.eras],
                "largest": list(self.largest),
                "spread": max(self.behind, self.spread),
                "goes_on": self.goes_on,
            },
        }

    def metadata(self) -> dict[str, Any]:
        """The description for a column, short: it goes into every file that a sink writes."""
        found = self.description()
        return {**found, "workload": packed(found["workload"]), "queries": len(self.workload)}


def shared_question(df: DataFrame, asked: SharedAsked, past: Past | None = None) -> SharedQuestion:
    """Check a workload against a DataFrame; raises before any row is read."""
    asked.check()
    workload = asked.workload
    scores = workload.scores if past is None else past.scores(workload)
    base = question(df, asked.like_one(scores))
    for name in (*base.keys, *(column.name for column in base.kept)):
        if name.lower() == QUERY:
            raise QueryError(
                f"column {name!r} has the name of a result column",
                "another name",
                "rename it before" if asked.keep else "name the columns to keep: keep=[...]",
            )
    columns = tuple(score_of(df, score) for score in scores)
    largest = dict.fromkeys(scores, 1)
    for name, query in workload.queries.items():
        by = workload.by[name]
        largest[by] = max(largest[by], query.k)
    boundaries = Boundaries.of(query.window for query in workload.queries.values())
    ks = tuple(largest.values())
    if past is None:
        eras = (Era(None, boundaries),)
        return SharedQuestion(workload, base, scores, columns, ks, eras, {}, 0, 0)
    return SharedQuestion(
        workload,
        base,
        scores,
        columns,
        tuple(map(max, ks, past.largest)),
        past.eras(boundaries),
        past.since(workload),
        past.spread,
        past.revision,
    )
