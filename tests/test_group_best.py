"""The rows that may be among the k best of a pane or group: none that wins is left out."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skyband.kernels.group_best import (
    Grid,
    best_of,
    best_of_groups,
    best_of_panes,
    places,
    room_for,
)

SCORES = st.one_of(
    st.integers(0, 4).map(float), st.sampled_from([np.nan, np.inf, -np.inf, -0.0, 0.5])
)


def expected(scores: np.ndarray, ages: np.ndarray, groups: np.ndarray, k: int) -> set[int]:
    """The k best rows of each group, and what ties with the last of them."""
    chosen: set[int] = set()
    for group in set(groups.tolist()):
        rows = [i for i in np.flatnonzero(groups == group).tolist() if scores[i] == scores[i]]
        pairs = {i: (scores[i], ages[i]) for i in rows}
        worst = sorted(pairs.values(), reverse=True)[:k]
        chosen |= {i for i in rows if pairs[i] >= worst[-1]}
    return chosen


@given(
    rows=st.lists(st.tuples(SCORES, st.integers(-40, 40)), min_size=1, max_size=90),
    k=st.integers(1, 5),
    slide=st.integers(1, 30),
    part=st.integers(0, 29),
    sign=st.sampled_from([1, -1]),
    whole=st.booleans(),
    ordered=st.booleans(),
)
def test_panes(
    rows: list[tuple[float, int]],
    k: int,
    slide: int,
    part: int,
    sign: int,
    whole: bool,
    ordered: bool,
) -> None:
    if ordered:
        rows = sorted(rows, key=lambda row: row[1])
    rows = rows * 5  # more than a block of rows that is passed over at once
    scores, positions = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    if whole:
        scores = np.nan_to_num(scores, posinf=9, neginf=-9).astype(np.int64)
    split = part % slide
    first = int(positions.min()) // slide * slide
    inside = positions - first
    panes = inside // slide
    if split:
        panes = 2 * panes + (inside % slide >= split)
    count = (int(positions.max()) - first) // slide + 1
    best = best_of(count * (2 if split else 1), k, scores)
    stopped = best_of_panes(scores, positions, Grid(first, slide, split, sign), k, best)
    wanted = expected(scores, sign * positions, panes, k)
    if stopped >= 0:  # more rows tie than there is room for
        assert len(wanted) > k
        return
    assert set(places(best, k).tolist()) == wanted
    groups = best_of(len(best.size), k, scores)
    assert best_of_groups(scores, positions, panes, sign, k, groups) < 0
    assert set(places(groups, k).tolist()) == wanted


def test_a_threshold_from_before_leaves_rows_out() -> None:
    scores, positions = np.array([1.0, 3.0, 3.0, 5.0]), np.array([0, 1, 2, 3])
    best = best_of(1, 2, scores)
    best.bar[0], best.bar_position[0] = 3.0, 2
    assert best_of_panes(scores, positions, Grid(0, 10, 0, 1), 2, best) == -1
    assert places(best, 2).tolist() == [2, 3]


def test_too_many_ties_are_told() -> None:
    scores, positions = np.zeros(100), np.zeros(100, np.int64)
    best = best_of(1, 2, scores)
    assert best_of_panes(scores, positions, Grid(0, 10, 0, 1), 2, best) == room_for(2) - 1
    groups = best_of(1, 2, scores)
    zeros = np.zeros(100, np.int64)
    assert best_of_groups(scores, positions, zeros, 1, 2, groups) == room_for(2) - 1
