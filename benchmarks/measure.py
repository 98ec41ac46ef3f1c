"""One way to measure: feed a stream chunk by chunk to a monitor, and time nothing but ``push``.

Times are CPU time of the process: other work on the machine delays a run but is not counted, and
neither is the generation of the stream. Kernels are compiled, or loaded, before the first push
that counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from skyband import Monitor, TopK, last
from skyband.engine.algorithm import flatten

Floats = NDArray[np.float64]
Record = dict[str, Any]

BLOCK = 1_000_000  # objects per resident block of a stream
_OUTPUT = 4 << 20  # bytes of answers per push: more are not reused but mapped afresh each time
_FIRST = 1 << 14  # objects of the first push under a time budget


@dataclass(frozen=True)
class Point:
    """One query and the algorithm that is to answer it."""

    algorithm: str
    n: int
    s: int
    k: int
    emit: Literal["all", "changes"] = "all"
    options: tuple[tuple[str, Any], ...] = ()

    def monitor(self) -> Monitor:
        """A fresh monitor."""
        query = TopK(k=self.k, window=last(count=self.n, slide=self.s), emit=self.emit)
        return Monitor(query, self.algorithm, options=dict(self.options))

    @property
    def chunk(self) -> int:
        """Objects per push: as many as keep the answers of a push small."""
        rows = 8 if self.emit == "changes" else min(self.k, self.n)
        per_object = (64 + 16 * rows) / self.s  # the bounds of a window, and its rows
        return int(max(256, min(BLOCK, _OUTPUT / per_object)))


@dataclass(frozen=True)
class Measured:
    """What a run cost.

    ``objects`` were timed and took ``cpu`` seconds (``wall`` on the clock). The counters
    ``candidates`` and ``meaningful`` are averages over the slides after the first full window, if
    the run got that far; the others are totals. ``state_bytes`` is the largest state seen after a
    push, ``window_bytes`` the part of it that holds raw scores of the window.
    """

    objects: int
    cpu: float
    wall: float
    counters: dict[str, float]
    state_bytes: int
    window_bytes: int
    chosen: str
    complete: bool  # False: the time budget ended the run early

    @property
    def ns_per_object(self) -> float:
        """CPU time per object."""
        return self.cpu * 1e9 / max(self.objects, 1)

    @property
    def candidates(self) -> float:
        """Candidates kept, on average over the slides."""
        return self.counters["candidates"]


def measure(
    point: Point, stream: Iterable[Floats], *, budget: float | None = None, untimed: int = 0
) -> Measured:
    """Run one algorithm over a stream.

    The first ``untimed`` objects (say, those that fill the window) are fed but not counted. The
    run ends early once pushes have taken ``budget`` seconds; if that happens before any object
    was timed, what was fed is what is reported.
    """
    warm(point)
    monitor = point.monitor()
    fed = timed = 0
    cpu = wall = spent = spent_wall = 0.0
    filled: dict[str, float] | None = None
    state = window = 0
    complete = True
    # with a budget, pieces grow from small ones on, so that a slow algorithm can be stopped
    length = point.chunk if budget is None else min(point.chunk, _FIRST)
    pieces = _Pieces(stream, {untimed, point.n})
    while len(piece := pieces.take(length)):
        began, began_wall = time.process_time(), time.perf_counter()
        answers = monitor.push(piece)
        took, took_wall = time.process_time() - began, time.perf_counter() - began_wall
        del answers  # freed outside the clock, as a reader would
        spent, spent_wall = spent + took, spent_wall + took_wall
        if fed >= untimed:
            cpu, wall, timed = cpu + took, wall + took_wall, timed + len(piece)
        fed += len(piece)
        if filled is None and fed >= point.n:
            filled = _sums(monitor)
        occupied = monitor.state_bytes()
        if occupied > state:
            state, window = occupied, window_bytes(monitor)
        if budget is None:
            continue
        if spent > budget and pieces.more:
            complete = False
            break
        affordable = int((budget - spent) / spent * fed) + 1
        length = max(min(2 * length, point.chunk, affordable), 256)
    if not timed:
        cpu, wall, timed = spent, spent_wall, fed
    return Measured(
        timed,
        cpu,
        wall,
        _since(_sums(monitor), filled),
        state,
        window,
        monitor.plan.algorithm,
        complete,
    )


def best_of(
    point: Point,
    stream: Sequence[Floats],
    *,
    repeats: int = 3,
    budget: float | None = None,
    untimed: int = 0,
    enough: float = 3.0,
) -> Measured:
    """The fastest of some runs; stops once they have taken ``enough`` seconds."""
    best = measure(point, stream, budget=budget, untimed=untimed)
    spent = best.cpu
    for _ in range(repeats - 1):
        if spent > enough or not best.complete:
            break
        again = measure(point, stream, budget=budget, untimed=untimed)
        spent += again.cpu
        best = min(best, again, key=lambda run: run.ns_per_object)
    return best


@lru_cache(maxsize=256)
def _warmed(algorithm: str, emit: str, options: tuple[tuple[str, Any], ...]) -> None:
    tiny = Point(algorithm, 64, 8, 4, "changes" if emit == "changes" else "all", options)
    monitor = tiny.monitor()
    assert monitor.algorithm.name  # "auto" would answer so few objects with NumPy
    for scores in (np.random.default_rng(0).random(400), np.arange(400.0), -np.arange(400.0)):
        monitor.push(scores)  # at random, rising and falling: to pass every way through the code


def warm(point: Point) -> None:
    """Compile, or load, the kernels that a point needs: once per process."""
    _warmed(point.algorithm, point.emit, ())
    if point.options:
        _warmed(point.algorithm, point.emit, point.options)


def np_max(stream: Sequence[Floats], passes: int = 5) -> float:
    """ns per object of one ``np.max`` pass over a resident stream: the best of some passes."""
    objects = sum(len(block) for block in stream)
    took = []
    for _ in range(passes):
        began = time.process_time()
        for block in stream:
            np.max(block)
        took.append(time.process_time() - began)
    return min(took) * 1e9 / objects


@lru_cache(maxsize=2)
def resident(name: str, rows: int, seed: int = 0) -> tuple[Floats, ...]:
    """A whole stream in memory, in blocks; the last two streams are cached."""
    return tuple(streamed(name, rows, seed))


def streamed(name: str, rows: int, seed: int = 0) -> Iterator[Floats]:
    """A stream in blocks, generated while it is read."""
    from skyband.datasets import dataset

    return iter(dataset(name).scores(rows, seed=seed, chunk=min(BLOCK, rows)))


def part(stream: Sequence[Floats], start: int, stop: int) -> list[Floats]:
    """The objects ``start .. stop`` of a resident stream, without copying them."""
    parts, at = [], 0
    for block in stream:
        low, high = max(start - at, 0), min(stop - at, len(block))
        if low < high:
            parts.append(block[low:high])
        at += len(block)
    return parts


def window_bytes(monitor: Monitor) -> int:
    """Bytes of the state that hold raw scores of the window, not candidates."""
    return sum(
        array.nbytes
        for name, array in flatten(monitor.algorithm.state)
        if name.split(".")[0] in ("raw", "cells")  # a ring of scores; the grid of tma and sma
    )


class _Pieces:
    """A stream piece by piece, cut where its blocks end and at some places in it."""

    def __init__(self, stream: Iterable[Floats], edges: Iterable[int]) -> None:
        self._blocks = iter(stream)
        self._block: Floats = np.empty(0)
        self._edges = sorted(edges)
        self._taken = 0
        self.more = True
        self._refill()

    def _refill(self) -> None:
        while self.more and not len(self._block):
            following = next(self._blocks, None)
            if following is None:
                self.more = False
            else:
                self._block = following

    def take(self, length: int) -> Floats:
        """The next ``length`` objects or fewer; none at the end."""
        while self._edges and self._edges[0] <= self._taken:
            del self._edges[0]
        if self._edges:
            length = min(length, self._edges[0] - self._taken)
        piece, self._block = self._block[:length], self._block[length:]
        self._taken += len(piece)
        self._refill()
        return piece


_AVERAGES = ("candidates", "meaningful")


def _sums(monitor: Monitor) -> dict[str, float]:
    counters = monitor.counters()
    slides = counters["slides"]
    return {name: v * slides if name in _AVERAGES else v for name, v in counters.items()}


def _since(total: dict[str, float], filled: dict[str, float] | None) -> dict[str, float]:
    """Counters since the window was filled: totals, or averages over the slides."""
    before = filled if filled is not None and filled["slides"] < total["slides"] else None
    slides = total["slides"] - (before["slides"] if before else 0)
    return {
        name: (v - (before[name] if before else 0)) / max(slides, 1) if name in _AVERAGES else v
        for name, v in total.items()
    }
