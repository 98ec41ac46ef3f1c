"""The candidates of one key: what is kept is what can still be ranked, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.errors import DataError
from skyband.spark.axis import FOREVER, PaneLifetimes
from skyband.spark.state.candidates import Answer, CandidatePane, Candidates
from skyband.windows import MOST_WINDOWS


def pane(number, *scores):
    """A pane of these scores, best first; rows are named after pane and place."""
    return CandidatePane(number, list(scores), [[f"{number}.{i}" for i in range(len(scores))]])


def new_candidates(k, size, slide=1, **options):
    return Candidates(k, PaneLifetimes(size, slide), 1, **options)


def kept_rows(candidates):
    return candidates.rows.columns[0]


def window_rows(answers):
    return [(a.window, a.columns[0]) for a in answers]


def test_a_row_with_k_better_newer_rows_is_forgotten():
    candidates = new_candidates(k=1, size=3)
    candidates.insert(pane(2, 5.0))
    candidates.insert(pane(4, 7.0))
    assert kept_rows(candidates) == ["4.0"]
    candidates.insert(pane(6, 6.0))
    assert kept_rows(candidates) == ["4.0", "6.0"]
    candidates.check_invariants()


def test_of_equal_scores_the_newer_ranks_first():
    candidates = new_candidates(k=1, size=3)
    candidates.insert(pane(2, 5.0))
    candidates.insert(pane(4, 5.0))
    assert kept_rows(candidates) == ["4.0"]


@pytest.mark.parametrize("emit_changes", [False, True])
def test_too_many_windows_are_refused_before_any_is_answered(emit_changes):
    """Panes that are far apart, each alone in half as many windows as may be."""
    most = MOST_WINDOWS // 2
    candidates = new_candidates(k=1, size=most, changes=emit_changes)
    distant = [pane(2 * number, 1.0) for number in (1, 2 * most, 6 * most)]
    with pytest.raises(DataError, match="completes 150,000,000 windows"):
        next(candidates.run(distant, closed=FOREVER, ended=True))
    with pytest.raises(DataError, match="completes 100,000,001 windows"):
        next(candidates.run(distant, closed=6 * most))
    assert next(candidates.run(distant, closed=6 * most - 1)).window == 1
    with pytest.raises(DataError, match="completes 200,000,000 windows"):
        next(candidates.run([*distant[1:], pane(2**40, 1.0)], closed=FOREVER, ended=True))


def test_windows_that_end_before_a_pane_are_answered_before_it_is_inserted():
    candidates = new_candidates(k=1, size=1)
    answers = list(candidates.run([pane(6, 9.0), pane(2, 1.0), pane(4, 5.0)], closed=3))
    assert window_rows(answers) == [(1, ["2.0"]), (2, ["4.0"]), (3, ["6.0"])]
    assert candidates.idle


def test_a_window_is_answered_as_long_as_anything_in_it_is_alive():
    candidates = new_candidates(k=2, size=3)
    answers = list(candidates.run([pane(2, 5.0), pane(12, 1.0)], closed=100))
    assert window_rows(answers) == [(n, ["2.0"]) for n in (1, 2, 3)] + [
        (n, ["12.0"]) for n in (6, 7, 8)
    ]


def test_nothing_is_answered_twice_or_beyond_what_is_closed():
    candidates = new_candidates(k=1, size=4)
    assert window_rows(candidates.run([pane(2, 5.0)], closed=2)) == [(1, ["2.0"]), (2, ["2.0"])]
    assert window_rows(candidates.run([], closed=2)) == []
    assert candidates.due == 3
    assert not candidates.idle
    assert window_rows(candidates.run([], closed=9)) == [(3, ["2.0"]), (4, ["2.0"])]
    assert candidates.idle


def test_a_pane_of_a_window_that_was_answered_is_a_mistake():
    candidates = new_candidates(k=1, size=2)
    list(candidates.run([pane(2, 5.0)], closed=4))
    with pytest.raises(AssertionError, match="window 3 after window 4"):
        candidates.insert(pane(6, 1.0))


def test_a_pane_without_ranked_rows_changes_nothing():
    candidates = new_candidates(k=1, size=2)
    assert window_rows(candidates.run([pane(2)], closed=5)) == []
    assert candidates.idle


def test_halves_of_a_step_live_differently():
    """Window 5, slide 2: of each step the later row lives for three windows, the other for two."""
    candidates = new_candidates(k=1, size=5, slide=2)
    answers = window_rows(candidates.run([pane(2, 9.0), pane(3, 5.0)], closed=9))
    assert answers == [(1, ["2.0"]), (2, ["2.0"]), (3, ["3.0"])]


def test_a_half_that_lives_as_long_as_the_next_pane_prunes_it():
    candidates = new_candidates(k=1, size=5, slide=2)
    candidates.insert(pane(3, 5.0))
    candidates.insert(pane(4, 4.0))
    assert kept_rows(candidates) == ["3.0"]
    candidates.check_invariants()


def test_changes_report_what_entered_moved_and_left():
    candidates = new_candidates(k=2, size=2, changes=True)
    answers = list(candidates.run([pane(2, 5.0), pane(4, 7.0)], closed=9))
    assert answers == [
        Answer(1, [5.0], [["2.0"]], [1], [0]),
        Answer(2, [7.0, 5.0], [["4.0", "2.0"]], [1, 2], [0, 1]),
        Answer(3, [5.0], [["2.0"]], [0], [2]),
        Answer(4, [7.0], [["4.0"]], [0], [1]),
    ]
    assert candidates.idle


def test_windows_that_are_not_yet_full_are_not_answered():
    candidates = new_candidates(k=1, size=3, first_full_window=3)
    answers = window_rows(candidates.run([pane(2, 5.0), pane(4, 7.0), pane(6, 6.0)], closed=4))
    assert answers == [(3, ["4.0"]), (4, ["4.0"])]


def rank_order(row):
    number, place, score = row
    return (-score, -number, place)


@given(
    k=st.integers(1, 4),
    size=st.integers(1, 12),
    slide=st.integers(1, 12),
    panes=st.dictionaries(
        st.integers(2, 40),
        st.lists(st.sampled_from([-float("inf"), 0.0, 1.0, 2.0, float("inf")]), max_size=4),
        max_size=10,
    ),
)
def test_what_is_kept_is_minimal(k, size, slide, panes):
    """After each pane: exactly the rows with fewer than k rows above that live as long."""
    slide = min(slide, size)
    lifetimes = PaneLifetimes(size, slide)
    candidates = Candidates(k, lifetimes, 1)
    rows = []
    for number in sorted(panes):
        if number & 1 and not lifetimes.split:
            continue
        scores = sorted(panes[number], reverse=True)[:k]
        rows += [(number, place, score) for place, score in enumerate(scores)]
        list(candidates.run([pane(number, *scores)], closed=lifetimes.step(number) - 1))
        candidates.check_invariants()
        alive = [row for row in rows if lifetimes.last(row[0]) >= candidates.due]
        needed = [
            row
            for row in sorted(alive, key=rank_order)
            if k
            > sum(
                rank_order(other) < rank_order(row)
                and lifetimes.last(other[0]) >= lifetimes.last(row[0])
                for other in alive
            )
        ]
        assert kept_rows(candidates) == [f"{number}.{place}" for number, place, _ in needed]
