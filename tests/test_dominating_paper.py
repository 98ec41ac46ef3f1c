"""The examples of the paper on top-k dominating queries, and where its second lemma fails."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skyband import DominatingMonitor, TopKDominating, last
from skyband.dominating.ada import count_partially, later_dominators, safe_behind
from skyband.dominating.events import algorithm as events
from skyband.dominating.events.state import EXCLUDED, TOP
from skyband.kernels.jit import entry
from tests.oracle import count_dominating
from tests.streams import answers, same

XY = [("x", "min"), ("y", "min")]


def ranked(points, k, algorithm, window=None):
    query = TopKDominating(k, XY, last(count=window or len(points), full=True))
    (results,) = DominatingMonitor(query, algorithm).push(np.array(points, dtype=float))
    return results


@pytest.mark.parametrize("algorithm", ["bfa", "eva", "ada", "contenders", "ahba", "amsa"])
def test_figure_1_skyline_top_k_and_top_k_dominating_differ(algorithm):
    """The skyline is p3, p8, p7, p5; the least sums have p7 and p8; p7, p8 and p6 dominate most.

    Coordinates are ours, with the properties that section 1 tells; p4 and p9 score as p6 does.
    """
    points = {
        "p1": (9, 8),
        "p2": (8, 9),
        "p3": (1, 7.5),
        "p4": (4.2, 7),
        "p5": (10, 1),
        "p6": (4.1, 7.1),
        "p7": (3, 3),
        "p8": (2, 5),
        "p9": (7, 4.5),
    }
    names, values = list(points), list(points.values())
    matrix = np.array(values)
    skyline = {
        name
        for name, point in points.items()
        if not any((matrix <= point).all(axis=1) & (matrix < point).any(axis=1))
    }
    assert skyline == {"p3", "p5", "p7", "p8"}
    least = sorted(names, key=lambda name: sum(points[name]))[:2]
    assert set(least) == {"p7", "p8"}
    results = ranked(values, 5, algorithm)
    scores = dict(zip([names[at] for at in results.id], results.score.tolist(), strict=True))
    assert [names[at] for at in results.id[:2]] == ["p7", "p8"]
    assert scores["p6"] == scores["p4"] == scores["p9"] == 2


@entry
def _safe(state, score, ahead):
    return safe_behind(state, score, ahead)


@entry
def _later(state, seq, slot):
    return later_dominators(state, seq, slot)


@entry
def _count_partially(state, slot, seq):
    count_partially(state, slot, seq)


def update(tick):
    """The update of figure 3 at which a tick of our clock falls: two per update from 10 on."""
    return math.ceil((tick - 10) / 2) + 10


def test_figure_3_event_times():
    order = [10, 3, 8, 5, 4, 2, 7, 1, 6, 9]  # from best to worst
    value = {point: float(place) for place, point in enumerate(order)}
    window = last(count=10, slide=1, full=True)
    monitor = DominatingMonitor(TopKDominating(3, [("x", "min")], window), "eva")
    (results,) = monitor.push(np.array([[value[point]] for point in range(1, 11)]))
    assert (results.id + 1).tolist() == [10, 3, 8]
    assert results.score.tolist() == [9, 8, 7]
    state = monitor.algorithm.state
    assert update(_safe(state, 3, 0)) == 12  # p7
    assert update(_safe(state, 5, 0)) == 11  # p4 by Lemma 1
    assert update(_safe(state, 5, 1)) == 12  # p4 by Lemma 2: p5 dominates it and expires later
    monitor.push(np.array([[20.0], [21.0]]))
    state = monitor.algorithm.state
    assert state.best.score[2] == 7
    assert update(_safe(state, 3 + 2, 0)) == 13  # p7 again, from the bound of its score


def equal_widths(window, sample=0):
    """Codes of a unit square, in equal steps."""
    blocks, slots = int(window.now[0].blocks), int(window.now[0].slots)
    window.bounds[:] = np.tile(np.arange(1, blocks) / blocks, 2)
    points = window.points.reshape(slots, 2).T
    codes = np.where(np.isnan(points), 0, np.floor(points * blocks))
    window.codes[:] = codes.astype(np.uint16).reshape(-1)


def test_figure_6_counters_bound_later_dominators(monkeypatch):
    """Four cells a side; p5 arrives in c6, p1 expires, p4 becomes the answer; p3 is in c10."""
    monkeypatch.setattr("skyband.dominating.window.choose_bounds", equal_widths)
    monkeypatch.setattr("skyband.dominating.point_window.choose_bounds", equal_widths)
    monkeypatch.setattr(events, "_PER_CELL", 1 / 4)
    window = last(count=4, slide=1, full=True)
    monitor = DominatingMonitor(TopKDominating(1, XY, window), "ada")
    p1, p2, p3, p4, p5 = (0.05, 0.05), (0.6, 0.6), (0.45, 0.6), (0.1, 0.3), (0.4, 0.4)
    (first,) = monitor.push(np.array([p1, p2, p3, p4]))
    assert first.id.tolist() == [0]
    algorithm = monitor.algorithm
    algorithm.recode()
    algorithm.start()
    assert int(algorithm.state.grid.side[0]) == 4
    assert _later(algorithm.state, 2, 2) == 1  # p4, no answer yet, dominates c10
    (second,) = monitor.push(np.array([p5]))
    assert second.id.tolist() == [3]  # p4
    state = algorithm.state
    state.counted[4] or _count_partially(state, 4, 4)
    assert _later(state, 2, 2) == 1  # p5, which shares a column of cells with p3
    assert _later(state, 1, 1) == 1  # p5, which dominates the cell of p2


@pytest.mark.parametrize("algorithm", ["eva", "ada", "contenders"])
def test_the_second_lemma_must_look_at_every_expiry(algorithm):
    """A point may be an answer long before SI_2 of the paper says so.

    k = 2. The answers are a, which dominates everything and expires first, and b. The point p is
    dominated by q, which expires later and is no answer, so r = 1, and Lemma 2 looks at the best
    score, that of a, and at the expiry of b. But once a is gone p only has to overtake b.
    """
    n = 60
    a, b, p, q = (0.0, 0.0), (0.6, 0.2), (0.3, 0.5), (0.29, 0.49)
    below_b = [(0.9 + i / 100, 0.4 - i / 100) for i in range(10)]
    below_p = [(0.31 + i / 100, 0.8 - i / 100) for i in range(8)]
    others = [*below_b, *below_p, b, p, q]
    fill = [(0.01 + i / 1000, 0.99 - i / 1000) for i in range(n - 1 - len(others))]
    stream = [a, *fill, *others]
    at_b, at_p = n - 3, n - 2
    stream += [(0.45 + i / 100, 0.6 - i / 100) for i in range(4)]  # dominated by p and q alone
    wanted = count_dominating(stream, n, 1, 2, full=True)
    before, after = wanted[0], wanted[-1]
    assert before.rows == ((n - 1.0, 0), (10.0, at_b))
    assert at_p in [at for _, at in after.rows]  # four updates later
    score_p = 8
    by_the_paper = min(math.ceil((n - 1 - score_p) / 2), at_b + n - (n - 1))
    assert by_the_paper > 4
    window = last(count=n, slide=1, full=True)
    monitor = DominatingMonitor(TopKDominating(2, XY, window), algorithm)
    same(answers(monitor.push(np.array(stream))), wanted)


def low_cells(state, seqs, k):
    """Points whose cells the paper's AMSA excludes: score_1 - score_k < score_k - minscore."""
    slots, width = len(state.kind), int(state.window.now[0].width)
    points = state.window.points.reshape(slots, width)[seqs & (slots - 1)]
    scores = [int(((one <= points).all(1) & (one < points).any(1)).sum()) for one in points]
    best = sorted(scores, reverse=True)
    cells = state.grid.cell[seqs & (slots - 1)]
    where = np.stack(np.unravel_index(cells, (int(state.grid.side[0]),) * width), axis=1)
    smallest = np.array([(where > cell).all(axis=1).sum() for cell in where])
    return best[0] - best[k - 1] < best[k - 1] - smallest


def test_amsa_excludes_the_points_of_low_cells(monkeypatch):
    """Section 7.2: by the smallest score that the cell of a point allows, and for good."""
    monkeypatch.setattr(events, "_PER_CELL", 1)
    n, k = 400, 12
    points = np.random.default_rng(3).random((n + 40, 3))
    window = last(count=n, slide=1, full=True)
    query = TopKDominating(k, [*XY, ("z", "min")], window)
    monitor = DominatingMonitor(query, "amsa", options={"rule": "paper"})
    monitor.push(points[:n])
    algorithm = monitor.algorithm
    algorithm.start()  # whatever is known is of now
    state, seqs = algorithm.state, np.arange(n)
    slots = len(state.kind)
    excluded = state.kind[seqs & (slots - 1)] == EXCLUDED
    top = state.kind[seqs & (slots - 1)] == TOP
    low = low_cells(state, seqs, k)
    assert (excluded == low & ~top).all()
    assert 0 < excluded.sum() < n - k
    for at in range(n, n + 40):
        monitor.push(points[at : at + 1])
        alive = seqs[excluded & (seqs > at - n)]
        assert (state.kind[alive & (slots - 1)] == EXCLUDED).all()  # for good
        low = low_cells(state, np.arange(at + 1 - n, at + 1), k)
        kind = state.kind[at & (slots - 1)]
        assert kind == TOP or (kind == EXCLUDED) == low[-1]
