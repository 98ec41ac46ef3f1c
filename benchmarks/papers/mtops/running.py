"""What a workload costs once its windows are full: CPU time of ``push``, and bytes of state.

Filling the largest window with 10^6 objects would take most of the time. What a structure holds
then is decided by the rows that may still win; so all others are pushed as NaN, which is counted as
a place in the window but never ranked. The rows in the state are the same, and so are all answers
from then on; spare room in its arrays may differ a little.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from benchmarks.measure import Floats, part, resident
from benchmarks.papers.mtops.workloads import Parameters, workload
from skyband import Monitor, TopK, WorkloadMonitor

BATCH = 100_000  # objects per push: fewer would burden one monitor per query with many calls
_PROBE = 256  # objects of the first push that tells how slow an algorithm is
_SURE = 0.05  # seconds that a push must take to tell


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    objects: int  # timed objects, after those that fill the largest window
    budget: float  # seconds of a run; slower algorithms get fewer objects
    sample: int  # queries of which independent monitors are measured; the rest is scaled up
    repeats: int
    most_lists: int  # MTopBand is skipped for more queries


WHOLE = Effort(1_000_000, budget=5.0, sample=100, repeats=4, most_lists=1_000)
QUICK = Effort(200_000, budget=0.8, sample=20, repeats=1, most_lists=100)


class Cost(NamedTuple):
    """What a run cost: per object, for all queries; ``measured`` of them were run."""

    ns_per_object: float
    state_bytes: float
    rows_per_object: float
    objects: int
    measured: int


@lru_cache(maxsize=512)
def run(
    dataset: str, parameters: Parameters, number: int, algorithm: str, effort: Effort
) -> Cost | None:
    """The cheapest of some runs, cached; None if they would take too long."""
    if algorithm == "mtopband" and number > effort.most_lists:
        return None
    queries = parameters.queries(number)
    if algorithm == "independent":
        queries = _sample(queries, effort.sample)
    _warm(algorithm)
    best: Cost | None = None
    for _ in range(effort.repeats):
        cost = _run(dataset, parameters, queries, algorithm, effort)
        if best is None or cost.ns_per_object < best.ns_per_object:
            best = cost
        if cost.objects * cost.ns_per_object * 1e-9 > 1.0:
            break
    assert best is not None
    scale = number / len(queries)
    return best._replace(
        ns_per_object=best.ns_per_object * scale,
        state_bytes=best.state_bytes * scale,
        rows_per_object=best.rows_per_object * scale,
    )


def apart(dataset: str, parameters: Parameters, number: int, effort: Effort) -> float:
    """ns per object of plain monitors, one per query: no ids, no common order of the answers."""
    everything = parameters.queries(number)
    queries = _sample(everything, effort.sample)
    _warm("independent")
    fill = parameters.window[1]
    rows = fill + effort.objects
    filling = _filling(dataset, rows, fill, queries)
    stream = resident(dataset, rows)
    took = 0.0
    for query in queries:
        monitor = Monitor(query, "mintopk")
        monitor.push(filling)
        for low in range(fill, rows, BATCH):
            took += _push(monitor, _between(stream, low, min(low + BATCH, rows)))[0]
    return took * 1e9 / effort.objects * len(everything) / len(queries)


def _sample(queries: tuple[TopK, ...], most: int) -> tuple[TopK, ...]:
    """All queries, or ``most`` of them drawn at random."""
    if len(queries) <= most:
        return queries
    chosen = np.random.default_rng(len(queries)).choice(len(queries), most, replace=False)
    return tuple(queries[at] for at in np.sort(chosen).tolist())


def _run(
    dataset: str,
    parameters: Parameters,
    queries: tuple[TopK, ...],
    algorithm: str,
    effort: Effort,
) -> Cost:
    fill = parameters.window[1]
    spare = 2 * BATCH  # for the probe
    stream = resident(dataset, fill + effort.objects + spare)
    monitor = WorkloadMonitor(workload(queries), algorithm)
    monitor.push(_filling(dataset, fill + effort.objects + spare, fill, queries))
    at, length, cpu = fill, _PROBE, 0.0
    while True:  # not counted
        cpu, _ = _push(monitor, _between(stream, at, at + length))
        at += length
        if cpu > _SURE or 4 * length > spare:
            break
        length *= 2
    affordable = int(effort.budget * length / max(cpu, 1e-9))
    objects = max(min(effort.objects, affordable), _PROBE)
    state, took, rows = monitor.state_bytes(), 0.0, 0
    for low in range(at, at + objects, BATCH):
        cpu, answered = _push(monitor, _between(stream, low, min(low + BATCH, at + objects)))
        took, rows = took + cpu, rows + answered
        state = max(state, monitor.state_bytes())
    return Cost(took * 1e9 / objects, state, rows / objects, objects, len(queries))


def _push(monitor: Monitor | WorkloadMonitor, scores: Floats) -> tuple[float, int]:
    """Seconds of CPU time, and rows of answers."""
    began = time.process_time()
    answers = monitor.push(scores)
    return time.process_time() - began, answers.rows


@lru_cache(maxsize=4)
def _filling(dataset: str, rows: int, fill: int, queries: tuple[TopK, ...]) -> Floats:
    """The first objects of a stream, with NaN in place of those that can no longer be answers."""
    scores = _between(resident(dataset, rows), 0, fill)
    monitor = WorkloadMonitor(workload(queries), "mtopmerge")
    monitor.push(scores)
    (kept,) = monitor.kept().values()
    filling = np.full(fill, np.nan)
    filling[kept] = scores[kept]
    return filling


def _between(stream: tuple[Floats, ...], start: int, stop: int) -> Floats:
    parts = part(stream, start, stop)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@lru_cache(maxsize=8)
def _warm(algorithm: str) -> None:
    """Compile, or load, kernels: once per process."""
    queries = Parameters((60, 90), (5, 10), (3, 9)).queries(4)
    for name in {algorithm, "mtopmerge"}:
        monitor = WorkloadMonitor(workload(queries), name)
        for scores in (np.random.default_rng(0).random(5_000), np.arange(300.0), -np.arange(300.0)):
            monitor.push(scores)
        monitor.kept()
