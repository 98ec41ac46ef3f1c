"""A figure of the paper: CPU time or memory of some algorithms while one parameter varies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from benchmarks import report
from benchmarks.measure import Measured, Point, Record, best_of, part, resident
from benchmarks.papers.mintopk.claims import claimed, claims, stated

ALGORITHMS = ("sma", "pretopk", "mintopk", "sap")


@dataclass(frozen=True)
class Sizes:
    """How much of a stream is fed: ``windows`` times the window, within bounds."""

    windows: float
    least: int
    most: int
    budget: float
    references: int  # PreTopk is skipped if it would keep more than this: k n / s
    repeats: int

    def objects(self, n: int) -> int:
        """Objects to feed for a window of n."""
        return int(min(max(self.windows * n, self.least), self.most))


WHOLE = Sizes(5, 1_000_000, 5_000_000, budget=20.0, references=20_000_000, repeats=2)
QUICK = Sizes(1.5, 200_000, 1_500_000, budget=1.0, references=2_000_000, repeats=1)


@lru_cache(maxsize=512)
def _run(dataset: str, rows: int, objects: int, point: Point, sizes: Sizes) -> Measured:
    """Run a point, cached: CPU time and memory are two figures of the same runs."""
    stream = part(resident(dataset, rows), 0, objects)
    return best_of(point, stream, budget=sizes.budget, repeats=sizes.repeats, enough=1.0)


@dataclass(frozen=True)
class Curves:
    """One figure: ``n``, ``s`` and ``k`` are what is fixed; ``s`` may be a share of n."""

    figure: str
    title: str
    metric: Literal["cpu", "memory"]
    dataset: str
    parameter: Literal["n", "s", "k"]
    values: tuple[int, ...]
    n: int = 1_000_000
    s: float = 0.1
    k: int = 1_000
    algorithms: tuple[str, ...] = ALGORITHMS
    sizes: Sizes = WHOLE
    remark: str = ""

    @property
    def name(self) -> str:
        """The name of its figure."""
        return f"mintopk_figure{self.figure}"

    def sized(self, quick: bool) -> Curves:
        """The whole figure, or shorter streams and no more than three values."""
        return replace(self, sizes=QUICK, values=self.values[-3:]) if quick else self

    @property
    def field(self) -> str:
        """What is drawn."""
        return "ns_per_object" if self.metric == "cpu" else "state_bytes"

    def query(self, value: int) -> tuple[int, int, int]:
        """n, s and k when the parameter has this value."""
        n = value if self.parameter == "n" else self.n
        s = value if self.parameter == "s" else max(round(self.s * n), 1)
        return n, s, value if self.parameter == "k" else self.k

    def collect(self) -> list[Record]:
        """One record per value and algorithm, then one per claim of the text."""
        records: list[Record] = []
        rows = max(self.sizes.objects(self.query(value)[0]) for value in self.values)
        with report.progress(
            f"figure {self.figure}", len(self.values) * len(self.algorithms)
        ) as step:
            for value in self.values:
                n, s, k = self.query(value)
                for algorithm in self.algorithms:
                    step(f"{self.parameter}={value} {algorithm}")
                    if algorithm == "pretopk" and k * n // s > self.sizes.references:
                        continue
                    point = Point(algorithm, n, s, k)
                    run = _run(self.dataset, rows, self.sizes.objects(n), point, self.sizes)
                    records.append(self._record(str(value), point, run))
        return records + claimed(self.figure, records)

    def _record(self, value: str, point: Point, run: Measured) -> Record:
        slides = max(run.counters["slides"], 1)
        record = {
            "paper": "mintopk",
            "figure": self.figure,
            "dataset": self.dataset,
            "parameter": self.parameter,
            "value": value,
            "algorithm": point.algorithm,
            "metric": self.field,
            "measured": 0.0,
            "published": self._printed(value, point.algorithm),
            "bound": "",
            "note": "" if run.complete else "stopped by the time budget",
            "n": point.n,
            "s": point.s,
            "k": point.k,
            "objects": run.objects,
            "ns_per_object": run.ns_per_object,
            "state_bytes": run.state_bytes,
            "window_bytes": run.window_bytes,
            "candidates": run.candidates,
            "recomputation_rate": run.counters["rescans"] / slides,
        }
        return {**record, "measured": record[self.field]}

    def _printed(self, value: str, algorithm: str) -> float | None:
        """The paper's number for a point of the figure, where its text gives one."""
        for claim in claims():
            about = (claim.figure, claim.metric, claim.value, claim.algorithm)
            if about == (self.figure, "ms_per_object", value, algorithm):
                return claim.number * 1e6
        return None

    def show(self, records: list[Record], console: Console) -> None:
        """The curves as a table, then the text's claims beside ours."""
        points = {(r["value"], r["algorithm"]): r for r in records if r["metric"] == self.field}
        columns: list[str] = [self.parameter]
        columns += [f"{algorithm}\n{self._unit()}" for algorithm in self.algorithms]
        columns += [f"{algorithm}\n/ sma" for algorithm in self.algorithms if algorithm != "sma"]
        columns += ["mintopk\ncandidates / k", "sma\nrecomputations / slide"]
        rows = []
        for value in map(str, self.values):
            mine = {a: points.get((value, a)) for a in self.algorithms}
            cost = {a: r["measured"] if r else None for a, r in mine.items()}
            row: list[Any] = [f"{int(value):,}", *(self._cell(r) for r in mine.values())]
            row += [report.ratio(cost[a], cost.get("sma")) for a in cost if a != "sma"]
            mintopk, sma = mine.get("mintopk"), mine.get("sma")
            row.append(mintopk and mintopk["candidates"] / mintopk["k"])
            row.append(sma and sma["recomputation_rate"])
            rows.append(row)
        console.print(
            report.table(f"Figure {self.figure}: {self.title}", columns, rows, self._caption())
        )
        statements = stated(r for r in records if r["metric"] != self.field)
        if statements:
            console.print(
                report.table(
                    f"Figure {self.figure}: what the text states",
                    ("claim", "of", "at", "paper", "ours", "note"),
                    statements,
                    "",
                )
            )

    def _unit(self) -> str:
        return "ns/object" if self.metric == "cpu" else "bytes"

    def _cell(self, record: Record | None) -> str:
        if record is None:
            return "skipped"
        text = (
            report.number(record["measured"])
            if self.metric == "cpu"
            else report.size(record["measured"])
        )
        return text + (" *" if record["note"] else "")

    def _caption(self) -> str:
        fixed = {"n": f"{self.n:,}", "s": f"{self.s:.0%} of n", "k": f"{self.k:,}"}
        del fixed[self.parameter]
        given = ", ".join(f"{name} = {value}" for name, value in fixed.items())
        return (
            f"{self.dataset} look-alike, {given}; {self.sizes.windows:g} windows, at least "
            f"{self.sizes.least:,} and at most {self.sizes.most:,} objects. PreTopk is skipped "
            f"where it would keep more than {self.sizes.references:,} references (k n / s). "
            f"* stopped by the time budget. {self.remark}"
        )

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """One panel, both axes logarithmic; what the text states as hollow markers."""
        figure, axes = report.panels(
            1, 1, f"MinTopk, Figure {self.figure}: {self.title}", panel=(6.2, 3.6)
        )
        panel = axes[0][0]
        scale = 1.0 if self.metric == "cpu" else 1 / (1 << 20)
        for side in ("measured", "published"):
            for algorithm in self.algorithms:
                mine = [
                    r
                    for r in records
                    if r["metric"] == self.field
                    and r["algorithm"] == algorithm
                    and r[side] is not None
                ]
                report.curve(
                    panel,
                    [int(r["value"]) for r in mine],
                    [r[side] * scale for r in mine],
                    algorithm,
                    published=side == "published",
                )
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel({"n": "window n", "s": "slide s", "k": "k"}[self.parameter])
        panel.set_ylabel("ns per object" if self.metric == "cpu" else "MB of state")
        panel.set_title(f"{self.dataset} look-alike", loc="left")
        panel.set_xticks(self.values, [f"{value:,}" for value in self.values])
        panel.minorticks_off()
        report.plain_ticks(panel)
        report.legend(figure, [panel])
        return report.save(figure, folder, self.name)
