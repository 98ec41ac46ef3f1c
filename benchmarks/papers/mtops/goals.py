"""Goals of sharing: against one monitor per query, along workloads, and for one query."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks import report
from benchmarks.measure import Floats, Record, resident
from benchmarks.papers.mtops import figure14
from benchmarks.papers.mtops.curves import Curves
from benchmarks.papers.mtops.running import BATCH, apart
from benchmarks.papers.mtops.workloads import ALL_ARBITRARY, ARBITRARY_K, workload
from benchmarks.study import main
from skyband import Monitor, TopK, WorkloadMonitor

SHARED = ("mtoplist", "mtopmerge")
LESS_CPU, LESS_MEMORY, GROWTH, ALONE = 300.0, 175.0, 5.0, 1.2


@dataclass(frozen=True)
class Goals:
    """The goals on the workloads of Figure 14, and on single queries of Figures 8 and 14."""

    curves: Curves = figure14.FIGURE
    objects: int = 3_000_000
    rounds: int = 5
    alone: tuple[TopK, ...] = (*ARBITRARY_K.queries(1), *ALL_ARBITRARY.queries(1))

    @property
    def name(self) -> str:
        """The name of its figure."""
        return "mtops_goals"

    def sized(self, quick: bool) -> Goals:
        """Shorter streams, fewer rounds."""
        return Goals(self.curves.sized(True), 1_500_000, 3) if quick else self

    def collect(self) -> list[Record]:
        """One record per goal and stream."""
        points = {(r["dataset"], r["queries"], r["algorithm"]): r for r in self.curves.points()}
        records: list[Record] = []
        for dataset in self.curves.datasets:
            records += self._shared(dataset, points)
            records += [self._alone(dataset, query) for query in self.alone]
        return records

    def _shared(self, dataset: str, points: dict[tuple[str, int, str], Record]) -> Iterator[Record]:
        least, most = self.curves.numbers[0], self.curves.numbers[-1]
        independent = points[dataset, most, "independent"]
        plain = apart(dataset, self.curves.parameters, most, self.curves.effort)
        for algorithm in SHARED:
            mine, small = points[dataset, most, algorithm], points[dataset, least, algorithm]
            for field, what, wanted in (
                ("ns_per_object", "CPU", LESS_CPU),
                ("state_bytes", "memory", LESS_MEMORY),
            ):
                yield self._record(
                    dataset, most, algorithm, f"{what} of independent / {algorithm}",
                    independent[field] / mine[field], "least", wanted, mine,
                )  # fmt: skip
            yield self._record(
                dataset, most, algorithm, f"CPU of plain monitors, without ids / {algorithm}",
                plain / mine["ns_per_object"], "least", LESS_CPU, mine,
            )  # fmt: skip
            yield self._record(
                dataset, most, algorithm, f"CPU of {algorithm}, {least:,} to {most:,} queries",
                mine["ns_per_object"] / small["ns_per_object"], "most", GROWTH, mine,
            )  # fmt: skip

    def _record(
        self, dataset: str, queries: int, algorithm: str, goal: str, measured: float, bound: str,
        wanted: float, cost: Record,
    ) -> Record:  # fmt: skip
        met = measured >= wanted if bound == "least" else measured <= wanted
        return {
            "paper": "mtops",
            "figure": "goals",
            "dataset": dataset,
            "queries": queries,
            "algorithm": algorithm,
            "goal": goal,
            "bound": bound,
            "wanted": wanted,
            "measured": measured,
            "met": met,
            "ns_per_object": cost["ns_per_object"],
            "state_bytes": cost["state_bytes"],
        }

    def _alone(self, dataset: str, query: TopK) -> Record:
        """Time a workload of one query and the same query alone, in turns; the best of each."""
        stream = resident(dataset, query.window.size + self.objects)
        took = {"workload": float("inf"), "monitor": float("inf")}
        state = 0
        chosen = ""
        for _ in range(self.rounds):
            for kind in took:
                monitor: Monitor | WorkloadMonitor = (
                    Monitor(query) if kind == "monitor" else WorkloadMonitor(workload((query,)))
                )
                took[kind] = min(took[kind], _timed(monitor, stream, query.window.size))
                if isinstance(monitor, WorkloadMonitor):
                    state = monitor.state_bytes()
                else:
                    chosen = monitor.plan.algorithm
        window = query.window
        words = f"n {window.size:,}, s {window.slide:,}, k {query.k:,}"
        return self._record(
            dataset, 1, "auto", f"a workload of one / Monitor ({chosen}): {words}",
            took["workload"] / took["monitor"], "most", ALONE,
            {"ns_per_object": took["workload"], "state_bytes": state},
        )  # fmt: skip

    def show(self, records: list[Record], console: Console) -> None:
        """Each goal, and whether it is met."""
        rows = [
            (
                r["dataset"],
                r["goal"],
                f"at {r['bound']} {r['wanted']:g}",
                r["measured"],
                "yes" if r["met"] else "NO",
            )
            for r in records
        ]
        console.print(
            report.table(
                "Goals",
                ("stream", "goal", "wanted", "measured", "met"),
                rows,
                f"{self.curves.parameters.spoken}; {self.curves.numbers[-1]:,} queries unless "
                "others are named.",
            )
        )

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """Nothing: the figures show the same numbers."""
        return []


def _timed(monitor: Monitor | WorkloadMonitor, stream: tuple[Floats, ...], fill: int) -> float:
    """ns per object after the window has been filled."""
    scores = np.concatenate(stream)
    for low in range(0, fill, BATCH):
        monitor.push(scores[low : min(low + BATCH, fill)])
    began = time.process_time()
    for low in range(fill, len(scores), BATCH):
        monitor.push(scores[low : low + BATCH])
    return (time.process_time() - began) * 1e9 / (len(scores) - fill)


FIGURE = Goals()

if __name__ == "__main__":
    raise SystemExit(main(FIGURE.sized))
