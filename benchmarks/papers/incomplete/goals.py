"""Goals of the algorithms, measured in one run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record
from benchmarks.papers.incomplete.running import FULL, QUICK, Effort, Point, run
from benchmarks.papers.incomplete.sweep import METRICS, printed
from benchmarks.study import main
from skyband import IncompleteMonitor, TopKIncomplete, last
from skyband.datasets.incomplete import Sightings, sightings

NEAR = 0.1  # of the paper's sizes
PRECISION, TUPLES = 0.95, 1e6


@dataclass(frozen=True)
class Goals:
    """Sizes, precision and speed."""

    effort: Effort = FULL
    rows: int = 2_000_000
    name: str = "incomplete_goals"

    def sized(self, quick: bool) -> Goals:
        """Fewer rows."""
        return Goals(QUICK, 300_000) if quick else self

    def collect(self) -> list[Record]:
        """One record per goal."""
        return [*self._sizes(), *self._approximate(), *self._ours(), *self._speeds()]

    def _sizes(self) -> Iterator[Record]:
        for table, point in (
            *(("table1", Point("eaa", streams=n)) for n in (3, 4, 6)),
            *(("table2", Point("eaa", k=k)) for k in (10, 20, 50, 100)),
        ):
            paper = printed(table)[point, "items"]
            items = run(point, self.effort).items
            met = abs(items / paper - 1) <= NEAR
            yield _record(point, f"{table}: items", f"{paper:g} within 10 %", items, met)

    def _approximate(self) -> Iterator[Record]:
        for k in (10, 100):
            point = Point("approximate", k=k)
            cost, paper = run(point, self.effort), printed("table2")
            items = paper[point, "items"]
            yield _record(
                point, "table2: items", f"{items:g} within 10 %", cost.items,
                abs(cost.items / items - 1) <= NEAR,
            )  # fmt: skip
            least = paper[point, "precision"]
            yield _record(
                point, "table2: precision", f"at least {least:g}", cost.precision,
                cost.precision >= least,
            )  # fmt: skip

    def _ours(self) -> Iterator[Record]:
        point = Point("likely")
        cost = run(point, self.effort)
        most = printed("table2")[Point("approximate"), "items"]
        rival = run(Point("approximate"), self.effort).items
        yield _record(
            point, "items", f"at most {most:g}, published", cost.items, cost.items <= most
        )
        yield _record(
            point,
            "items",
            f"at most {rival:.4g}, measured",
            cost.items,
            cost.items <= rival,
        )
        yield _record(
            point, "precision", f"at least {PRECISION:g}", cost.precision,
            cost.precision >= PRECISION,
        )  # fmt: skip

    def _speeds(self) -> Iterator[Record]:
        rows = sightings(self.rows, 3, 0.5, 80, 1)
        size = 100_000
        for algorithm, slide in (("eaa", 1_000), ("sla", 1_000), ("likely", 1_000)):
            point = Point(algorithm, window=size, k=100)
            speed = _tuples_per_s(rows, point, slide)
            wanted = f"at least {TUPLES:,.0f}" if algorithm == "eaa" else "for comparison"
            met = speed >= TUPLES if algorithm == "eaa" else None
            yield _record(point, f"tuples/s, slide {slide:,}", wanted, speed, met)

    def show(self, records: list[Record], console: Console) -> None:
        """Each goal, and whether it is met."""
        words = {True: "yes", False: "NO", None: ""}
        rows = [
            (
                r["goal"], r["algorithm"], r["streams"], r["window"], r["k"], r["wanted"],
                r["measured"], words[r["met"]],
            )
            for r in records
        ]  # fmt: skip
        columns = ("goal", "algorithm", "streams", "window", "k", "wanted", "measured", "met")
        caption = f"{self.effort.seeds} streams of {self.effort.windows} windows each; xi = 0.5."
        console.print(report.table("Goals", columns, rows, caption))

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """Nothing: the figures show the same numbers."""
        del records, folder
        return []


def _tuples_per_s(rows: Sightings, point: Point, slide: int) -> float:
    """Rows a second of CPU time once the window is full, in batches; the best of three parts."""
    names = [f"s{at}" for at in range(point.streams)]
    window = last(count=point.window, slide=slide)
    monitor = IncompleteMonitor(
        TopKIncomplete(point.k, names, window, repeats="none"), point.algorithm
    )
    first = min(point.window, len(rows.id) // 2)
    monitor.push(*(column[:first] for column in rows))
    best = 0.0
    edges = np.linspace(first, len(rows.id), 4).astype(int)
    for low, high in pairwise(edges.tolist()):
        began = time.process_time()
        for at in range(low, high, 50_000):
            monitor.push(*(column[at : min(at + 50_000, high)] for column in rows))
        best = max(best, (high - low) / (time.process_time() - began))
    return float(best)


def _record(point: Point, goal: str, wanted: str, measured: float, met: bool | None) -> Record:
    return {
        "paper": "incomplete",
        "table": "goals",
        "streams": point.streams,
        "window": point.window,
        "k": point.k,
        "xi": point.xi,
        "algorithm": point.algorithm,
        **{name: measured if name in goal else None for name in METRICS},
        "tuples_per_s": measured if "tuples" in goal else None,
        "goal": goal,
        "wanted": wanted,
        "measured": measured,
        "met": met,
    }


STUDY = Goals()

if __name__ == "__main__":
    raise SystemExit(main(STUDY.sized))
