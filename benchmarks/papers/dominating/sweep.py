"""A figure or table of the paper: some algorithms along one parameter, on some data sets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record
from benchmarks.papers import published
from benchmarks.papers.dominating.running import QUICK, WHOLE, Cost, Effort, Point, run, there

FOLDER = Path(__file__).parent
LABELS = {
    "updates_per_s": "updates/s",
    "accuracy": "accuracy, %",
    "events": "events",
    "exact_computations": "exact computations",
    "comparisons": "comparisons",
    "state_bytes": "bytes of state",
}
AXES = {
    "n": "points in the window",
    "d": "dimensions",
    "k": "k",
    "epsilon": "epsilon",
    "obsolete": "share of obsolete events kept",
}
ALGORITHMS = ("eva", "ada", "ada partial", "ahba", "amsa", "amsa paper", "contenders")
"""Labels: ADA without and with its partial counters, AMSA by our rule and by the paper's."""
VARIANTS: dict[str, dict[str, Any]] = {
    "ada partial": {"algorithm": "ada", "partial": True},
    "amsa paper": {"algorithm": "amsa", "rule": "paper"},
}
ORDER = ("bfa", *ALGORITHMS)
DATASETS = ("ind", "ant", "cover", "homes")
WINDOWS = {"cover": 500_000, "homes": 1_000_000}
"""Windows of data sets whose originals are short; others have two million points."""

Key = tuple[str, int, float | None, float | None, str, str]


def point(dataset: str, algorithm: str, **parameters: Any) -> Point:
    """A point, by the label of its algorithm, with the paper's defaults for other parameters."""
    defaults: dict[str, Any] = {"n": WINDOWS.get(dataset, 2_000_000)}
    if algorithm == "ahba":
        defaults |= {"epsilon": 0.1, "delta": 0.9}
    variant = VARIANTS.get(algorithm, {"algorithm": algorithm})
    return Point(dataset, **(defaults | variant | parameters))


@cache
def printed(figure: str) -> dict[Key, float]:
    """What the paper prints, by data set, k, epsilon, delta, algorithm and metric."""

    def amount(text: str) -> float | None:
        return float(text) if text else None

    return {
        (
            row["dataset"],
            int(row["k"]),
            amount(row["epsilon"]),
            amount(row["delta"]),
            row["algorithm"],
            row["metric"],
        ): float(row["number"])
        for row in published.rows(FOLDER)
        if row["figure"] == figure
    }


@dataclass(frozen=True)
class Sweep:
    """One figure or table: its points, what varies, and what is looked at."""

    figure: str
    title: str
    axis: str
    points: tuple[Point, ...]
    metrics: tuple[str, ...] = ("updates_per_s",)
    effort: Effort = WHOLE
    remark: str = ""

    @property
    def name(self) -> str:
        """The name of its figure."""
        return f"dominating_{self.figure}"

    @property
    def spoken(self) -> str:
        """Its name in the paper."""
        return self.figure.replace("figure", "Figure ").replace("table", "Table ")

    def sized(self, quick: bool) -> Sweep:
        """The whole figure, or small windows and every other value of what varies."""
        if not quick:
            return self
        values = sorted({getattr(p, self.axis) for p in self.points} - {None})
        some = {None, *values[::2], values[-1]}
        kept = tuple(p for p in self.points if getattr(p, self.axis) in some)
        return replace(self, points=kept, effort=QUICK)

    def collect(self) -> list[Record]:
        """One record per point whose algorithm exists."""
        missing = sorted({p.algorithm for p in self.points if not there(p.algorithm)})
        if missing:
            report.note(f"{self.spoken}: skipped, not there yet: {', '.join(missing)}")
        points = [p for p in self.points if there(p.algorithm)]
        records = []
        with report.progress(self.spoken, len(points)) as step:
            for one in points:
                step(f"{one.dataset} {self.axis} {getattr(one, self.axis)} {one.label}")
                records.append(record(self.figure, one, run(one, self.effort), self.effort))
        return records

    def show(self, records: list[Record], console: Console) -> None:
        """Ours, and the paper's numbers beside them where it prints any."""
        with_paper = any(
            record[f"published_{m}"] is not None for record in records for m in self.metrics
        )
        columns = ["stream", self.axis, *self._others(), "algorithm"]
        for metric in self.metrics:
            columns.append(LABELS[metric])
            columns += ["paper"] if with_paper else []
        columns += ["updates"]
        rows = []
        for one in sorted(records, key=lambda r: self._order(r)):
            row = [one["dataset"], one[self.axis], *(one[other] for other in self._others())]
            row.append(one["algorithm"])
            for metric in self.metrics:
                row.append(one[metric])
                row += [one[f"published_{metric}"]] if with_paper else []
            rows.append([*row, one["updates"]])
        console.print(report.table(f"{self.spoken}: {self.title}", columns, rows, self._caption()))

    def _others(self) -> list[str]:
        """Parameters that vary besides the axis."""
        names = ("n", "d", "k", "epsilon", "delta", "obsolete")
        return [
            name
            for name in names
            if name != self.axis
            and len({getattr(p, name) for p in self.points} - {None}) > 1
            and not (name == "n" and len({p.dataset for p in self.points}) > 1)
        ]

    def _order(self, one: Record) -> tuple[Any, ...]:
        datasets = list(dict.fromkeys(p.dataset for p in self.points))
        place = (datasets.index(one["dataset"]), one[self.axis] or 0)
        return (*place, ORDER.index(one["algorithm"]), -(one["delta"] or 0))

    def _caption(self) -> str:
        effort = self.effort
        size = f"windows a {effort.scale}th of the paper's; " if effort.scale > 1 else ""
        return (
            f"n = 2,000,000 (cover 500,000, homes 1,000,000), d = 4, k = 256, epsilon = 10 %, "
            f"delta = 0.9 unless they vary; {size}slide 1; up to {effort.updates:,} updates after "
            f"those that fill the window, or as many as {effort.budget:g} s allow. Counters per "
            f"1,000 updates. {self.remark}"
        ).strip()

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """A panel per data set, or per metric if there is one data set; the paper's dashed."""
        datasets = list(dict.fromkeys(record["dataset"] for record in records))
        if not datasets:
            return []
        several = len(datasets) > 1 or len(self.metrics) == 1
        shown = [(d, self.metrics[0]) for d in datasets]
        if not several:
            shown = [(datasets[0], metric) for metric in self.metrics]
        figure, axes = report.panels(
            1, len(shown), f"Top-k dominating, {self.spoken}: {self.title}", panel=(3.6, 3.4)
        )
        for panel, (dataset, metric) in zip(axes[0], shown, strict=True):
            mine = [record for record in records if record["dataset"] == dataset]
            for side in (metric, f"published_{metric}"):
                for series in dict.fromkeys(map(_series, mine)):
                    self._curve(panel, [r for r in mine if _series(r) == series], series, side)
            self._label(panel, dataset, metric, several)
        report.legend(figure, axes[0])
        return report.save(figure, folder, self.name)

    def _curve(self, panel: Any, records: list[Record], series: str, side: str) -> None:
        values = sorted({getattr(p, self.axis) for p in self.points} - {None})
        flat = [r for r in records if r[self.axis] is None]  # an algorithm that it does not concern
        x = [r[self.axis] for r in records if r not in flat] or [values[0], values[-1]]
        y = [r[side] for r in records if r not in flat] or [flat[0][side]] * 2
        y = [value or None for value in y]  # nothing, on a logarithmic axis
        report.curve(panel, x, y, series, published=side.startswith("published"))

    def _label(self, panel: Any, dataset: str, metric: str, by_dataset: bool) -> None:
        if metric != "accuracy" and panel.lines:
            panel.set_yscale("log")
            report.plain_ticks(panel)
        if self.axis == "k":
            panel.set_xscale("log", base=2)
            panel.xaxis.set_major_formatter("{x:g}")
        panel.set_xlabel(AXES[self.axis])
        panel.set_ylabel(LABELS[metric])
        panel.set_title(dataset if by_dataset else LABELS[metric], loc="left")


def record(figure: str, one: Point, cost: Cost, effort: Effort) -> Record:
    """A flat record of what was measured, and of what the paper prints for the algorithm."""
    paper = printed(figure)
    key = (one.dataset, one.k, one.epsilon, one.delta, one.algorithm)
    flat = {
        "paper": "dominating",
        "figure": figure,
        "dataset": one.dataset,
        "n": one.n // effort.scale,
        "d": one.d,
        "k": one.k,
        "epsilon": one.epsilon,
        "delta": one.delta,
        "obsolete": one.obsolete,
        "algorithm": one.label,
        **cost._asdict(),
        **{f"published_{metric}": paper.get((*key, metric)) for metric in LABELS},
    }
    for name in ("accuracy", "estimated_accuracy"):
        if flat[name] is not None:
            flat[name] = 100 * float(flat[name])
    return flat


def _series(one: Record) -> str:
    """A curve: an algorithm, with its probability where that is not the usual one."""
    unusual = one["delta"] not in (None, 0.9)
    return f"{one['algorithm']} {one['delta']:g}" if unusual else str(one["algorithm"])


def grid(
    datasets: Iterable[str], algorithms: Iterable[str], **values: Iterable[Any]
) -> tuple[Point, ...]:
    """Points of all data sets, values of one parameter, and algorithms."""
    ((name, along),) = values.items()
    along, algorithms = list(along), list(algorithms)
    return tuple(
        point(dataset, algorithm, **{name: value})
        for dataset in datasets
        for value in along
        for algorithm in algorithms
    )


def hoeffding(datasets: Iterable[str]) -> tuple[Point, ...]:
    """AHBA with errors of 1 to 5 % and three probabilities."""
    return tuple(
        point(dataset, "ahba", epsilon=percent / 100, delta=delta)
        for dataset in datasets
        for percent in range(1, 6)
        for delta in (0.99, 0.95, 0.9)
    )
