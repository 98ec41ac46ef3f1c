"""``auto`` against every algorithm over a grid of queries: what the planner is calibrated with.

Costs are those of a filled window. TIME_R behaves differently along its period: where a point is
too expensive for a whole period, it is measured in four places of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from benchmarks import report
from benchmarks.measure import Floats, Measured, Point, Record, measure, part, resident

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PERIOD = 2_000_000  # objects of TIME_R
_ANSWERS = 2 << 30  # bytes of answers that one measurement may write

# from the usually fastest on: the first sets the budget of those that follow
ALGORITHMS = (
    "sap", "sap-dynamic", "sap-equal", "mintopk", "kskyband", "pretopk", "recompute", "sma", "tma",
    "auto",
)  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """Every combination; ``timed`` objects per point, fewer where answers are many."""

    datasets: tuple[str, ...] = ("time_u", "time_r", "stock")
    sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    slides: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1)
    ks: tuple[int, ...] = (10, 100, 1000)
    algorithms: tuple[str, ...] = ALGORITHMS
    timed: int = 2 * PERIOD
    rounds: int = 5
    patience: float = 0.1  # seconds that every algorithm gets, however bad
    name: str = "grid"

    @classmethod
    def sized(cls, quick: bool) -> Grid:
        """The whole grid, or its corners."""
        if not quick:
            return cls()
        return cls(
            sizes=(10_000, 100_000),
            slides=(1e-3, 1e-1),
            ks=(10, 1000),
            timed=PERIOD // 4,
            rounds=2,
            patience=0.05,
        )

    def points(self) -> Iterator[tuple[str, int, int, int]]:
        """Dataset, n, s, k."""
        for dataset in self.datasets:
            for n in self.sizes:
                for share in self.slides:
                    for k in self.ks:
                        yield dataset, n, max(round(n * share), 1), k

    def collect(self) -> list[Record]:
        """One record per point and algorithm."""
        records: list[Record] = []
        points = list(self.points())
        rows = max(self.sizes) + max(self.timed, PERIOD + self.timed // 4)
        with report.progress("grid", len(points)) as step:
            for dataset, n, s, k in points:
                stream = resident(dataset, rows)
                records += self._point(dataset, stream, n, s, k)
                step(f"{dataset} n={n} s={s} k={k}")
        return records

    def _point(
        self, dataset: str, stream: Sequence[Floats], n: int, s: int, k: int
    ) -> list[Record]:
        per_object = 16 * min(k, n) / s
        timed = int(min(self.timed, max(_ANSWERS / per_object, 10 * s)))
        segments = list(_segments(dataset, stream, n, timed))
        runs: dict[str, Measured] = {}
        for round_ in range(self.rounds):
            for algorithm in self.algorithms:
                if round_ == 0 and not sane(algorithm, n, s, k):
                    continue
                best = min((run.cpu for run in runs.values() if run.complete), default=None)
                if round_ > 0 and not _matters(algorithm, runs, best):
                    continue
                budget = None if best is None else max(self.patience, 2.5 * best)
                run = _sum(Point(algorithm, n, s, k), segments, n, budget)
                if algorithm not in runs or run.ns_per_object < runs[algorithm].ns_per_object:
                    runs[algorithm] = run
        rivals = {a: run for a, run in runs.items() if a != "auto"}
        best_name = min(rivals, key=lambda a: rivals[a].ns_per_object)
        best_ns = rivals[best_name].ns_per_object
        return [
            {
                "workload": dataset,
                "n": n,
                "s": s,
                "k": k,
                "algorithm": algorithm,
                "ns_per_object": run.ns_per_object,
                "best": best_name,
                "ratio_to_best": run.ns_per_object / best_ns,
                "chosen": run.chosen,
                "objects": run.objects,
                "complete": run.complete,
                "candidates": run.candidates,
                "state_bytes": run.state_bytes,
            }
            for algorithm, run in runs.items()
        ]

    def show(self, records: list[Record], console: Console) -> None:
        """One row per point: each algorithm's ns/object, the best, and auto's ratio to it."""
        present = [a for a in self.algorithms if any(r["algorithm"] == a for r in records)]
        rows = []
        for dataset, n, s, k in self.points():
            mine = {
                r["algorithm"]: r
                for r in records
                if (r["workload"], r["n"], r["s"], r["k"]) == (dataset, n, s, k)
            }
            auto = mine.get("auto")
            rows.append(
                (
                    dataset, n, s, k,
                    *(_cost(mine.get(a)) for a in present if a != "auto"),
                    next(iter(mine.values()))["best"],
                    auto and auto["chosen"],
                    auto and auto["ratio_to_best"],
                )
            )  # fmt: skip
        console.print(
            report.table(
                "ns per object in a filled window",
                ("stream", "n", "s", "k", *(a for a in present if a != "auto"), "best", "auto",
                 "auto / best"),
                rows,
                ">: gave up, at more than twice the time of the best; -: not tried.",
            )
        )  # fmt: skip
        ratios = sorted(r["ratio_to_best"] for r in records if r["algorithm"] == "auto")
        if ratios:
            within = sum(ratio <= 1.15 for ratio in ratios)
            console.print(
                f"auto is within 15 % of the best on {within} of {len(ratios)} points; "
                f"median {ratios[len(ratios) // 2]:.2f}, worst {ratios[-1]:.2f}"
            )

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """A map per stream and window: the best algorithm, and how far auto is from it."""
        figure, axes = report.panels(
            len(self.datasets),
            len(self.sizes),
            "The best algorithm of each query, and auto's time over its time",
            panel=(3.6, 2.6),
        )
        for row, dataset in enumerate(self.datasets):
            for column, n in enumerate(self.sizes):
                self._map(axes[row][column], records, dataset, n)
        return report.save(figure, folder, self.name)

    def _map(self, panel: Axes, records: list[Record], dataset: str, n: int) -> None:
        from matplotlib.patches import Rectangle

        for x, share in enumerate(self.slides):
            for y, k in enumerate(self.ks):
                s = max(round(n * share), 1)
                mine = [
                    r
                    for r in records
                    if (r["workload"], r["n"], r["s"], r["k"]) == (dataset, n, s, k)
                ]
                if not mine:
                    continue
                best = mine[0]["best"]
                auto = next((r["ratio_to_best"] for r in mine if r["algorithm"] == "auto"), None)
                colour = report.STYLES.get(best, ("#BBBBBB", ""))[0]
                missed = auto is not None and auto > 1.15
                panel.add_patch(
                    Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, color=colour, alpha=0.3, lw=0)
                )
                panel.text(x, y + 0.16, best, ha="center", va="center", fontsize=7.5)
                panel.text(
                    x,
                    y - 0.18,
                    "-" if auto is None else f"auto x {report.number(auto)}",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="#B00000" if missed else "#333333",
                    fontweight="bold" if missed else "normal",
                )
        panel.set_xlim(-0.5, len(self.slides) - 0.5)
        panel.set_ylim(-0.5, len(self.ks) - 0.5)
        panel.set_xticks(range(len(self.slides)), [f"{share:g}" for share in self.slides])
        panel.set_yticks(range(len(self.ks)), [str(k) for k in self.ks])
        panel.set_xlabel("s / n")
        panel.set_ylabel("k")
        panel.grid(visible=False)
        panel.set_title(f"{dataset}, n = {n:,}", loc="left")


def sane(algorithm: str, n: int, s: int, k: int) -> bool:
    """Whether to run an algorithm: not if it would store or read far too much."""
    if algorithm == "pretopk":
        return k * (n // s) <= 4_000_000  # references it keeps
    if algorithm == "recompute":
        return n // s <= 1_000  # times that it reads each object
    return True


def _matters(algorithm: str, runs: dict[str, Measured], best: float | None) -> bool:
    if algorithm == "auto":
        return True
    run = runs.get(algorithm)
    return run is not None and run.complete and best is not None and run.cpu < 1.5 * best


def _cost(record: Record | None) -> float | str | None:
    if record is None:
        return None
    text = report.number(record["ns_per_object"])
    return text if record["complete"] else f"> {text}"


def _segments(dataset: str, stream: Sequence[Floats], n: int, timed: int) -> Iterator[list[Floats]]:
    """Parts of the stream: n objects that fill the window, then those that are timed."""
    if dataset != "time_r" or timed >= PERIOD:
        yield part(stream, 0, n + timed)
        return
    for place in range(4):
        start = place * PERIOD // 4
        yield part(stream, start, start + n + timed // 4)


def _sum(point: Point, segments: Sequence[list[Floats]], n: int, budget: float | None) -> Measured:
    """One run over each segment, taken together."""
    runs: list[Measured] = []
    for segment in segments:
        left = None if budget is None else budget - sum(run.cpu for run in runs)
        runs.append(measure(point, segment, budget=left, untimed=n))
        if not runs[-1].complete:
            break
    objects = sum(run.objects for run in runs)
    names = runs[0].counters
    return Measured(
        objects,
        sum(run.cpu for run in runs),
        sum(run.wall for run in runs),
        {name: sum(run.counters[name] for run in runs) / len(runs) for name in names},
        max(run.state_bytes for run in runs),
        max(run.window_bytes for run in runs),
        runs[0].chosen,
        all(run.complete for run in runs),
    )
