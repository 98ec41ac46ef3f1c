"""PreTopk: a predicted top-k result for each future window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from skyband.engine.algorithm import Algorithm, best_of
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.errors import QueryError
from skyband.kernels.answers import Out, Ranked, ranked
from skyband.kernels.emission import Emission, emission, lacks_room, report, skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.ranked import better, rank
from skyband.kernels.records import Record, fields, record
from skyband.kernels.work import CANDIDATES, DELETIONS, INSERTIONS, REFERENCES, SLIDES, counters
from skyband.order import Floats, Ints
from skyband.topk.heap import replace_worst, sift_up


class State(NamedTuple):
    """One heap per open window, worst object first; window ``w`` sits in slot ``w % slots``."""

    heaps: Ranked  # slots * k, one after the other; `size` holds one entry per slot
    best: Ranked
    memory: Emission
    work: Ints
    now: Record  # k; slides in a window (span); heaps (slots); the current window


_NOW = fields("k", "span", "slots", "window")


class PreTopk(Algorithm):
    """Maintains, for the current and every future window, the k best objects known to live in it.

    Invariants: (1) the heap of each open window holds exactly the k best of the objects alive now
    that still live in it; (2) so their union is the minimal candidate set (Theorem 3.1).

    Complexity: O(w log k) per arrival, w the windows it enters (on average
    (k/s)(1 + ln(n/k)) on random scores), O(k log k) per slide; space O(k n/s).

    Reference: Yang et al., EDBT 2011, section 3.2.

    Deviations: windows are tried from the last one back and the first failure ends the search,
    which Lemma 4.2 allows; ``candidates`` counts references, n/s * k, as the paper's memory does.
    """

    name = "pretopk"
    state: State

    @override
    def new_state(self) -> State:
        setting = self.setting
        slots = setting.span + 2
        k = min(setting.k, setting.size) if setting.counted else setting.k
        if slots * k > 1 << 28:
            raise QueryError(
                f"{setting.span:,} slides in a window for {self.name}",
                "fewer: it keeps a record per open window",
                "use sap, or a larger slide",
            )
        heaps = Ranked(
            np.zeros(slots * k), np.zeros(slots * k, np.int64), np.zeros(slots, np.int64)
        )
        return State(
            heaps,
            ranked(k),
            emission(setting.k, setting.changes),
            counters(),
            record(_NOW, k=k, span=setting.span, slots=slots),
        )

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        return _advance(self.state, rows.score, steps, target, step)

    def _predicted(self, slot: int) -> list[int]:
        """Sequence numbers of the objects in the heap of a slot."""
        k = int(self.state.now[0].k)
        size = int(self.state.heaps.size[slot])
        return [int(seq) for seq in self.state.heaps.seq[slot * k : slot * k + size]]

    @override
    def kept(self) -> Ints:
        slots = int(self.state.now[0].slots)
        seqs = {seq for slot in range(slots) for seq in self._predicted(slot)}
        return np.array(sorted(seqs), np.int64)

    @property
    @override
    def work(self) -> Ints:
        return self.state.work

    @override
    def check_invariants(self, alive: Mapping[int, float]) -> None:
        now = self.state.now[0]
        for slot in range(now.slots):
            seqs = self._predicted(slot)
            assert len(seqs) == len(set(seqs)) <= now.k, "1: an object is predicted twice"
            assert set(seqs) <= set(alive), "1: an expired object is predicted"
        current = set(self._predicted(now.window % now.slots))
        assert current == set(best_of(alive, now.k)), "1: the current window is predicted wrongly"


@entry
def _advance(state: State, scores: Floats, steps: Steps, target: Out, step: int) -> int:
    """Take in a batch from a step on; return the step before which room ran out."""
    now = state.now[0]
    k, span, slots = now.k, now.span, now.slots
    heaps, best = state.heaps, state.best
    position = steps.stop[step - 1] if step > 0 else 0
    while step < len(steps.stop):
        if lacks_room(target, k, state.memory):
            return step
        window, stop = steps.window[step], steps.stop[step]
        for old in range(now.window, min(window, now.window + slots)):
            state.work[REFERENCES] -= heaps.size[old % slots]
            heaps.size[old % slots] = 0
        now.window = window
        for at in range(position, stop):
            if scores[at] == scores[at]:
                final = window - 1 + span + (1 if at >= steps.split[step] else 0)
                _insert(state, scores[at], steps.base[0] + at, window, final)
        position = stop
        if steps.emit[step]:
            slot = window % slots
            best.size[0] = heaps.size[slot]
            for i in range(best.size[0]):
                best.score[i] = heaps.score[slot * k + i]
                best.seq[i] = heaps.seq[slot * k + i]
            rank(best)
            state.work[SLIDES] += 1
            state.work[CANDIDATES] += state.work[REFERENCES]
            report(target, step, best, k, state.memory, True)
        else:
            skip(target, step)
        step += 1
    return step


@lean
def _insert(state: State, score: float, seq: int, window: int, final: int) -> None:
    """Put a new object in the heaps of the windows that it enters, the last one first."""
    k, slots = state.now[0].k, state.now[0].slots
    heaps = state.heaps
    for future in range(final, window - 1, -1):
        slot = future % slots
        base = slot * k
        size = heaps.size[slot]
        if size < k:
            heaps.size[slot] = size + 1
            state.work[REFERENCES] += 1
            sift_up(heaps.score, heaps.seq, base, size, score, seq)
        elif better(score, seq, heaps.score[base], heaps.seq[base]):
            replace_worst(heaps.score, heaps.seq, base, size, score, seq)
            state.work[DELETIONS] += 1
        else:
            return
        state.work[INSERTIONS] += 1
