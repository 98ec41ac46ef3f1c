"""The papers' worked examples, as far as their texts give the numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skyband import Monitor, TopK, last
from skyband.topk.ring import ring, store
from skyband.topk.sap.rank_test import critical_values
from skyband.topk.sap.savl import best, drop_best, offer, savl
from skyband.topk.sap.state import three_sigma, unit_size
from tests.kernels import callable_kernel
from tests.streams import answers

# SAP, Figure 2: n = 21, k = 2, s = 3. The text names the predicted results; the other scores are
# any that agree with them.
SLIDES = [
    (70, 72, 71),
    (94, 60, 93),
    (92, 50, 61),
    (40, 41, 42),
    (43, 44, 45),
    (89, 46, 47),
    (91, 82, 48),
]


def minimal(monitor, scores):
    return {scores[seq] for seq in monitor.algorithm.kept()}


@pytest.mark.parametrize("algorithm", ["pretopk", "mintopk"])
def test_sap_figure_2_candidates(algorithm):
    scores = [float(score) for slide in SLIDES for score in slide]
    monitor = Monitor(TopK(k=2, window=last(count=21, slide=3)), algorithm)
    monitor.push(np.array(scores))
    # R_1 belongs to the window just answered; R_2 .. R_7 remain
    assert minimal(monitor, scores) == {94, 93, 92, 91, 89, 82}
    scores += [90.0, 84.0, 78.0]
    answer = answers(monitor.push(np.array(scores[21:])))[-1]
    assert [score for score, _ in answer.rows] == [94, 93]
    assert minimal(monitor, scores) == {94, 93, 92, 91, 90, 84}


def test_sap_figure_2_insertions_and_deletions():
    scores = np.array([score for slide in SLIDES for score in slide], dtype=float)
    monitor = Monitor(TopK(k=2, window=last(count=21, slide=3)), "mintopk")
    monitor.push(scores)
    before = monitor.counters()
    monitor.push(np.array([90.0, 84.0, 78.0]))
    after = monitor.counters()
    assert after["insertions"] - before["insertions"] == 2  # 90 and 84; 78 is discarded at once
    assert after["deletions"] - before["deletions"] == 2  # 89 and 82


def test_mintopk_figures_4_and_5_marks_and_pointers():
    """win = 16, slide = 4, k = 3: objects 14 (in four windows), 6, 7, 16 as the text has them."""
    level = {3: 90, 6: 80, 14: 70, 7: 60, 13: 50, 16: 40}  # object -> F; all others lie below
    scores = [float(level.get(number, number % 7)) for number in range(1, 17)]
    monitor = Monitor(TopK(k=3, window=last(count=16, slide=4)), "mintopk")
    monitor.push(np.array(scores))
    state = monitor.algorithm.state

    def pointed(window):
        return int(state.items.seq[state.lowest[window % len(state.lowest)]]) + 1

    # window 4 is W_0 of the figure: it ends after the 16th object
    assert [pointed(window) for window in (4, 5, 6, 7)] == [14, 7, 16, 16]
    nodes = {int(state.items.seq[node]) + 1: node for node in monitor.algorithm._nodes()}
    assert set(nodes) == {3, 6, 14, 7, 13, 16}
    assert [(state.start[nodes[n]], state.end[nodes[n]]) for n in (14, 7, 16)] == [
        (4, 7),
        (5, 5),
        (6, 7),
    ]
    monitor.push(np.array([65.0, 0.0, 0.0, 0.0]))  # object 17 beats the worst of W_1 .. W_4
    state = monitor.algorithm.state
    nodes = {int(state.items.seq[node]) + 1: node for node in monitor.algorithm._nodes()}
    assert state.start[nodes[17]] == 5
    assert 7 not in nodes
    assert 16 not in nodes


def test_mintopk_keeps_an_object_equal_to_the_smallest():
    """Figure 6, line 1: an equal F is not discarded, since the newer object lives longer."""
    monitor = Monitor(TopK(k=1, window=last(count=4, slide=2)), "mintopk")
    results = answers(monitor.push(np.array([5.0, 5.0, 1.0, 5.0, 0.0, 0.0])))
    assert [answer.rows[0] for answer in results] == [(5.0, 1), (5.0, 3), (5.0, 3)]


def test_sap_section_3_dominated_partition_needs_no_meaningful_set():
    """Figure 3: P_1's second best, 79, is dominated by 91, 82, 88 and 84 of later partitions."""
    parts = [(95, 92, 60), (87, 79, 61), (91, 82, 62), (88, 63, 64), (84, 65, 66)]
    scores = np.array([score for part in parts for score in part] + [10.0] * 3, dtype=float)
    monitor = Monitor(
        TopK(k=2, window=last(count=15, slide=1)), "sap-equal", options={"partitions": 5}
    )
    monitor.push(scores)
    kept = {float(score) for score, _ in _pairs(monitor.algorithm.state.best)}
    assert 79.0 not in kept
    assert monitor.algorithm.state.savl.slots["limit"].sum() <= 2  # only P_0 ever formed one


def _pairs(items):
    size = int(items.size[0])
    return list(zip(items.score[:size].tolist(), items.seq[:size].tolist(), strict=True))


def test_sap_figure_8_stacks():
    """k = 3 stacks; 30, 31, 36 begin them, 34 and then 35 go on the one with top 31."""
    oldest_first = [35.0, 29.0, 34.0, 0.0, 36.0, 31.0, 30.0]
    raw = ring(8)
    callable_kernel(store)(raw, np.array(oldest_first), 0, len(oldest_first))
    stacks = savl(1, 3)
    stacks.slots[0].limit = 3
    for seq in range(6, -1, -1):
        if oldest_first[seq] > 28:  # the barrier F_theta
            callable_kernel(offer)(stacks, 0, oldest_first[seq], seq)
    tops = [oldest_first[stacks.nodes[node].oldest] for node in stacks.top[:3]]
    assert tops == [30.0, 35.0, 36.0]
    scores = []
    while (seq := callable_kernel(best)(stacks, raw, 0, 0)) >= 0:
        scores.append(oldest_first[seq])
        callable_kernel(drop_best)(stacks, raw, 0, seq + 1)
        if len(scores) > 9:
            break
    assert scores[:2] == [36.0, 35.0]
    assert 29.0 not in scores, "it beats no top: dominated by three newer objects"


def test_sap_parameters():
    for k in (1, 10, 100, 1000):
        many = three_sigma(k)
        assert (many - k) / math.sqrt(many) == pytest.approx(3.0)
    assert unit_size(10**6, 10**4, 10) == 10**5  # Figure 6: ten partitions
    assert unit_size(21, 3, 2) == 6


def test_rank_sum_table():
    """Rank-sum acceptance limits at alpha = 0.05, two sided, as printed in statistics textbooks."""
    assert critical_values(5, 5)[5] == 37
    assert critical_values(10, 10)[10] == 131
    assert critical_values(4, 8)[8] == 37


def test_theorem_3_2_minimal_set_on_uniform_scores():
    """k (1 + 1/2 + ... + 1/(n/s)) objects on average: within the 2k to 3.5k that the paper saw."""
    n, s, k = 20_000, 2_000, 20
    monitor = Monitor(TopK(k=k, window=last(count=n, slide=s)), "mintopk")
    monitor.push(np.random.default_rng(0).random(200_000))
    candidates = monitor.counters()["candidates"]
    assert candidates == pytest.approx(k * sum(1 / i for i in range(1, n // s + 1)), rel=0.1)
    assert 2 * k < candidates < 3.5 * k


def test_kskyband_size_on_uniform_scores():
    n, k = 20_000, 20
    monitor = Monitor(TopK(k=k, window=last(count=n, slide=1_000)), "kskyband")
    monitor.push(np.random.default_rng(0).random(150_000))
    assert monitor.counters()["candidates"] == pytest.approx(k * (1 + math.log(n / k)), rel=0.15)
