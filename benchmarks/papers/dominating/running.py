"""What an update costs once the window is full: CPU time of ``push``, counters, and accuracy.

An update is an arrival and an expiry, answered at once (slide 1). The first n arrivals fill the
window and are not counted, as in the paper. Accuracy is the share of the true answer that was
reported, on average over some updates; an exact algorithm gives the true one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Floats
from skyband import DominatingMonitor, TopKDominating, last
from skyband.datasets import dataset
from skyband.datasets.skyline import NAMES as SKYLINE
from skyband.dominating import ALGORITHMS
from skyband.engine.results import Ranked

EXACT = ("contenders", "ada", "eva", "bfa")
"""Exact algorithms, the fastest first."""
APPROXIMATE = ("ahba", "amsa")
COUNTERS = ("events", "exact_computations", "comparisons")

_FILLING = 100_000  # points per push while the window is filled
_PUSH = 1_000  # updates per push that is timed
_PROBE = 16  # updates of a push that tells how slow an algorithm is
_SAMPLE = 64  # points by which scores of BFA are estimated
_OPTIONS = ("epsilon", "delta", "obsolete", "partial", "rule")


@dataclass(frozen=True)
class Point:
    """One query over one data set, and the algorithm that is to answer it."""

    dataset: str
    algorithm: str
    n: int = 2_000_000
    d: int = 4
    k: int = 256
    epsilon: float | None = None
    delta: float | None = None
    obsolete: float | None = None
    partial: bool | None = None
    rule: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Options of the algorithm."""
        values = {name: getattr(self, name) for name in _OPTIONS}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def label(self) -> str:
        """The algorithm, and the variant of it if it is not the usual one."""
        variant = self.rule or ("partial" if self.partial else "")
        return f"{self.algorithm} {variant}".strip()

    @property
    def exact(self) -> Point:
        """The same query for the fastest exact algorithm."""
        exact = next(name for name in EXACT if there(name))
        return replace(self, algorithm=exact, **dict.fromkeys(_OPTIONS))

    def monitor(self) -> DominatingMonitor:
        """A fresh monitor; windows that are not full are not answered."""
        window = last(count=self.n, slide=1, full=True)
        query = TopKDominating(self.k, _dimensions(self.dataset, self.d), window)
        kind: Any = DominatingMonitor
        monitor: DominatingMonitor = kind(query, self.algorithm, options=self.options)
        return monitor


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    updates: int  # timed, after those that fill the window
    budget: float  # seconds of CPU time; slower algorithms get fewer updates
    every: int  # updates from one look at the accuracy to the next
    scale: int = 1  # by how much windows are smaller than in the paper


WHOLE = Effort(20_000, budget=20.0, every=100)
QUICK = Effort(1_000, budget=0.3, every=20, scale=100)


class Cost(NamedTuple):
    """What was measured: counters per 1,000 updates, and the accuracy of what approximates.

    ``estimated_accuracy`` is the accuracy that the answers report.
    """

    updates_per_s: float
    events: float
    exact_computations: float
    comparisons: float
    state_bytes: int
    updates: int
    accuracy: float | None
    estimated_accuracy: float | None = None


def there(algorithm: str) -> bool:
    """Whether there is an algorithm of this name."""
    return algorithm in ALGORITHMS


@lru_cache(maxsize=1024)
def run(point: Point, effort: Effort) -> Cost:
    """Measure one point, in a window scaled by the effort."""
    point = replace(point, n=point.n // effort.scale)
    _warm(point.algorithm, point.d, tuple(point.options.items()))
    monitor = point.monitor()
    stream = _points(point.dataset, point.d, point.n + _PROBE + effort.updates)
    (_fill_bfa if point.algorithm == "bfa" else _fill)(monitor, stream[: point.n])
    at = point.n
    cpu = _push(monitor, stream[at : at + _PROBE])[0] / _PROBE  # of an update; not counted
    at += _PROBE
    before, spent, done = monitor.counters(), 0.0, 0
    looks: dict[int, frozenset[int]] = {}
    estimates: list[float] = []
    while not done or (done < effort.updates and spent < effort.budget):
        affordable = int((effort.budget - spent) / max(cpu, 1e-9)) + 1
        length = min(_PUSH, affordable, effort.updates - done)
        took, answers = _push(monitor, stream[at + done : at + done + length])
        looks |= _looks(answers, done, effort.every)
        if answers.accuracy is not None:
            estimates.append(float(answers.accuracy.mean()))
        done, spent = done + length, spent + took
        cpu = spent / done
    after, per = monitor.counters(), 1_000 / done
    accuracy = None
    if point.algorithm in APPROXIMATE:
        truth = _truth(point.exact, effort)
        shares = [len(truth[at] & ids) / len(truth[at]) for at, ids in looks.items()]
        accuracy = float(np.mean(shares))
    counted = {name: (after[name] - before[name]) * per for name in COUNTERS}
    return Cost(
        done / spent,
        **counted,
        state_bytes=monitor.state_bytes(),
        updates=done,
        accuracy=accuracy,
        estimated_accuracy=None if accuracy is None or not estimates else float(np.mean(estimates)),
    )


@lru_cache(maxsize=4)
def _truth(point: Point, effort: Effort) -> dict[int, frozenset[int]]:
    """The exact answers at the updates that are looked at; the point's algorithm is exact."""
    monitor = point.monitor()
    first = point.n + _PROBE
    stream = _points(point.dataset, point.d, first + effort.updates)
    _fill(monitor, stream[:first])
    truth: dict[int, frozenset[int]] = {}
    for done in range(0, effort.updates, _PUSH):
        part = stream[first + done : first + done + _PUSH]
        truth |= _looks(monitor.push(part), done, effort.every)
    return truth


def _push(monitor: DominatingMonitor, points: Floats) -> tuple[float, Ranked]:
    """Seconds of CPU time, and the answers."""
    began = time.process_time()
    answers = monitor.push(points)
    return time.process_time() - began, answers


def _looks(answers: Ranked, done: int, every: int) -> dict[int, frozenset[int]]:
    """The ids in the answers, at regular intervals of updates."""
    looks = {}
    for at in range(-done % every, len(answers), every):
        rows = slice(int(answers.offsets[at]), int(answers.offsets[at + 1]))
        looks[done + at] = frozenset(answers.id[rows].tolist())
    return looks


def _fill(monitor: DominatingMonitor, points: Floats) -> None:
    for part in _parts(points):
        monitor.push(part)


def _parts(points: Floats) -> Iterator[Floats]:
    for low in range(0, len(points), _FILLING):
        yield points[low : low + _FILLING]


def _fill_bfa(monitor: DominatingMonitor, points: Floats) -> None:
    """Let BFA begin with a full window and estimated scores.

    Counting them, pair by pair, would take hours for two million points; and what an update costs
    does not depend on scores.
    """
    n = len(points)
    less = points * np.array(monitor.query.signs)
    sample = less[np.random.default_rng(0).integers(0, n, _SAMPLE)]
    counts = np.sum([(less <= one).all(axis=1) for one in sample], axis=0, dtype=np.int64)
    monitor.begin(points, counts * max(n // _SAMPLE, 1))


@lru_cache(maxsize=1)
def _points(name: str, d: int, rows: int) -> Floats:
    """A whole stream in memory; the last one is cached."""
    stream = dataset(name, d) if name in SKYLINE else dataset(name)
    return np.concatenate([part[:, :d] for part in stream.points(rows)])


def _dimensions(name: str, d: int) -> list[Any]:
    stream = dataset(name, d) if name in SKYLINE else dataset(name)
    return list(stream.dimensions[:d])


@lru_cache(maxsize=256)
def _warm(algorithm: str, d: int, options: tuple[tuple[str, Any], ...]) -> None:
    """Compile, or load, kernels: once per process."""
    tiny = Point("ind", algorithm, 128, d, 8, **dict(options))
    tiny.monitor().push(np.random.default_rng(0).random((600, d)))
