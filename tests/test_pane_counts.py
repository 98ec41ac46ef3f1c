"""Counting by panes and shards gives what the oracle gives, and holds its invariants."""

from __future__ import annotations

import random

import numpy as np
import pytest

from skyband.dominating.dominance_counts import dominated, dominators, index, kth_newest
from skyband.dominating.panes import PaneCounts, chain_lengths, possible_answers, undominated
from skyband.spark.axis import PaneLifetimes
from tests.oracle import dominates, numbered, time_dominating


def some_points(chance, rows, width, levels):
    return [tuple(float(chance.randrange(levels)) for _ in range(width)) for _ in range(rows)]


def matrix(points, width):
    return np.array(points, dtype=np.float64).reshape(-1, width)


@pytest.mark.parametrize("width", [1, 2, 3, 5])
@pytest.mark.parametrize("rows", [0, 1, 31, 33, 64, 200])
def test_counts_equal_those_of_pairs(rows, width):
    chance = random.Random(rows * 7 + width)
    points = some_points(chance, rows, width, 5)
    probes = some_points(chance, 40, width, 6)
    matrix_of_points, by = matrix(points, width), matrix(probes, width)
    under = [sum(dominates(one, other) for other in points) for one in probes]
    over = [[at for at, other in enumerate(points) if dominates(other, one)] for one in probes]
    assert dominated(index(matrix_of_points), by).tolist() == under
    assert dominators(matrix_of_points, by).tolist() == [len(above) for above in over]
    third = [above[-3] if len(above) >= 3 else -1 for above in over]
    assert kth_newest(matrix_of_points, by, 3).tolist() == third


def test_counts_over_several_blocks_and_infinities():
    chance = np.random.default_rng(3)
    points = chance.integers(0, 40, (9000, 3)).astype(np.float64)
    points[::50, 1] = np.inf
    points[::70, 2] = -np.inf
    probes = points[:25]
    under = [int(((one <= points).all(1) & (one < points).any(1)).sum()) for one in probes]
    assert dominated(index(points), probes).tolist() == under


@pytest.mark.parametrize("k", [1, 3, 50])
def test_undominated_points_are_the_k_skyband(k):
    chance = np.random.default_rng(k)
    for points in (chance.random((1500, 3)), chance.integers(0, 4, (1500, 2)).astype(float)):
        over = [((points <= one).all(1) & (points < one).any(1)).sum() for one in points]
        assert undominated(points, k).tolist() == [count < k for count in over]


@pytest.mark.parametrize("k", [1, 2, 5])
def test_chains_are_as_long_as_the_longest_above(k):
    chance = random.Random(k)
    for width in (1, 2, 3):
        points = some_points(chance, 60, width, 6)
        above = {}
        for point in sorted(points, key=sum):  # whoever dominates comes first
            longer = [above[other] + 1 for other in points if dominates(other, point)]
            above[point] = max(longer, default=0)
        expected = [min(above[point], k) for point in points]
        assert chain_lengths(matrix(points, width), k).tolist() == expected


def play(
    points, times, lives, k, width, shards, chance, closes, ties="newest", rank_by="row_number"
):
    """Panes in ascending order into each shard; the k best of each window by the sums."""
    dense = rank_by == "dense_rank"
    numbers = []
    for time in times:
        late = time % lives.slide >= lives.slide - lives.size % lives.slide
        numbers.append(2 * (time // lives.slide + 1) + int(lives.split and late))
    order = sorted(range(len(points)), key=lambda at: (times[at], at))
    counts = [PaneCounts(k, width, lives, dense=dense) for _ in range(shards)]
    names, windows = [], {}

    def collect(until):
        for shard, counted in enumerate(counts):
            for window, slot, count in counted.answer_before(until):
                sums = windows.setdefault(window, {})
                for one, more in zip(slot.tolist(), count.tolist(), strict=True):
                    assert shard == 0 or one in sums, "shards differ in their candidates"
                    sums[one] = sums.get(one, 0) + more
            if closes:
                counted.check_invariants()

    for pane in sorted(set(numbers)):
        rows = [at for at in order if numbers[at] == pane]
        collect(lives.step(pane))
        arriving = matrix([points[at] for at in rows], width)
        home = np.array([chance.randrange(shards) for _ in rows])
        # survivors may be more than needed
        some = possible_answers(arriving, k + chance.randrange(3), dense)
        names += [at for at, stays in zip(rows, some, strict=True) if stays]
        for shard, counted in enumerate(counts):
            counted.insert(pane, arriving[home == shard], arriving[some])
        if pane ^ 1 not in numbers and chance.random() < 0.5:
            collect(lives.step(pane) + 1)
        if chance.random() < 0.3:
            for at, counted in enumerate(counts):
                copy = PaneCounts(k, width, lives, counted.panes, dense=dense)
                copy.adopt(counted.arrays())
                counts[at] = copy
    collect(1 << 40)
    assert all(counted.idle and not len(counted) and not counted.panes for counted in counts)
    answers = []
    for window, sums in sorted(windows.items()):
        age = 1 if ties == "oldest" else -1
        order = sorted(sums.items(), key=lambda item: (-item[1], age * item[0]))
        rows = [(float(count), names[slot]) for slot, count in order]
        ranked = zip(rows, numbered(rows, rank_by), strict=True)
        answers.append((window * lives.slide, [row for row, rank in ranked if rank <= k]))
    return answers


@pytest.mark.parametrize("rank_by", ["row_number", "rank", "dense_rank"])
@pytest.mark.parametrize("ties", ["newest", "oldest"])
@pytest.mark.parametrize("seed", range(30))
def test_sums_over_shards_give_what_the_oracle_gives(seed, ties, rank_by):
    chance = random.Random(seed)
    order = {"ties": ties, "rank_by": rank_by}
    width, k = chance.randint(1, 4), chance.randint(1, 6)
    size = chance.randint(1, 30)
    lives = PaneLifetimes(size, chance.randint(1, size))
    points = some_points(chance, 120, width, chance.choice([3, 6, 1000]))
    times = np.cumsum([chance.choice([0, 0, 1, 1, 3, 40]) for _ in points]).tolist()
    shards, closes = chance.randint(1, 3), seed % 3 == 0
    answered = play(points, times, lives, k, width, shards, chance, closes, **order)
    wanted = time_dominating(points, times, size, lives.slide, k, -(size % lives.slide), **order)
    assert answered == [(answer.end, list(answer.rows)) for answer in wanted]


@pytest.mark.compiled
def test_a_slide_costs_its_panes_and_not_the_window():
    chance = np.random.default_rng(1)
    cost = {}
    for panes in (10, 100):
        counts = PaneCounts(5, 3, PaneLifetimes(panes, 1))
        for pane in range(3 * panes):
            points = chance.random((100, 3))
            list(counts.answer_before(pane))
            if pane == 2 * panes:
                before = counts.work.compared + counts.work.first_compared, counts.work.slides
            counts.insert(2 * pane, points, points[undominated(points, 5)])
        work = counts.work.compared + counts.work.first_compared - before[0]
        cost[panes] = work / (counts.work.slides - before[1])
    assert cost[100] < 4 * cost[10]  # ten times the points


def test_a_pane_that_comes_too_late_is_a_mistake_of_ours():
    counts = PaneCounts(1, 1, PaneLifetimes(10, 5))
    counts.insert(8, np.zeros((1, 1)), np.zeros((1, 1)))
    assert [window for window, _, _ in counts.answer_before(6)] == [4, 5]
    with pytest.raises(AssertionError, match="after window 5"):
        counts.insert(8, np.zeros((1, 1)), np.zeros((1, 1)))
