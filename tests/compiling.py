"""Compile every kernel once, two at a time, so that tests and their processes load them.

Run by ``make test`` before the suite; without it each process compiles the kernels that it uses.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import platform
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from skyband import (
    DominatingMonitor,
    IncompleteMonitor,
    Monitor,
    TopK,
    TopKDominating,
    TopKIncomplete,
    TopKTotals,
    TotalsMonitor,
    Workload,
    WorkloadMonitor,
    last,
)
from skyband.dominating.panes import PaneCounts
from skyband.kernels.jit import cache_folder
from skyband.kernels.pane_candidates import Panes, Query, answer_panes, rows_of, run_of
from skyband.spark.axis import PaneLifetimes
from skyband.spark.scan.reduction import BestRows, Ranking
from skyband.topk import ALGORITHMS
from skyband.workload import ALGORITHMS as STRUCTURES

DOMINATING = ("ahba", "amsa", "ada", "eva", "contenders", "bfa")


def compile_one(task: tuple[str, str]) -> str:
    """Answer a few windows with one algorithm."""
    family, name = task
    rng = np.random.default_rng(1)
    window = last(count=40, slide=4)
    if family == "topk":
        Monitor(TopK(3, window), name).push(rng.random(200))
        Monitor(TopK(3, window, emit="changes"), name).push(rng.random(200))
    elif family == "workload":
        queries = {f"q{k}": TopK(k, last(count=10 * k, slide=3)) for k in range(1, 4)}
        WorkloadMonitor(Workload(queries), name).push(rng.random(200))
    elif family == "dominating":
        query = TopKDominating(3, [("x", "min"), ("y", "min")], window)
        DominatingMonitor(query, name).push(rng.random((400, 2)))
    elif family == "incomplete":
        query = TopKIncomplete(3, ["a", "b"], window)
        ids, streams = rng.integers(0, 50, 400), rng.integers(0, 2, 400)
        IncompleteMonitor(query, name).push(ids, streams, rng.random(400))
    elif family == "totals":
        monitor = TotalsMonitor(TopKTotals(3, name, window))  # type: ignore[arg-type]
        monitor.push(rng.integers(0, 50, 400), rng.random(400))
    elif name == "best":
        scores, times = rng.random(100_000), np.arange(100_000)
        for order in (times, rng.permutation(times)):
            monitor = Monitor(TopK(3, last(time=50_000)), "mintopk")
            monitor.push(scores, times=order, watermark=100_000)
    elif name == "files":
        rows = BestRows((Ranking(3),), 0, 100, 0, 1)
        times = np.arange(1_000)
        for scores in (rng.random(1_000), times):
            for keys in ((), (pa.array(times % 5),)):
                rows.places([pa.array(scores)], times, keys, {})
    elif name == "candidates":
        for numbers in (np.float64, np.int64):
            panes = np.arange(3)
            run = run_of(rows_of(8, numbers), 0, 0, 3, 2)
            rows = np.arange(3).astype(numbers)
            query = Query(2, 0, False)
            answer_panes(run, Panes(2 * panes, panes, panes + 1, panes, rows, 0), query, 2)
    else:
        counts = PaneCounts(3, 2, PaneLifetimes(4, 1))
        for pane in range(6):
            list(counts.answer_before(pane))
            points = rng.random((20, 2))
            counts.insert(2 * pane, points, points)
    return f"{family} {name}"


def compile_group(tasks: Sequence[tuple[str, str]]) -> str:
    """Compile kernels that share building blocks, one after the other in one process."""
    return ", ".join(compile_one(task) for task in tasks)


def stamp() -> Path:
    """A file beside the compiled kernels that says that all of those below are there."""
    asked = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    return cache_folder() / f"of-tests-{platform.python_version()}-{asked}"


def main() -> None:
    """Compile all, the longest group first; do nothing if that was done.

    Kernels of one group are made of the same building blocks: side by side, two processes would
    compile those twice.
    """
    groups = [
        [("dominating", name) for name in DOMINATING],
        [("topk", name) for name in ALGORITHMS],
        [("incomplete", name) for name in ("likely", "eaa", "approximate", "sla")],
        [("workload", name) for name in STRUCTURES],
        [
            ("panes", "counts"),
            ("panes", "best"),
            ("panes", "files"),
            ("panes", "candidates"),
            ("totals", "sum"),
        ],
    ]
    if stamp().exists():
        return
    began = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(2, maxtasksperchild=1) as pool:
        for done in pool.imap_unordered(compile_group, groups):
            print(f"compiled: {done}", flush=True)
    stamp().touch()
    print(f"{time.perf_counter() - began:.0f} s, kept in {stamp().parent}")


if __name__ == "__main__":
    main()
