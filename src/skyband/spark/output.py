"""Answers, one row per window, as the ranked rows that people read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skyband.spark.columns import indexed
from skyband.spark.state.updates import UPDATE_COLUMNS

if TYPE_CHECKING:
    from skyband.spark.columns import TransportColumn
    from skyband.spark.plan import BasePlan, CarriedColumn, Plan, WindowPlan


def ranked(answers: DataFrame, plan: WindowPlan) -> DataFrame:
    """Make one row per rank: window, keys, rank, score, changes, carried columns."""
    base, changes = plan.base, plan.changes
    shared = plan.rank_by != "row_number"
    ranks = [*(["ranks"] if changes or shared else []), *(["previous"] if changes else [])]
    columns: list[TransportColumn | CarriedColumn] = [*base.columns, *plan.carried_columns]
    arrays = ["scores", *ranks, *indexed("kept", len(columns))]
    grid, window = plan.grid, F.col("window")
    bounds = base.axis.bounds_sql(grid.window_start_sql(window), grid.window_end_sql(window))
    windows = F.count_if("final") if plan.updates else F.count(F.lit(1))
    # a window that was shown and ranks nothing any more is a row without a rank
    exploded = F.posexplode_outer if plan.updates else F.posexplode
    rows = counted(answers, plan, windows, F.sum(F.size("scores"))).select(
        bounds.alias("window"),
        *key_columns(base),
        *update_columns(plan),
        exploded(F.arrays_zip(*arrays)).alias("place", "row"),
    )
    row = F.col("row")
    rank = changed_rank(row) if changes else row["ranks"] if shared else F.col("place") + 1
    return rows.select(
        F.col("window"),
        *unpacked_keys(base),
        rank_column(rank, plan),
        plan.score.unpack(row["scores"]).alias("score"),
        *(change_columns(row) if changes else []),
        *update_columns(plan),
        *(column.unpack(row[f"kept_{i}"]) for i, column in enumerate(columns)),
    )


def key_columns(base: BasePlan) -> list[Column]:
    """The keys as they pass through Python."""
    return [F.col(f"key_{i}") for i in range(len(base.keys))]


def unpacked_keys(base: BasePlan) -> list[Column]:
    """The keys as they were."""
    return [key.unpack(column) for key, column in zip(base.keys, key_columns(base), strict=True)]


def rank_column(rank: Column, plan: Plan) -> Column:
    """The rank, which carries the description of the query as metadata, for the manifest."""
    return rank.cast("int").alias("rank", metadata={"skyband": plan.metadata})


def update_columns(plan: Plan) -> list[Column]:
    """Which revision of its window's ranking a row belongs to, and whether the last."""
    return [F.col(name) for name in UPDATE_COLUMNS] if plan.updates else []


def counted(answers: DataFrame, plan: Plan, windows: Column, ranked: Column) -> DataFrame:
    """Report how many windows were answered, how many rows ranked, from how many candidates."""
    return answers.observe(
        windows_metric(plan.digest),
        F.coalesce(windows, F.lit(0)).alias("windows"),
        F.coalesce(F.sum("candidates"), F.lit(0)).alias("candidates"),
        F.coalesce(ranked, F.lit(0)).alias("ranked"),
    )


def windows_metric(digest: str) -> str:
    """The name under which a stream's progress reports windows answered and candidates kept."""
    return f"skyband windows {digest}"


def changed_rank(row: Column) -> Column:
    """The rank of a row of changes; NULL if it left."""
    return F.nullif(row["ranks"], F.lit(0))


def change_columns(row: Column) -> list[Column]:
    """What a row of changes reports, and its previous rank; NULL if it entered."""
    change = F.when(row["ranks"] == 0, "left").when(row["previous"] == 0, "entered")
    return [
        change.otherwise("moved").alias("change"),
        F.nullif(row["previous"], F.lit(0)).cast("int").alias("previous_rank"),
    ]
