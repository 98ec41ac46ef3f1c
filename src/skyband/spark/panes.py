"""Rows to panes, inside the JVM: labels, the watermark that closes panes, and what a pane holds.

Families put these steps together in :meth:`skyband.spark.plan.Plan.panes`. Where only the k best
rows of a pane matter, no other row ever reaches Python.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from skyband.query import RankBy
from skyband.spark import draining
from skyband.spark.axis import PaneGrid
from skyband.spark.columns import BEST, LABEL, LONGER, POSITION, SCORE
from skyband.spark.plan import BasePlan, WindowPlan
from skyband.spark.state.row_blocks import RowBlocks

_ROWS, _AGE, _RANK = "_sky_rows", "_sky_age", "_sky_rank"
_ROW, _ORDER = "_sky_row", "_sky_order"


def settled(rows: DataFrame, base: BasePlan, grid: PaneGrid) -> DataFrame:
    """Rows with the labels of their panes, each once; on a stream, with the watermark."""
    return deduplicated(watermarked(labelled(rows, grid), base, grid.slide), base)


def labelled(rows: DataFrame, grid: PaneGrid) -> DataFrame:
    """Add the label as a number, and whether a row lives longer than others of its step."""
    position = F.col(POSITION)
    if grid.split:
        rows = rows.withColumn(LONGER, grid.in_longer_pane_sql(position))
    return rows.withColumn(LABEL, grid.label_sql(position))


def watermarked(rows: DataFrame, base: BasePlan, step: int) -> DataFrame:
    """On a stream, make labels moments with the watermark that closes panes; drop the mark.

    ``step`` is the most that a label lies after its row.
    """
    if not rows.isStreaming:
        return rows
    axis = base.axis
    behind = f"{axis.watermark_delay(step)} milliseconds"
    rows = rows.withColumn(LABEL, axis.moment_sql(F.col(LABEL))).withWatermark(LABEL, behind)
    return rows if base.drain is None else draining.without_mark(rows, axis)


def deduplicated(rows: DataFrame, base: BasePlan) -> DataFrame:
    """Each row once, by the columns that tell rows apart."""
    same = [f"same_{i}" for i in range(len(base.deduplicate_by))]
    if not same:
        return rows
    return (
        rows.dropDuplicatesWithinWatermark(same) if rows.isStreaming else rows.dropDuplicates(same)
    )


def best_rows(rows: DataFrame, plan: WindowPlan, newest: Column | None) -> DataFrame:
    """The k best rows of each pane: keys, label, pane number, scores, carried columns.

    Where windows count rows, the last column is the last window that they complete.
    """
    base, k = plan.base, plan.query.k
    names = [*base.key_names, LABEL, *longer(rows)]
    last = [F.max(POSITION).alias(POSITION)] if base.axis.counts_rows else []
    if plan.oldest_first:
        order = oldest_of_best(F.col(SCORE), base, plan.score.is_exact)
        best = F.min_by(_ROW, _ORDER, k)
    else:
        order = F.struct(SCORE, POSITION, *base.tie_names)
        best = F.max_by(_ROW, _ORDER, k)
    # Spark compiles what stands below an aggregation of this kind, but not what is in it
    row = F.struct(SCORE, *base.column_names)
    below = rows.select(*names, row.alias(_ROW), order.alias(_ORDER), *([POSITION] if last else []))
    groups = below.groupBy(*names).agg(best.alias(BEST), *last)
    ranked = F.filter(BEST, lambda row: row[SCORE].isNotNull())
    return _unpacked(groups.withColumn(BEST, ranked), plan, newest)


def rows_of_best_scores(rows: DataFrame, plan: WindowPlan, newest: Column | None) -> DataFrame:
    """All rows of the k best scores of each pane, in the layout of :func:`best_rows`.

    Rows of equal score are collected first, by tasks that share a pane's scores; then only the k
    best scores of a pane go to one task. Of a batch most other rows are found before that.
    """
    groups = [*plan.base.key_names, LABEL, *longer(rows)]
    panes = collected_best_scores(
        rows, plan.base, groups, plan.query.k, plan.rank_by, plan.oldest_first
    )
    return _unpacked(panes, plan, newest)


def collected_best_scores(
    rows: DataFrame,
    base: BasePlan,
    groups: list[str],
    k: int,
    rank_by: RankBy,
    oldest_first: bool = False,
) -> DataFrame:
    """Groups of rows, with all rows of their k best scores, best first, as one array."""
    last = [F.max(POSITION).alias(POSITION)] if base.axis.counts_rows else []
    age = F.struct(POSITION, *base.tie_names).alias(_AGE)
    ranked = F.when(F.col(SCORE).isNotNull(), F.struct(age, SCORE, *base.column_names))
    if not rows.isStreaming and not last:  # streams have no ranks, and rows complete windows
        best_first = Window.partitionBy(*groups).orderBy(F.desc(SCORE))
        rank = F.call_function(rank_by).over(best_first)
        rows = rows.withColumn(_RANK, rank).filter(F.col(_RANK) <= k)
    tied = F.collect_list(ranked).alias(_ROWS)  # rows without a score are not collected
    scores = rows.groupBy(*groups, SCORE).agg(tied, *last)
    panes = scores.groupBy(*groups).agg(F.max_by(_ROWS, SCORE, k).alias(BEST), *last)
    in_order = F.flatten(F.transform(BEST, lambda tied: F.sort_array(tied, asc=oldest_first)))
    return panes.withColumn(BEST, F.coalesce(in_order, F.array()))


def oldest_of_best(score: Column, base: BasePlan, is_exact: bool = False) -> Column:
    """What sorts the best rows first, and of equal scores the oldest; rows without one last."""
    falling = F.bitwise_not(score) if is_exact else -score
    return F.struct(score.isNull(), falling, POSITION, *base.tie_names)


def _unpacked(panes: DataFrame, plan: WindowPlan, newest: Column | None) -> DataFrame:
    """Panes whose rows are one array, as one array per column."""
    base, complete = plan.base, []
    if base.axis.counts_rows:
        upto = newest if newest is not None and base.keys else F.col(POSITION)
        complete = [last_complete_window(upto, plan.grid).alias("reached")]
    return panes.select(
        *base.key_names,
        LABEL,
        pane_number(panes, plan),
        F.col(BEST)[SCORE].alias("scores"),
        *(F.col(BEST)[name].alias(name) for name in base.column_names),
        *complete,
    )


def row_blocks(rows: DataFrame, plan: WindowPlan) -> DataFrame:
    """What may still win of the rows of each task and pane, for windows shown while open.

    ``rows`` are settled.
    """
    pane, grid = pane_number(rows, plan), plan.grid
    delay = plan.base.axis.watermark_delay(grid.slide)
    blocks = plan.blocks
    assert isinstance(blocks, RowBlocks)
    return blocks.of_rows(rows, pane, F.shiftright(pane, 1), delay)


def all_rows(
    rows: DataFrame, plan: WindowPlan, names: list[str], order: list[str], columns: list[str]
) -> DataFrame:
    """All rows of each pane that have a score, as sorted arrays: label, pane number, columns.

    ``names`` tell groups apart; rows are sorted by ``order``.
    """
    row = F.struct(*order, *(name for name in columns if name not in order))
    ranked = F.when(F.col(SCORE).isNotNull(), row)  # others are not collected
    groups = rows.groupBy(*names, LABEL, *longer(rows)).agg(
        F.array_sort(F.collect_list(ranked)).alias(_ROWS)
    )
    return groups.select(
        *names,
        LABEL,
        pane_number(groups, plan),
        *(F.col(_ROWS)[name].alias(name) for name in columns),
    )


def numbered_rows(
    rows: DataFrame, plan: WindowPlan, names: list[str], columns: list[str], newest: Column | None
) -> DataFrame:
    """All rows of a batch that have a score, with the numbers of their panes, not collected.

    Where windows count rows, the last column is the last window that any row completes.
    """
    complete = [] if newest is None else [last_complete_window(newest, plan.grid).alias("reached")]
    ranked = rows.filter(F.col(SCORE).isNotNull())
    return ranked.select(*names, pane_number(ranked, plan), *columns, *complete)


def or_else(column: Column, value: Column) -> Column:
    """A column that tasks hand on which read files, and a value where it is NULL.

    To Spark the result may be NULL, as is all that Python hands on: a checkpoint that goes on
    either way is read as it was written.
    """
    return F.when(column.isNotNull(), column).when(column.isNull(), value)


def longer(rows: DataFrame) -> list[str]:
    """The column that tells the two panes of a step apart, if there are two."""
    return [LONGER] if LONGER in rows.columns else []


def pane_number(rows: DataFrame, plan: WindowPlan) -> Column:
    """The number of a pane, of its label."""
    label = F.col(LABEL)
    if rows.isStreaming:
        label = plan.base.axis.label_sql(label)
    lives_longer = F.col(LONGER) if LONGER in rows.columns else F.lit(0)
    return plan.grid.pane_sql(label, lives_longer).alias("pane")


def last_complete_window(newest: Column, grid: PaneGrid) -> Column:
    """The last window that the newest row of a sequence completes."""
    return F.call_function("div", newest + F.lit(1), F.lit(grid.slide))
