"""MTopS's worked examples, figures and lemmas; comments note where its text contradicts itself.

A second is ten ticks, so that a moment just before or after a full second can be looked at.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from benchmarks.papers.mintopk import claims as mintopk_claims
from benchmarks.papers.mtops import claims as mtops_claims
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband import TopK, last
from skyband.workload.mtoplist import MTopList
from skyband.workload.sharing import Sharing

SECOND = 10


def seconds(window, slide, k):
    """A query whose windows end at 8 s, and every ``slide`` seconds before and after."""
    return TopK(
        k=k,
        window=last(
            time=window * SECOND, slide=slide * SECOND, offset=(8 - window) % slide * SECOND
        ),
    )


EXAMPLE_4_1 = {1: seconds(8, 6, 3), 2: seconds(8, 2, 3), 3: seconds(8, 3, 3)}
EXAMPLE_4_2 = {1: seconds(8, 4, 2), 2: seconds(6, 3, 2), 3: seconds(4, 2, 2)}
SCORES = [12.0, 3.0, 1.0, 11.0, 4.0, 9.0, 5.0, 6.0]  # of the objects that arrive at 0, 1, ... s


def sharing(queries, algorithm="mtoplist"):
    engine = Sharing(algorithm, counted=False, changes=False, timed=False)
    for number, query in queries.items():
        engine.add(number, query, None)
    return engine


def push(engine, scores, times, until):
    """Push rows; answers what ends at ``until`` or before, as (query, end, scores)."""
    seq = np.array(times, dtype=np.int64)  # times are unique here, and ascending
    answered = engine.push(np.array(scores, dtype=float), seq, seq, seq, until)
    return [
        (int(query), window.end, window.score.tolist())
        for queries, ranked in answered
        for query, window in zip(queries, ranked, strict=True)
    ]


def played(queries, algorithm="mtoplist"):
    """The objects from 0 to 7 s have arrived, and the windows that end at 8 s are due."""
    engine = sharing(queries, algorithm)
    push(engine, SCORES, range(0, 8 * SECOND, SECOND), 8 * SECOND - 1)
    return engine


def serving(engine):
    """For each view, by its start in seconds: the queries that it serves."""
    queries = {}
    for start, query in zip(engine.schedule.open.start, engine.schedule.open.query, strict=True):
        queries.setdefault(start / SECOND, set()).add(int(query))
    return queries


def marks(engine):
    """The list of MTopList: score, start and end mark (in seconds), views that predict it."""
    state = engine.structure.state
    return [
        (
            state.items.score[node],
            state.first[node] / SECOND,
            state.last[node] / SECOND,
            int(state.refs[node]),
        )
        for node in engine.structure.nodes()
    ]


def predicted(engine):
    """For each view, by its start: the scores that are predicted for it."""
    structure = engine.structure
    state, views = structure.state, structure.state.views
    scores_by_start = {}
    for view in range(views.bounds[0].first, views.bounds[0].end):
        if views.k[view] == 0:
            continue
        start, filled = int(views.start[view]), int(views.filled[view])
        if isinstance(structure, MTopList):
            nodes = [n for n in structure.nodes() if state.at[n] >= start][:filled]
            scores = state.items.score[nodes]
            assert not filled or nodes[-1] == views.pointer[view], "the pointer to the least score"
        else:
            first = int(views.pointer[view])
            scores = state.score[state.cells[first : first + filled]]
        scores_by_start[start] = scores.tolist()
    return scores_by_start


# ---------------------------------------------------------------- section 4: the meta query


@pytest.mark.parametrize("algorithm", ["mtopband", "mtoplist"])
def test_figure_2_predicted_views_of_one_query(algorithm):
    """win = 12, slide = 4: the current window and two future ones hold what will still be alive."""
    engine = Sharing(algorithm, counted=True, changes=False, timed=False)
    engine.add(0, TopK(k=3, window=last(count=12, slide=4)), None)
    scores = [14.0, 2.0, 13.0, 1.0, 12.0, 5.0, 3.0, 4.0, 8.0, 7.0, 6.0, 9.0]
    push(engine, scores[:-1], range(11), 11)
    assert predicted(engine) == {0: [14, 13, 12], 4: [12, 8, 7], 8: [8, 7, 6]}
    assert push(engine, scores[-1:], [11], 12) == [(0, 12, [14, 13, 12])]
    assert predicted(engine) == {4: [12, 9, 8], 8: [9, 8, 7]}


def test_example_4_1_views():
    """Figure 3. The text says six views and lists five; the current window is the sixth."""
    engine = sharing(EXAMPLE_4_1)
    push(engine, SCORES, range(0, 8 * SECOND, SECOND), 8 * SECOND - 1)
    assert serving(engine) == {0: {1, 2, 3}, 2: {2}, 3: {3}, 4: {2}, 6: {1, 2, 3}}
    due = push(engine, [0.0], [8 * SECOND], 8 * SECOND)
    assert [query for query, _, _ in due] == [1, 2, 3]
    assert serving(engine) == {2: {2}, 3: {3}, 4: {2}, 6: {1, 2, 3}, 8: {2}}
    # most of them serve several queries, the text says: two of the six do


def test_example_4_1_one_query_at_a_time():
    """Figure 3, the other three pictures: ten views instead of six."""
    starts = {}
    for number, query in EXAMPLE_4_1.items():
        engine = sharing({number: query})
        push(engine, SCORES, range(0, 8 * SECOND, SECOND), 8 * SECOND - 1)
        current = set(serving(engine))
        push(engine, [0.0], [8 * SECOND], 8 * SECOND)
        starts[number] = sorted(current | set(serving(engine)))
    assert starts == {1: [0, 6], 2: [0, 2, 4, 6, 8], 3: [0, 3, 6]}


def test_example_4_1_adaptive_slide():
    """At 8 s the slide is 2 s, then 1 s, 1 s and 2 s. At 14 s Q3 is due too, which is left out."""
    engine = sharing(EXAMPLE_4_1)
    push(engine, SCORES, range(0, 8 * SECOND, SECOND), 8 * SECOND)
    due = push(engine, [0.0] * 6, range(8 * SECOND, 14 * SECOND, SECOND), 14 * SECOND)
    ends = {}
    for query, end, _ in due:
        ends.setdefault(end // SECOND, set()).add(query)
    assert ends == {10: {2}, 11: {3}, 12: {2}, 14: {1, 2, 3}}
    assert np.diff([8, *ends]).tolist() == [2, 1, 1, 2]


def test_example_4_2_views():
    """Five views, and whom they serve, as the text has them."""
    assert serving(played(EXAMPLE_4_2)) == {0: {1}, 2: {2}, 4: {1, 3}, 5: {2}, 6: {3}}


def test_example_4_2_counts_future_windows_on_one_side_only():
    """5 views instead of 9 windows: those that start at 8 s are among the nine alone."""
    engine = played(EXAMPLE_4_2)
    apart = len(engine.schedule.open.start)
    assert (len(serving(engine)), apart) == (5, 6)
    push(engine, [0.0], [8 * SECOND], 8 * SECOND)
    fresh = engine.schedule.open.take(engine.schedule.open.start == 8 * SECOND)
    assert len(serving(engine)) + 2 == 6  # the views of 0 s and 2 s have been answered
    assert apart + len(fresh.start) == 9


def test_example_4_2_meta_query():
    """Window 8 s, the largest; an adaptive slide; k = 2 in every view."""
    engine = played(EXAMPLE_4_2)
    windows = engine.schedule.open
    assert (windows.end - windows.start).max() == 8 * SECOND
    assert set(windows.k.tolist()) == {2}
    push(engine, [], [], 8 * SECOND)
    ends = np.unique(engine.schedule.open.end) / SECOND
    assert np.diff([8, *ends]).tolist() == [2, 1, 1]  # Q3 at 10 s, Q2 at 11 s, Q1 and Q3 at 12 s


def test_k_of_a_view_is_the_largest_it_serves_and_falls_with_it():
    """Section 4.5: an adaptive k. Q3's window from 4 s on ends first, and takes its k with it."""
    engine = sharing({1: seconds(8, 4, 1), 2: seconds(6, 3, 2), 3: seconds(4, 2, 3)})
    push(engine, SCORES, range(0, 8 * SECOND, SECOND), 8 * SECOND - 1)
    wide = {start // SECOND: len(scores) for start, scores in predicted(engine).items()}
    assert wide == {0: 1, 2: 2, 4: 3, 5: 2, 6: 2}  # two objects have arrived since 6 s
    push(engine, [], [], 8 * SECOND)
    assert predicted(engine)[4 * SECOND] == [9]


@settings(max_examples=60)
@given(
    slide=st.integers(1, 6),
    windows=st.lists(st.integers(1, 8), min_size=1, max_size=6),
    k=st.integers(1, 5),
    scores=st.lists(st.integers(0, 9), min_size=1, max_size=60),
)
def test_lemma_4_2_views_of_the_largest_window_serve_all(slide, windows, k, scores):
    """Equal slides and k, windows in whole slides: no view and no row beyond the largest's."""
    queries = {
        number: TopK(k=k, window=last(time=many * slide, slide=slide))
        for number, many in enumerate(windows)
    }
    largest = {0: TopK(k=k, window=last(time=max(windows) * slide, slide=slide))}
    both = [sharing(workload) for workload in (queries, largest)]
    for engine in both:
        push(engine, scores, range(len(scores)), len(scores))
    assert [set(serving(both[0])), both[0].kept().tolist()] == [
        set(serving(both[1])),
        both[1].kept().tolist(),
    ]


def test_lemma_4_2_needs_windows_in_whole_slides():
    """Slide 2 s, windows 6, 7 and 8 s: the discussion says that Q3's views cover the others, and
    then lists views, of 1 s and 3 s, that Q3 does not have."""
    queries = {1: seconds(6, 2, 3), 2: seconds(7, 2, 3), 3: seconds(8, 2, 3)}
    serves = serving(played(queries))
    assert serves == {0: {3}, 1: {2}, 2: {1, 3}, 3: {2}, 4: {1, 3}, 5: {2}, 6: {1, 3}, 7: {2}}


# ---------------------------------------------------------------- section 5: MTopBand


def test_figure_4_lists():
    """Example 4.2 at 8 s: the two best of each view."""
    scores = {start // SECOND: scores for start, scores in predicted(played(EXAMPLE_4_2)).items()}
    assert scores == {0: [12, 11], 2: [11, 9], 4: [9, 6], 5: [9, 6], 6: [6, 5]}


def test_figure_5_update():
    """The expired window's list goes, an empty one comes, and 10 enters every list that it beats.

    The text lets W_0 alone expire, and W_1 become the current window. But all three queries are
    answered at 8 s, so W_1, of Q2 from 2 s on, ends with it.
    """
    engine = played(EXAMPLE_4_2, "mtopband")
    due = push(engine, [], [], 8 * SECOND)
    assert due == [(1, 80, [12, 11]), (2, 80, [11, 9]), (3, 80, [9, 6])]
    assert predicted(engine) == {40: [9, 6], 50: [9, 6], 60: [6, 5]}
    push(engine, [10.0], [8 * SECOND], 8 * SECOND)
    assert predicted(engine) == {40: [10, 9], 50: [10, 9], 60: [10, 6], 80: [10]}


def test_section_5_every_object_enters_a_view_that_is_not_full():
    engine = played(EXAMPLE_4_2, "mtopband")
    push(engine, [-7.0], [8 * SECOND], 8 * SECOND)
    assert predicted(engine)[80] == [-7]
    assert -7 not in predicted(engine)[60]


# ---------------------------------------------------------------- section 6: MTopList


def test_figure_6_one_list():
    """Five objects, 12, 11, 9, 6 and 5, instead of five lists of two."""
    engine = played(EXAMPLE_4_2)
    assert [score for score, *_ in marks(engine)] == [12, 11, 9, 6, 5]
    assert predicted(engine) == predicted(played(EXAMPLE_4_2, "mtopband"))
    assert sum(len(scores) for scores in predicted(engine).values()) == 10


def test_figure_6_marks_hold_every_view_that_predicts_an_object():
    engine = played(EXAMPLE_4_2)
    views = predicted(engine)
    for score, first, final, refs in marks(engine):
        within = [start / SECOND for start, scores in views.items() if score in scores]
        assert first <= within[0] <= within[-1] <= final
        assert refs == len(within)


def test_figure_7_update():
    """12 and 11 were predicted for expired views only; 10 takes the place of 6, 6 and 5."""
    engine = played(EXAMPLE_4_2)
    push(engine, [], [], 8 * SECOND)
    assert [score for score, *_ in marks(engine)] == [9, 6, 5]
    push(engine, [10.0], [8 * SECOND], 8 * SECOND)
    assert [(score, refs) for score, _, _, refs in marks(engine)] == [(10, 4), (9, 2), (6, 1)]
    assert marks(engine)[0][1:3] == (4, 8)
    assert predicted(engine) == {40: [10, 9], 50: [10, 9], 60: [10, 6], 80: [10]}


def view(start, k):
    """A query with one window of interest: from ``start`` on, open for long."""
    return TopK(k=k, window=last(time=1_000, slide=1_000, offset=start))


STARTS_AND_KS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 6)),
    min_size=1,
    max_size=8,
    unique_by=lambda t: t[0],
)
RANDOM = st.lists(st.integers(0, 12), min_size=31, max_size=60)  # every view has begun


def best(scores, start, k):
    return sorted(scores[start:], reverse=True)[:k]


@settings(max_examples=60)
@given(views=STARTS_AND_KS, scores=RANDOM)
def test_theorem_5_1_lists_and_list_hold_the_minimal_set(views, scores):
    """Each view's best k, and nothing else; the one list reads the same as all lists."""
    queries = {number: view(start, k) for number, (start, k) in enumerate(views)}
    wanted = {start: best(scores, start, k) for start, k in sorted(views)}
    kept = []
    for algorithm in ("mtopband", "mtoplist", "mtopmerge"):
        engine = sharing(queries, algorithm)
        push(engine, scores, range(len(scores)), len(scores))
        if algorithm != "mtopmerge":
            assert predicted(engine) == wanted
        kept.append(engine.kept().tolist())
    assert kept[0] == kept[1] == kept[2]
    union = set(itertools.chain.from_iterable(wanted.values()))
    assert {scores[seq] for seq in kept[0]} == union


@settings(max_examples=60)
@given(views=STARTS_AND_KS, k=st.integers(1, 6), scores=RANDOM)
def test_lemma_6_1_least_scores_fall_if_k_is_equal(views, k, scores):
    """Of views that are full; one that is not may have a larger least score."""
    engine = sharing({number: view(start, k) for number, (start, _) in enumerate(views)})
    push(engine, scores, range(len(scores)), len(scores))
    full = [scores for scores in predicted(engine).values() if len(scores) == k]
    least = [scores[-1] for scores in full]
    assert least == sorted(least, reverse=True)


def test_lemma_6_1_needs_full_views():
    """The proof selects k objects from each window: the newest may hold fewer."""
    engine = sharing({0: view(0, 2), 1: view(2, 2)})
    push(engine, [1.0, 2.0, 9.0], range(3), 3)
    assert predicted(engine) == {0: [9, 2], 2: [9]}


@pytest.mark.parametrize("algorithm", ["mtopband", "mtoplist"])
def test_lemma_6_2_an_object_leaves_and_comes_back(algorithm):
    """k = 3, 1, 3: the second and third best are in the first view and the third, not between."""
    engine = sharing({0: view(0, 3), 1: view(1, 1), 2: view(2, 3)}, algorithm)
    push(engine, [9.0, 8.0, 7.0], [2, 3, 4], 5)
    assert predicted(engine) == {0: [9, 8, 7], 1: [9], 2: [9, 8, 7]}
    if algorithm == "mtoplist":
        assert [(score, refs) for score, _, _, refs in marks(engine)] == [(9, 3), (8, 2), (7, 2)]


@settings(max_examples=100)
@given(
    starts=st.lists(st.integers(0, 30), min_size=3, max_size=3, unique=True).map(sorted),
    ks=st.lists(st.integers(1, 6), min_size=2, max_size=2, unique=True).map(sorted),
    scores=st.lists(st.integers(0, 10**6), min_size=31, max_size=60, unique=True),
)
def test_lemma_6_2(starts, ks, scores):
    """If all X of the first view live in the last, those behind rank Y are in both, not between."""
    small, large = ks
    ranked = (large, small, large)
    engine = sharing({at: view(starts[at], ranked[at]) for at in range(3)})
    push(engine, scores, range(len(scores)), len(scores))
    first, between, final = (predicted(engine)[start] for start in starts)
    if set(first) <= set(scores[starts[2] :]):
        assert final == first
        assert between == first[:small]


@settings(max_examples=60)
@given(views=STARTS_AND_KS, scores=RANDOM)
def test_lemma_6_3_pointers_tell_what_marks_do_not(views, scores):
    """Marks enclose the views that predict an object; pointers and ages say which they are."""
    engine = sharing({number: view(start, k) for number, (start, k) in enumerate(views)})
    push(engine, scores, range(len(scores)), len(scores))
    structure = engine.structure
    state = structure.state
    views_predict = predicted(engine)
    for node in structure.nodes():
        place = int(state.at[node])
        in_views = [
            start
            for start, rows in views_predict.items()
            if place >= start
            and sum(
                int(state.at[other]) >= start
                for other in structure.nodes()[: structure.nodes().index(node)]
            )
            < len(rows)
        ]
        assert in_views
        assert state.first[node] <= in_views[0] <= in_views[-1] <= state.last[node]
        assert state.refs[node] == len(in_views)


# ---------------------------------------------------------------- section 6: the slips


def test_the_first_k_of_the_list_need_not_be_those_of_the_expiring_window():
    """Purging: true of the oldest view only. A short window that ends first is not the oldest."""
    engine = sharing({0: view(0, 3), 1: TopK(k=2, window=last(time=5, slide=5))})
    push(engine, [90.0, 80.0, 70.0, 1.0, 2.0, 3.0, 4.0, 5.0], range(8), 8)
    head = [score for score, *_ in marks(engine)][:2]
    assert head == [90, 80]
    assert predicted(engine)[5] == [5, 4]
    due = push(engine, [0.0, 0.0], [8, 9], 10)
    assert due == [(1, 10, [5, 4])]
    assert predicted(engine)[0] == [90, 80, 70]


def test_marks_do_not_tell_that_no_view_predicts_an_object():
    """5 is pushed out of the newer view first and of the older one then; both stay open, and no
    purge would ever move its marks past each other. A counter tells at once."""
    engine = sharing({0: view(0, 2), 1: view(1 * SECOND, 1)})
    push(engine, [5.0], [1 * SECOND], 2 * SECOND)
    assert marks(engine) == [(5, 0, 1, 2)]
    push(engine, [9.0], [2 * SECOND], 3 * SECOND)
    assert marks(engine)[1] == (5, 0, 1, 1)  # out of the view that its end mark names
    push(engine, [8.0], [3 * SECOND], 4 * SECOND)
    assert [score for score, *_ in marks(engine)] == [9, 8]


def test_the_next_worst_of_a_view_need_not_be_its_neighbour():
    """MinTopk's Lemma 4.5 moves a pointer up by one. With different k an object of an older view
    may stand between, and the pointer has to pass it."""
    engine = sharing({0: view(0, 3), 1: view(2, 2)})
    push(engine, [7.0, 6.0, 8.0, 5.0], range(4), 4)
    assert [score for score, *_ in marks(engine)] == [8, 7, 6, 5]
    assert predicted(engine) == {0: [8, 7, 6], 2: [8, 5]}
    push(engine, [9.0], [4], 5)  # 5 leaves the newer view: 7 and 6 stand between it and 8
    assert predicted(engine) == {0: [9, 8, 7], 2: [9, 8]}
    assert [score for score, *_ in marks(engine)] == [9, 8, 7]


def test_numbers_that_mtops_quotes():
    claims = {
        (claim.figures[0], claim.algorithm, claim.metric, claim.bound): claim.number
        for claim in mtops_claims.claims()
    }
    apart = claims["10", "independent", "s_per_object", ""]
    assert round(apart / claims["10", "mtoplist", "s_per_object", ""]) == 108
    (alone,) = (
        claim.number
        for claim in mintopk_claims.claims()
        if (claim.algorithm, claim.metric) == ("mintopk", "ms_per_object")
    )
    assert 100 * alone / 1000 == pytest.approx(0.0097)  # s per object of 100 queries
    assert alone / 1000 * 100_000 == pytest.approx(10, rel=0.05)  # s per slide
    assert apart > 70 * 100 * alone / 1000
    least = claims["8", "mtoplist", "cpu_less_than_independent", "least"]
    assert least < claims["14", "mtoplist", "cpu_less_than_independent", ""]
