"""The invariants of event-based processing, checked against counting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from skyband.dominating.events.counting import later_dominators
from skyband.dominating.events.state import CANDIDATE, EVENT, LOOKED, OBSOLETE, TOP, K
from skyband.dominating.point_window import ARRIVED, SLOTS
from skyband.kernels.jit import entry

if TYPE_CHECKING:
    from skyband.dominating.events.algorithm import EventAlgorithm
    from skyband.dominating.events.state import State


@entry
def _bound(state: State, seq: int, slot: int) -> int:
    return later_dominators(state, seq, slot)


def check(algorithm: EventAlgorithm, alive: Mapping[int, float]) -> None:
    """Assert what :class:`EventAlgorithm` promises, right after an answer."""
    from skyband.dominating.events.algorithm import known_scores

    state = algorithm.state
    seqs, scores = algorithm.true_scores(alive)
    if state.numbers[2]:
        return  # nothing has been answered since it must start anew
    known = known_scores(state)
    score_of = dict(zip(seqs, scores, strict=True))
    assert all(score_of[seq] == score for seq, score in known.items()), "2: a score is off"
    k, slots = int(state.numbers[K]), int(state.held.numbers[SLOTS])
    top = [seq for seq in seqs if state.kind[seq & (slots - 1)] == TOP]
    exact = not (algorithm.pruning or algorithm.sample_size())
    if exact:
        right = sorted(seqs, key=lambda seq: (score_of[seq], seq), reverse=True)[:k]
        assert sorted(right) == top, "2: the k best are wrong"
    points = state.held.points.reshape(slots, algorithm.width)
    for seq in seqs:
        slot = seq & (slots - 1)
        kind = state.kind[slot]
        if kind in (EVENT, OBSOLETE) and exact:
            bound = state.score[slot] + state.held.numbers[ARRIVED] - state.since[slot]
            assert score_of[seq] <= bound, "3: a score exceeds its bound"
        if kind == EVENT:
            assert state.dates.due[slot] > state.numbers[LOOKED], "4: an event is overdue"
        if exact:
            assert kind in (EVENT, OBSOLETE, CANDIDATE, TOP) or algorithm.forgets, (
                "4: a point is not watched"
            )
        if algorithm.advanced and kind != TOP:
            mine = points[slot]
            later = [
                other
                for other in seqs
                if other > seq
                and other not in top
                and (points[other & (slots - 1)] <= mine).all()
                and (points[other & (slots - 1)] < mine).any()
            ]
            assert int(_bound(state, seq, slot)) <= len(later), "5: a counter exceeds the truth"
