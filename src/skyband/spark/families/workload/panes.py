"""The native part: the best rows of each pane of a workload, by each of its scores.

One aggregation inside the JVM serves all queries: of a pane no more rows can win than the largest
k. Where queries rank by several scores, the same pass finds the best by each.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skyband.spark.families.workload.boundaries import LATE, Boundaries, Era, Progression
from skyband.spark.families.workload.plan import SharedQuestion
from skyband.spark.panes import AT, BEST, LABEL, key_names, reached_place, score_names

PANE = "_sky_pane"


def placed_in_panes(rows: DataFrame, eras: tuple[Era, ...], at: str) -> DataFrame:
    """Add each row's label and pane, as numbers."""
    label, pane = _bounds(F.col(at), eras)
    return rows.withColumn(LABEL, label).withColumn(PANE, pane)


def labelled(rows: DataFrame, question: SharedQuestion) -> DataFrame:
    """Add label and pane of each row; on a stream, the watermark that closes panes."""
    rows = placed_in_panes(rows, question.eras, AT)
    if not rows.isStreaming:
        return rows
    label = F.col(LABEL)
    moment = F.timestamp_micros(label) if question.base.timed else F.timestamp_millis(label)
    late = f"{question.behind} milliseconds"
    return rows.withColumn(LABEL, moment).withWatermark(LABEL, late)


def panes(rows: DataFrame, question: SharedQuestion) -> DataFrame:
    """The best rows of each pane: keys, pane, then scores and kept columns by each score."""
    base = question.base
    keys = key_names(base)
    kept = [f"kept_{i}" for i in range(len(base.kept))]
    ties = [f"tie_{i}" for i in range(len(base.ties))]
    names = score_names(len(question.scores))
    best = [
        F.max_by(F.struct(score, *kept), F.struct(score, AT, *ties), k).alias(f"{BEST}_{i}")
        for i, (score, k) in enumerate(zip(names, question.largest, strict=True))
    ]
    newest = [] if base.timed else [F.max(AT).alias(AT)]
    found = rows.groupBy(*keys, LABEL, PANE).agg(*best, *newest)
    ranked = {f"{BEST}_{i}": _with(f"{BEST}_{i}", score) for i, score in enumerate(names)}
    columns: list[Column] = []
    for i, score in enumerate(names):
        columns.append(F.col(f"{BEST}_{i}")[score].alias(f"scores_{i}"))
        columns += [F.col(f"{BEST}_{i}")[name].alias(f"{name}_by_{i}") for name in kept]
    return found.withColumns(ranked).select(
        *keys,
        F.col(PANE).alias("pane"),
        *columns,
        *([reached_place(F.col(AT)).alias("reached")] if newest else []),
    )


def _with(rows: str, score: str) -> Column:
    """Those of an array of rows that have a score."""
    return F.filter(rows, lambda row: row[score].isNotNull())


def all_reached(panes: DataFrame, rows: DataFrame) -> DataFrame:
    """Panes of a batch by key, whose windows are completed by the rows of any key."""
    return panes.withColumn("reached", reached_place(rows.agg(F.max(AT)).scalar()))


def _bounds(at: Column, eras: tuple[Era, ...]) -> tuple[Column, Column]:
    """What :func:`bounds_of` gives, natively."""
    label, pane = _within(at, eras[-1], None)
    for era, following in reversed(list(pairwise(eras))):
        assert following.begins is not None
        earlier = at < F.lit(following.begins)
        own_label, own_pane = _within(at, era, following.begins)
        label = F.when(earlier, own_label).otherwise(label)
        pane = F.when(earlier, own_pane).otherwise(pane)
    first = eras[0].begins
    if first is None:
        return label, pane
    early, late = at < F.lit(first), F.lit(LATE).cast("bigint")
    return F.when(early, late).otherwise(label), F.when(early, late).otherwise(pane)


def _within(at: Column, era: Era, until: int | None) -> tuple[Column, Column]:
    label, pane = _label(at, era.boundaries), _pane(at, era.boundaries)
    if until is not None:
        label = F.least(label, F.lit(until).cast("bigint"))
    if era.begins is not None:
        pane = F.greatest(pane, F.lit(era.begins).cast("bigint"))
    return label, pane


def _label(at: Column, boundaries: Boundaries) -> Column:
    return _one_of([_floor(at, p) + F.lit(p.slide) for p in boundaries.ends], F.least)


def _pane(at: Column, boundaries: Boundaries) -> Column:
    return _one_of([_floor(at, p) for p in boundaries.all], F.greatest)


def _floor(at: Column, progression: Progression) -> Column:
    """The last place of a progression at or before a place."""
    inside = F.pmod(at - F.lit(progression.phase), F.lit(progression.slide))
    return (at - inside).cast("bigint")


def _one_of(columns: list[Column], choose: Callable[..., Column]) -> Column:
    return columns[0] if len(columns) == 1 else choose(*columns)
