"""Every algorithm compared with one ``np.max`` pass, the speed of memory, in one run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console

from benchmarks import report
from benchmarks.measure import Measured, Point, Record, best_of, np_max, resident
from skyband.topk import ALGORITHMS

EVERYTHING = (*ALGORITHMS, "auto")


@dataclass(frozen=True)
class Workload:
    """One query over one stream, and the algorithms that answer it."""

    name: str
    dataset: str
    n: int
    s: int
    k: int
    emit: Literal["all", "changes"] = "all"
    algorithms: tuple[str, ...] = EVERYTHING


WORKLOADS = (
    Workload("time_u", "time_u", 1_000_000, 1_000, 100),
    Workload("time_r", "time_r", 100_000, 100, 100),
    Workload(
        "time_u_changes", "time_u", 100_000, 1, 100, "changes",
        ("kskyband", "mintopk", "sap", "auto"),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Scan:
    """Each workload over ``objects`` objects; an algorithm that exceeds its budget stops early."""

    objects: int = 20_000_000
    budget: float = 30.0
    repeats: int = 3
    workloads: tuple[Workload, ...] = WORKLOADS
    name: str = "scan"

    @classmethod
    def sized(cls, quick: bool) -> Scan:
        """Over 2x10^7 objects, or a tenth of them."""
        return cls(objects=2_000_000, budget=6.0, repeats=2) if quick else cls()

    def collect(self) -> list[Record]:
        """One record per workload and algorithm; the pass itself is the algorithm ``np.max``."""
        records: list[Record] = []
        total = sum(len(workload.algorithms) for workload in self.workloads)
        with report.progress("scan", total) as step:
            for workload in self.workloads:
                stream = resident(workload.dataset, self.objects)
                runs, passes = {}, [np_max(stream)]
                for algorithm in workload.algorithms:
                    point = Point(algorithm, workload.n, workload.s, workload.k, workload.emit)
                    runs[algorithm] = best_of(
                        point, stream, repeats=self.repeats, budget=self.budget
                    )
                    passes.append(np_max(stream, 2))  # in between, so that no lull is missed
                    step(f"{workload.name} {algorithm}")
                records += _records(workload, self.objects, min(passes), runs)
        return records

    def show(self, records: list[Record], console: Console) -> None:
        """One table per workload, then the goals."""
        for workload in self.workloads:
            rows = [r for r in records if r["workload"] == workload.name]
            base = next((r["ns_per_object"] for r in rows if r["algorithm"] == "mintopk"), None)
            console.print(
                report.table(
                    f"{workload.name}: n = {workload.n:,}, s = {workload.s:,}, k = {workload.k}",
                    ("algorithm", "objects", "ns/object", "x np.max", "x mintopk", "candidates",
                     "insertions", "rescans", "state", "objects/s"),
                    [
                        (
                            _called(r), r["objects"], r["ns_per_object"], r["vs_np_max"],
                            report.ratio(r["ns_per_object"], base),
                            r["candidates"], r["insertions"], r["rescans"],
                            report.size(r["state_bytes"]), r["objects_per_s"],
                        )
                        for r in sorted(rows, key=lambda r: r["ns_per_object"])
                    ],
                    "CPU time of push alone, answers of every slide included; objects tells where "
                    "a run was stopped by the time budget. A stream of a few MB, as with --quick, "
                    "stays in the cache, which flatters np.max.",
                )
            )  # fmt: skip
        reached = goals(records)
        if reached:
            console.print(report.table("Goals", ("goal", "wanted", "measured", "met"), reached, ""))

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """Bars per workload, from the fastest on, on a log axis."""
        names = [w.name for w in self.workloads]
        figure, axes = report.panels(
            1, len(names), "Nanoseconds per object, beside one np.max pass", panel=(4.4, 3.6)
        )
        for panel, workload in zip(axes[0], self.workloads, strict=True):
            rows = sorted(
                (r for r in records if r["workload"] == workload.name),
                key=lambda r: -r["ns_per_object"],
            )
            labels = [r["algorithm"] for r in rows]
            values = [r["ns_per_object"] for r in rows]
            colours = [report.STYLES.get(a, ("#BBBBBB", ""))[0] for a in labels]
            bars = panel.barh(labels, values, color=colours)
            panel.bar_label(bars, [report.number(v) for v in values], padding=3, fontsize=8)
            panel.set_xscale("log")
            panel.set_xlim(min(values) / 2, max(values) * 6)
            panel.set_xlabel("ns per object")
            panel.set_title(
                f"{workload.name}: n={workload.n:,} s={workload.s:,} k={workload.k}", loc="left"
            )
            panel.grid(axis="y", visible=False)
        return report.save(figure, folder, self.name)


def _called(record: Record) -> str:
    chosen = record["chosen"]
    return record["algorithm"] if chosen == record["algorithm"] else f"auto = {chosen}"


def _records(
    workload: Workload, objects: int, scan: float, runs: dict[str, Measured]
) -> list[Record]:
    def record(algorithm: str, ns: float, run: Measured | None) -> Record:
        counted = run.counters if run else {}
        return {
            "workload": workload.name,
            "algorithm": algorithm,
            "n": workload.n,
            "s": workload.s,
            "k": workload.k,
            "emit": workload.emit,
            "objects": run.objects if run else objects,
            "ns_per_object": ns,
            "vs_np_max": ns / scan,
            "objects_per_s": 1e9 / ns,
            "candidates": counted.get("candidates", 0.0),
            "meaningful": counted.get("meaningful", 0.0),
            "insertions": int(counted.get("insertions", 0)),
            "deletions": int(counted.get("deletions", 0)),
            "rescans": int(counted.get("rescans", 0)),
            "rescanned": int(counted.get("rescanned", 0)),
            "state_bytes": run.state_bytes if run else 0,
            "window_bytes": run.window_bytes if run else 0,
            "wall_s": run.wall if run else scan * objects / 1e9,
            "chosen": run.chosen if run else algorithm,
        }

    return [
        record("np.max", scan, None),
        *(record(algorithm, run.ns_per_object, run) for algorithm, run in runs.items()),
    ]


def goals(records: Iterable[Record]) -> list[tuple[str, str, float, str]]:
    """The goals of the engine that can be computed from the records."""
    by_name = {(r["workload"], r["algorithm"]): r for r in records}
    rows: list[tuple[str, str, float, str]] = []

    def goal(what: str, value: float | None, low: float | None, high: float | None) -> None:
        if value is None:
            return
        wanted = f"at most {high:g}" if low is None else f"at least {low:,g}"
        if low is not None and high is not None:
            wanted = f"{low:,.0f} to {high:,.0f}"
        met = (low is None or value >= low) and (high is None or value <= high)
        rows.append((what, wanted, value, "yes" if met else "NO"))

    def value(workload: str, algorithm: str, field: str) -> float | None:
        record = by_name.get((workload, algorithm))
        return None if record is None else float(record[field])

    def quotient(workload: str, field: str, algorithm: str, other: str) -> float | None:
        return report.ratio(value(workload, algorithm, field), value(workload, other, field))

    ns = "ns_per_object"
    goal("time_u: sap / np.max", value("time_u", "sap", "vs_np_max"), None, 10)
    goal("time_u: sap / mintopk", quotient("time_u", ns, "sap", "mintopk"), None, 0.35)
    goal("time_r: sap / np.max", value("time_r", "sap", "vs_np_max"), None, 25)
    goal("time_r: sap / mintopk", quotient("time_r", ns, "sap", "mintopk"), None, 0.7)
    for algorithm in ("sap", "auto"):
        speed = value("time_u_changes", algorithm, "objects_per_s")
        goal(f"time_u_changes: objects/s of {algorithm}", speed, 2e6, None)
    band = by_name.get(("time_u", "kskyband"))
    if band is not None:
        expected = band["k"] * (1 + math.log(band["n"] / band["k"]))
        goal(
            f"time_u: candidates of kskyband, k (1 + ln n/k) = {expected:,.0f}",
            band["candidates"], 0.95 * expected, 1.05 * expected,
        )  # fmt: skip
    share = quotient("time_u", "candidates", "sap", "kskyband")
    goal("time_u: candidates of sap / kskyband", share, None, 0.35)
    return rows
