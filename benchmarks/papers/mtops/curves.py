"""A figure of the paper: CPU time or memory of some algorithms while workloads grow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record
from benchmarks.papers.mtops.claims import claimed, claims, stated
from benchmarks.papers.mtops.running import QUICK, WHOLE, Cost, Effort, run
from benchmarks.papers.mtops.workloads import Parameters

ALGORITHMS = ("independent", "mtopband", "mtoplist", "mtopmerge")
DATASETS = ("stock", "gmti")


@dataclass(frozen=True)
class Curves:
    """One figure: workloads of different sizes, drawn alike."""

    figure: str
    title: str
    metric: Literal["cpu", "memory"]
    parameters: Parameters
    numbers: tuple[int, ...] = (10, 100, 1_000)
    datasets: tuple[str, ...] = DATASETS
    algorithms: tuple[str, ...] = ALGORITHMS
    effort: Effort = WHOLE
    remark: str = ""

    @property
    def name(self) -> str:
        """The name of its figure."""
        return f"mtops_figure{self.figure}"

    def sized(self, quick: bool) -> Curves:
        """The whole figure, or fewer objects and no lists for a thousand queries."""
        return replace(self, effort=QUICK) if quick else self

    @property
    def field(self) -> str:
        """What is drawn."""
        return "ns_per_object" if self.metric == "cpu" else "state_bytes"

    def points(self) -> list[Record]:
        """One record per stream, number of queries and algorithm."""
        records: list[Record] = []
        total = len(self.datasets) * len(self.numbers) * len(self.algorithms)
        with report.progress(f"figure {self.figure}", total) as step:
            for dataset in self.datasets:
                for number in self.numbers:
                    for algorithm in self.algorithms:
                        step(f"{dataset} {number:,} queries {algorithm}")
                        cost = run(dataset, self.parameters, number, algorithm, self.effort)
                        if cost is not None:
                            records.append(self._record(dataset, number, algorithm, cost))
        return records

    def collect(self) -> list[Record]:
        """The points, then one record per claim of the text and stream."""
        records = self.points()
        return records + claimed(self.figure, records)

    def _record(self, dataset: str, number: int, algorithm: str, cost: Cost) -> Record:
        notes = []
        if cost.measured < number:
            notes.append(f"scaled up from {cost.measured} queries drawn at random")
        if cost.objects < self.effort.objects:
            notes.append(f"{cost.objects:,} objects timed")
        record = {
            "paper": "mtops",
            "figure": self.figure,
            "dataset": dataset,
            "queries": number,
            "algorithm": algorithm,
            "metric": self.field,
            "measured": 0.0,
            "published": self._printed(number, algorithm),
            "bound": "",
            "note": "; ".join(notes),
            "ns_per_object": cost.ns_per_object,
            "state_bytes": round(cost.state_bytes),
            "rows_per_object": cost.rows_per_object,
            "objects": cost.objects,
            "queries_measured": cost.measured,
        }
        return {**record, "measured": record[self.field]}

    def _printed(self, number: int, algorithm: str) -> float | None:
        """The paper's number for a point of the figure, where its text gives one."""
        for claim in claims():
            about = (claim.figures, claim.metric, claim.queries, claim.algorithm)
            if about == ((self.figure,), "s_per_object", str(number), algorithm):
                return claim.number * 1e9
        return None

    def show(self, records: list[Record], console: Console) -> None:
        """The curves as a table, then the text's claims beside ours."""
        points = {
            (r["dataset"], r["queries"], r["algorithm"]): r
            for r in records
            if r["metric"] == self.field
        }
        unit = "ns/object" if self.metric == "cpu" else "bytes"
        others = [a for a in self.algorithms if a != "independent"]
        columns = ["stream", "queries", *(f"{a}\n{unit}" for a in self.algorithms)]
        columns += [f"independent\n/ {a}" for a in others]
        columns += ["rows of answers\nper object"]
        rows = []
        for dataset in self.datasets:
            for number in self.numbers:
                mine = {a: points.get((dataset, number, a)) for a in self.algorithms}
                cost = {a: r["measured"] if r else None for a, r in mine.items()}
                row: list[Any] = [dataset, number, *(self._cell(r) for r in mine.values())]
                row += [report.ratio(cost.get("independent"), cost[a]) for a in others]
                last = mine.get(self.algorithms[-1])
                rows.append([*row, last and last["rows_per_object"]])
        console.print(
            report.table(f"Figure {self.figure}: {self.title}", columns, rows, self._caption())
        )
        statements = stated(r for r in records if r["metric"] != self.field)
        if statements:
            console.print(
                report.table(
                    f"Figure {self.figure}: what the text states",
                    ("stream", "claim", "of", "queries", "paper", "ours", "where"),
                    statements,
                    "",
                )
            )

    def _cell(self, record: Record | None) -> str:
        if record is None:
            return "skipped"
        cost = record["measured"]
        text = report.number(float(cost)) if self.metric == "cpu" else report.size(cost)
        return text + (" ~" if record["queries_measured"] < record["queries"] else "")

    def _caption(self) -> str:
        effort = self.effort
        return (
            f"{self.parameters.spoken}; look-alikes of the streams; {effort.objects:,} objects "
            f"after those that fill the largest window, or as many as {effort.budget:g} s allow. "
            f"~ scaled up from {effort.sample} queries drawn at random. {self.remark}"
        ).strip()

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """A panel per stream, both axes logarithmic; what the text states as hollow markers."""
        figure, axes = report.panels(
            1,
            len(self.datasets),
            f"MTopS, Figure {self.figure}: {self.title}",
            panel=(4.4, 3.6),
            sharey=True,
        )
        scale = 1.0 if self.metric == "cpu" else 1 / (1 << 20)
        for panel, dataset in zip(axes[0], self.datasets, strict=True):
            for side in ("measured", "published"):
                for algorithm in self.algorithms:
                    mine = [
                        r
                        for r in records
                        if (r["metric"], r["dataset"]) == (self.field, dataset)
                        and r["algorithm"] == algorithm
                        and r[side] is not None
                    ]
                    report.curve(
                        panel,
                        [r["queries"] for r in mine],
                        [r[side] * scale for r in mine],
                        algorithm,
                        published=side == "published",
                    )
            panel.set_xscale("log")
            panel.set_yscale("log")
            panel.set_xlabel("queries")
            panel.set_title(f"{dataset} look-alike", loc="left")
            panel.set_xticks(self.numbers, [f"{number:,}" for number in self.numbers])
            panel.minorticks_off()
        axes[0][0].set_ylabel("ns per object" if self.metric == "cpu" else "MB of state")
        report.plain_ticks(axes[0][0])
        report.legend(figure, axes[0])
        return report.save(figure, folder, self.name)
