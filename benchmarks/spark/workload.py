"""``skyband bench spark-workload``: a thousand queries in one job, beside one, and beside Spark's.

All read the same Parquet stream with the same trigger. Spark's own way is one sliding ``max_by``
per query; as many of them as the machine bears are run, on fewer rows over the same time, and
their time per row is multiplied up to all queries: a figure that is labelled as extrapolated. On
those rows the answers of both, and of the oracle, are compared.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record
from benchmarks.spark import stream
from benchmarks.spark.sessions import session_and_folder
from benchmarks.spark.study import FILES, STYLES

MINUTE = 60
DELAY = "10 seconds"


@dataclass(frozen=True)
class Workloads:
    """Skyband with one query to a thousand, and Spark with some of them."""

    rows: int = 20_000_000
    queries: tuple[int, ...] = (1, 10, 100, 1000)
    native_queries: int = 6
    native_rows: int = 2_000_000
    repeats: int = 2
    name: str = field(default="spark_workload", init=False)

    @classmethod
    def sized(cls, quick: bool, rows: int | None = None) -> Workloads:
        """Over 2x10^7 rows, or fewer."""
        if quick:
            return cls(rows or 1_000_000, (1, 1000), 2, 300_000, 1)
        return cls(rows or 20_000_000)

    def collect(self) -> list[Record]:
        """A record per number of queries, and one of Spark's own."""
        with session_and_folder(shuffle_partitions=2) as (spark, home):
            report.note(f"writing {self.rows:,} trades")
            whole = stream.write(home / "whole", self.rows, self.rows, FILES)
            return self._measure(spark, home, whole)

    def _measure(self, spark: Any, home: Path, whole: Path) -> list[Record]:
        from benchmarks.spark.systems import stream as read
        from benchmarks.spark.systems import timed

        def run(folder: Path, count: int) -> Any:
            rows = read(spark, folder, FILES // 2)
            return timed(_skyband(rows, sample_queries(count)), home / "skyband")

        warm_up = stream.write(home / "few", min(self.rows, 400_000), self.rows, 4)
        run(warm_up, max(self.queries))  # until all is compiled
        run(warm_up, 1)
        records: list[Record] = []
        with report.progress("spark-workload", len(self.queries) + 1) as step:
            for count in self.queries:
                best = min(
                    (run(whole, count) for _ in range(self.repeats)), key=lambda took: took.seconds
                )
                records.append(_record("skyband", count, best))
                step(f"{count} queries")
            records.append(self._native(spark, home, run))
            step("native")
        return records

    def _native(self, spark: Any, home: Path, run: Any) -> Record:
        """Some of the queries by Spark itself, one after the other; compared with Skyband's."""
        from benchmarks.spark.systems import Run, timed
        from benchmarks.spark.systems import stream as read

        rows = min(self.rows, self.native_rows)
        part = stream.write(home / "part", rows, rows, FILES)
        count = max(self.queries)
        run(part, count)
        queries = sample_queries(count)
        seconds, state = 0.0, 0
        for query in queries[:: -(-count // self.native_queries)]:
            took = timed(_native(read(spark, part, FILES // 2), query), home / "native")
            seconds += took.seconds
            state += took.state_bytes
            _compare(spark, home, part, query)
        measured = len(queries[:: -(-count // self.native_queries)])
        scale = count / measured
        whole = Run(rows, seconds * scale, int(state * scale), 0, 0)
        return {**_record("native", count, whole), "extrapolated": True, "measured": measured}

    def show(self, records: list[Record], console: Console) -> None:
        """One table, then the goal."""
        one = next((r["rows_per_s"] for r in records if r["queries"] == 1), None)
        native = next((r["rows_per_s"] for r in records if r["system"] == "native"), None)
        rows = [
            (
                r["system"] + (", extrapolated" if r["extrapolated"] else ""), r["queries"],
                r["measured"], r["rows"], r["seconds"], r["rows_per_s"],
                report.ratio(one, r["rows_per_s"]), report.ratio(r["rows_per_s"], native),
                r["candidates"] or None, report.size(r["state_bytes"]),
            )
            for r in records
        ]  # fmt: skip
        console.print(
            report.table(
                f"One stream of {self.rows:,} rows, {os.cpu_count()} cores, same trigger",
                ("system", "queries", "measured", "rows", "s", "rows/s", "x one query's cost",
                 "x native speed", "candidates", "state"),
                rows,
                "Windows of 1 to 60 minutes, slides of 1 to 10, k of 10 to 100. native: Spark's "
                "max_by over sliding windows, some of the queries on fewer rows over the same "
                "time; its seconds are those of all queries, multiplied up. There its answers, "
                "Skyband's and the oracle's agreed in every line.",
            )
        )  # fmt: skip
        console.print(
            report.table("Goals", ("goal", "wanted", "measured", "met"), goals(records), "")
        )

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """Rows per second against queries."""
        figure, axes = report.panels(1, 1, "Rows per second as queries grow", panel=(4.4, 3.2))
        panel = axes[0][0]
        for system in ("skyband", "native"):
            colour, marker = STYLES[system]
            points = [r for r in records if r["system"] == system]
            label = "native, extrapolated" if system == "native" else system
            x, y = [r["queries"] for r in points], [r["rows_per_s"] for r in points]
            panel.plot(x, y, color=colour, marker=marker, label=label)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel("queries")
        panel.set_ylabel("rows per second")
        report.legend(figure, axes[0])
        return report.save(figure, folder, self.name)


def sample_queries(count: int) -> list[dict[str, Any]]:
    """So many queries, the first ones of always the same; the first has the largest windows."""
    chance = random.Random(7)
    queries = [{"name": "q0", "k": 100, "window": 60, "slide": 1}]
    while len(queries) < count:
        window = chance.randint(1, 60)
        slide = chance.randint(1, min(10, window))
        k = chance.randint(10, 100)
        queries.append({"name": f"q{len(queries)}", "k": k, "window": window, "slide": slide})
    return queries


def goals(records: list[Record]) -> list[tuple[str, str, float, str]]:
    """What one job must reach, as far as the records show."""
    speed = {r["queries"]: r["rows_per_s"] for r in records if r["system"] == "skyband"}
    if 1 not in speed or 1000 not in speed:
        return []
    cost = speed[1] / speed[1000]
    met = "yes" if cost <= 3 else "NO"
    return [("1,000 queries: cost / that of one", "at most 3", cost, met)]


def _record(system: str, queries: int, took: Any) -> Record:
    return {
        "system": system,
        "queries": queries,
        "measured": queries,
        "extrapolated": False,
        "k": 100,
        "rows": took.rows,
        "seconds": took.seconds,
        "rows_per_s": took.rows / took.seconds,
        "candidates": took.candidates,
        "state_bytes": took.state_bytes,
    }


def _skyband(rows: Any, queries: list[dict[str, Any]]) -> Any:
    from benchmarks.spark.systems import SCORE
    from skyband import Workload
    from skyband.spark import top_k_workload

    records = [
        {**query, "window": f"{query['window']} minutes", "slide": f"{query['slide']} minutes",
         "by": SCORE}
        for query in queries
    ]  # fmt: skip
    return top_k_workload(
        rows, Workload.of(records), time="ts", delay=DELAY, id="id", keep=["id", "ts"]
    )


def _native(rows: Any, query: dict[str, Any]) -> Any:
    from pyspark.sql import functions as F

    from benchmarks.spark.systems import SCORE

    scored = rows.select("ts", "id", F.expr(SCORE).alias("score"))
    size, slide = f"{query['window']} minutes", f"{query['slide']} minutes"
    shift = f"{-query['window'] % query['slide']} minutes"  # Spark aligns starts, Skyband ends
    best = F.max_by(F.struct("score", "id", "ts"), F.col("score"), query["k"])
    return (
        scored.withWatermark("ts", DELAY)
        .groupBy(F.window("ts", size, slide, shift))
        .agg(best.alias("best"))
    )


def _compare(spark: Any, home: Path, part: Path, query: dict[str, Any]) -> None:
    """Raise unless the native query, Skyband and the oracle agree on every window of a part."""
    from pyspark.sql import functions as F

    end = F.unix_micros("window.end").alias("end")
    theirs = spark.read.parquet(str(home / "native" / "out"))
    best = theirs.select(end, F.col("best.score").alias("scores")).collect()
    native = {row["end"]: list(row["scores"]) for row in best}
    ours = spark.read.parquet(str(home / "skyband" / "out")).filter(F.col("query") == query["name"])
    ranked = F.array_sort(F.collect_list(F.struct("rank", "score")))
    rows = ours.groupBy(end).agg(ranked.alias("rows")).collect()
    skyband = {row["end"]: [r["score"] for r in row["rows"]] for row in rows}
    until = min(max(native, default=0), max(skyband, default=0))
    expected = _oracle(part, query, until)
    assert expected, "nothing was answered"
    wrong = [e for e in expected if not native.get(e) == skyband.get(e) == expected[e]]
    if wrong:
        raise AssertionError(f"{query}: {len(wrong)} of {len(expected)} windows differ")


def _oracle(folder: Path, query: dict[str, Any], until: int) -> dict[int, list[float]]:
    """Each window's best scores, by sorting it."""
    at, score = stream.scores(folder)
    slide, size = (query[name] * MINUTE * 1_000_000 for name in ("slide", "window"))
    best_scores: dict[int, list[float]] = {}
    for end in range((int(at[0]) // slide + 1) * slide, until + 1, slide):
        low, high = np.searchsorted(at, [end - size, end])
        if high > low:
            best_scores[end] = np.sort(score[low:high])[::-1][: query["k"]].tolist()
    return best_scores
