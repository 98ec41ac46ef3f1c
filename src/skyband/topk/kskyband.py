"""k-skyband: keep every object that fewer than k newer and better objects dominate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from skyband.engine.algorithm import Algorithm
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.kernels.answers import Out, Ranked, ranked, roomier
from skyband.kernels.emission import Emission, emission, lacks_room, report, skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.records import Record, fields, record
from skyband.kernels.work import CANDIDATES, DELETIONS, INSERTIONS, SLIDES, counters
from skyband.order import Floats, Ints


class State(NamedTuple):
    """The skyband in rank order, with the number of dominators of each object."""

    band: Ranked
    dominators: Ints
    memory: Emission
    work: Ints
    now: Record  # k; a lower bound of the sequence numbers in the band (oldest)


_NOW = fields("k", "oldest")


class KSkyband(Algorithm):
    """Maintains the k-skyband of the window in rank order, with dominance counters.

    An object dominates another that ranks behind it and arrived earlier. An object with k
    dominators can never be an answer again.

    Invariants: (1) the band is in rank order; (2) it holds exactly the objects of the window with
    fewer than k dominators; (3) each counter is the exact number of dominators.

    Complexity: O(log + d) per arrival with d the candidates it dominates (k on average on random
    scores, n at worst), O(k) per slide; space O(k ln(n/k)) on random scores, O(n) at worst.

    Reference: Shen et al., ICDE 2012, as used by Zhu et al., TKDE 2017, section 2.1.

    Deviations: the band is a flat sorted array instead of a tree; d objects move anyway.
    """

    name = "kskyband"
    state: State

    @override
    def new_state(self) -> State:
        setting = self.setting
        return State(
            ranked(2 * min(setting.k, 1024)),
            np.zeros(2 * min(setting.k, 1024), np.int64),
            emission(setting.k, setting.changes),
            counters(),
            record(_NOW, k=setting.k),
        )

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        return _advance(self.state, rows.score, steps, target, step)

    @override
    def make_room(self, arriving: int) -> None:
        room = 2 * (len(self.state.dominators) + arriving)
        dominators = np.zeros(room, np.int64)
        dominators[: len(self.state.dominators)] = self.state.dominators
        band = roomier(self.state.band, room)
        self.state = self.state._replace(band=band, dominators=dominators)

    @override
    def kept(self) -> Ints:
        return np.sort(self.state.band.seq[: self.state.band.size[0]])

    @property
    @override
    def work(self) -> Ints:
        return self.state.work

    @override
    def check_invariants(self, alive: Mapping[int, float]) -> None:
        size = int(self.state.band.size[0])
        band = [(float(self.state.band.score[i]), int(self.state.band.seq[i])) for i in range(size)]
        assert band == sorted(band, reverse=True), "1: the band is not in rank order"
        dominators = {
            seq: sum((other, newer) > (score, seq) for newer, other in alive.items() if newer > seq)
            for seq, score in alive.items()
        }
        expected = {seq: count for seq, count in dominators.items() if count < self.setting.k}
        assert {seq for _, seq in band} == set(expected), "2: the band is not the k-skyband"
        for i, (_, seq) in enumerate(band):
            assert self.state.dominators[i] == expected[seq], "3: a dominance counter is off"


@entry
def _advance(state: State, scores: Floats, steps: Steps, target: Out, step: int) -> int:
    """Take in a batch from a step on; return the step before which room ran out."""
    now, work, band = state.now[0], state.work, state.band
    k = now.k
    position = steps.stop[step - 1] if step > 0 else 0
    dirty = True  # an earlier batch may have ended within a step
    while step < len(steps.stop):
        first, stop = steps.first[step], steps.stop[step]
        if band.size[0] + stop - position > len(band.score):
            return step
        if lacks_room(target, k, state.memory):
            return step
        if now.oldest < first and _expire(state, first, k):
            dirty = True
        for at in range(position, stop):
            if scores[at] == scores[at]:
                place = _insert(state, scores[at], steps.base[0] + at, k)
                dirty = dirty or place < k
        position = stop
        if steps.emit[step]:
            work[SLIDES] += 1
            work[CANDIDATES] += band.size[0]
            report(target, step, band, k, state.memory, dirty)
            dirty = False
        else:
            skip(target, step)
        step += 1
    return step


@lean
def _insert(state: State, score: float, seq: int, k: int) -> int:
    """Insert a new object, which dominates all that rank behind it; return its place.

    Drops the objects that have k dominators now. O(log size + objects behind).
    """
    band, dominators = state.band, state.dominators
    size = band.size[0]
    low, high = 0, size
    while low < high:  # the newest object ranks before its equals
        middle = (low + high) >> 1
        if band.score[middle] > score:
            low = middle + 1
        else:
            high = middle
    place = low
    # one pass over the tail: objects move right by one until the first is dropped
    moving_score, moving_seq, moving_count = score, seq, 0
    at, to = place, place
    while at < size:
        next_score, next_seq, next_count = band.score[at], band.seq[at], dominators[at] + 1
        band.score[to] = moving_score
        band.seq[to] = moving_seq
        dominators[to] = moving_count
        at += 1
        to += 1
        if next_count == k:
            break
        moving_score, moving_seq, moving_count = next_score, next_seq, next_count
    else:
        band.score[to] = moving_score
        band.seq[to] = moving_seq
        dominators[to] = moving_count
        to += 1
    while at < size:  # behind a dropped object the others move left, or stay
        count = dominators[at] + 1
        if count < k:
            band.score[to] = band.score[at]
            band.seq[to] = band.seq[at]
            dominators[to] = count
            to += 1
        at += 1
    state.work[INSERTIONS] += 1
    state.work[DELETIONS] += size + 1 - to
    band.size[0] = to
    return place


@lean
def _expire(state: State, first: int, k: int) -> bool:
    """Drop expired objects; return whether one of the k best was among them."""
    band, dominators = state.band, state.dominators
    kept = 0
    hit = False
    oldest = 1 << 62
    for at in range(band.size[0]):
        seq = band.seq[at]
        if seq < first:
            hit = hit or at < k
            continue
        oldest = min(oldest, seq)
        band.score[kept] = band.score[at]
        band.seq[kept] = seq
        dominators[kept] = dominators[at]
        kept += 1
    band.size[0] = kept
    state.now[0].oldest = oldest if kept else first
    return hit
