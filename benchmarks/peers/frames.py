"""Polars: dynamic groups over rows sorted by time; or panes first, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.peers.question import Question
from benchmarks.spark.stream import SLIDE


def direct(question: Question, source: Path, target: Path) -> None:
    """Group rows by overlapping windows, as ``group_by_dynamic`` does."""
    if question.kind == "rows":
        _write(_best_rows(_scored(source).sort("ts"), question), question, target)
    else:
        trades = pl.scan_parquet(source / "*.parquet").select("ts", "sector", "volume")
        _write(_best_totals(trades.sort("ts"), question), question, target)


def by_panes(question: Question, source: Path, target: Path) -> None:
    """Group the rows of each slide first, and only what is left by windows."""
    pane = pl.col("ts").dt.truncate(f"{SLIDE}s")
    if question.kind == "rows":
        panes = _best(_scored(source).group_by(pane), "id", question.k).sort("ts")
        _write(_best_rows(panes, question), question, target)
    else:
        trades = pl.scan_parquet(source / "*.parquet").select("ts", "sector", "volume")
        panes = trades.group_by(pane, "sector").agg(pl.col("volume").sum()).sort("ts")
        _write(_best_totals(panes, question), question, target)


def _scored(source: Path) -> pl.LazyFrame:
    trades = pl.scan_parquet(source / "*.parquet")
    return trades.select("ts", "id", score=pl.col("price") * pl.col("volume"))


def _best_rows(rows: pl.LazyFrame, question: Question) -> pl.LazyFrame:
    return _best(rows.group_by_dynamic("ts", **_windows(question)), "id", question.k)


def _best_totals(rows: pl.LazyFrame, question: Question) -> pl.LazyFrame:
    groups = rows.group_by_dynamic("ts", group_by="sector", **_windows(question))
    sums = groups.agg(score=pl.col("volume").sum())
    return _best(sums.group_by("ts"), "sector", question.k)


def _best(groups: Any, column: str, k: int) -> pl.LazyFrame:
    """The k best of each group, a row each, by sorting structs."""
    best = pl.struct("score", column).sort_by("score", descending=True).head(k)
    answers: pl.LazyFrame = groups.agg(best=best).explode("best").unnest("best")
    return answers


def _windows(question: Question) -> dict[str, Any]:
    size = question.seconds
    return {"every": f"{SLIDE}s", "period": f"{size}s", "offset": f"{SLIDE - size}s"}


def _write(answers: pl.LazyFrame, question: Question, target: Path) -> None:
    """Write the best of each window, a row each; Polars names windows by their starts."""
    end = pl.col("ts") + pl.duration(seconds=question.seconds)
    target.mkdir(parents=True, exist_ok=True)
    ended = answers.select(pl.exclude("ts"), window_end=end)
    ended.collect().write_parquet(target / "answers.parquet")
