"""Recompute: keep the window and select its k best anew at every slide. The baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from skyband.engine.algorithm import Algorithm, best_of
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.kernels.answers import Out, Ranked, ranked
from skyband.kernels.emission import Emission, emission, lacks_room, report, skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.ranked import rank
from skyband.kernels.records import Record, fields, record
from skyband.kernels.work import CANDIDATES, RESCANNED, RESCANS, SLIDES, counters
from skyband.order import Floats, Ints
from skyband.topk.ring import AT_ONCE, Ring, fitted, numbers_in, ring, store


class State(NamedTuple):
    """The window's raw scores, and room for one answer."""

    raw: Ring
    best: Ranked
    memory: Emission
    work: Ints
    now: Record


_NOW = fields("k", "oldest_first", "shares_ranks", "dense", "lacking")


class Recompute(Algorithm):
    """Maintains the raw window; every answer is selected from all of it.

    Invariants: (1) the ring holds exactly the objects of the current window.

    Where rows of equal score share a rank, the lowest score that is ranked is found first, then all
    rows that reach it.

    Complexity: O(1) per arrival, O(n + r log r) per slide for r ranked rows, k unless they share
    ranks; space O(n).
    """

    name = "recompute"
    keeps_window = True
    state: State

    @override
    def new_state(self) -> State:
        setting = self.setting
        return State(
            ring(min(setting.size + setting.slide, AT_ONCE) if setting.counted else 1),
            ranked(2 * setting.k),
            emission(setting.k, setting.changes),
            counters(),
            record(
                _NOW,
                k=setting.k,
                oldest_first=setting.oldest_first,
                shares_ranks=setting.rank_by != "row_number",
                dense=setting.rank_by == "dense_rank",
                lacking=0,
            ),
        )

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        return _advance(self.state, rows.score, steps, target, step)

    @override
    def reserve(self, rows: Rows, steps: Steps) -> None:
        setting = self.setting
        most = setting.size + setting.slide if setting.counted else None
        raw = fitted(self.state.raw, rows.size, most)
        if raw is not self.state.raw:
            self.state = self.state._replace(raw=raw)

    @override
    def lacking(self, target: Out) -> int:
        return int(self.state.now[0]["lacking"]) or super().lacking(target)

    @override
    def restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        # snapshots of earlier versions do not say all of it
        names = ("oldest_first", "shares_ranks", "dense", "lacking")
        unspoken = {f"now.{name}": np.zeros(1, np.int64) for name in names}
        super().restored(header, {**unspoken, **arrays})

    @override
    def kept(self) -> Ints:
        return numbers_in(self.state.raw)

    @property
    @override
    def work(self) -> Ints:
        return self.state.work

    @override
    def check_invariants(self, alive: Mapping[int, float]) -> None:
        raw = self.state.raw
        seqs = [int(seq) for seq in numbers_in(raw) if not np.isnan(raw.score[seq & raw.mask[0]])]
        assert seqs == sorted(alive), "the ring is not the window"
        assert len(best_of(alive, self.setting.k)) <= self.setting.k


@entry
def _advance(state: State, scores: Floats, steps: Steps, target: Out, step: int) -> int:
    """Take in a batch from a step on; return the step before which room ran out."""
    now = state.now[0]
    k, raw, best = now.k, state.raw, state.best
    position = steps.stop[step - 1] if step > 0 else 0
    while step < len(steps.stop):
        if lacks_room(target, k, state.memory):
            return step
        raw.bounds[0] = max(raw.bounds[0], steps.first[step])
        stop = steps.stop[step]
        # a step that begins again, since its answer lacked room, has stored its rows
        store(raw, scores, max(position, raw.bounds[1] - steps.base[0]), stop)
        position = stop
        if steps.emit[step]:
            if now.shares_ranks != 0:
                now.lacking = _report_tied(target, step, raw, best, state.now)
                if now.lacking > 0:
                    return step
            else:
                _select(raw, k, best, now.oldest_first != 0)
                report(target, step, best, k, state.memory, True)
            state.work[SLIDES] += 1
            state.work[CANDIDATES] += raw.bounds[1] - raw.bounds[0]
            state.work[RESCANS] += 1
            state.work[RESCANNED] += raw.bounds[1] - raw.bounds[0]
        else:
            skip(target, step)
        step += 1
    return step


@lean
def _select(raw: Ring, k: int, best: Ranked, oldest_first: bool) -> None:
    """Rank the k best of the ring.

    Reads what ranks first of equal scores first: those read later are worse, so the threshold
    excludes them. Where the oldest do, sequence numbers are ranked with their signs turned.
    """
    best.size[0] = 0
    size = 0
    threshold = -np.inf
    first, stop = raw.bounds[0], raw.bounds[1]
    for at in range(stop - first):
        seq = first + at if oldest_first else stop - 1 - at
        score = raw.score[seq & raw.mask[0]]
        # an equal score met later is worse; -inf itself must pass while there is room
        if score > threshold or (size < k and score >= threshold):
            best.score[size] = score
            best.seq[size] = -seq if oldest_first else seq
            size += 1
            if size == 2 * k:
                best.size[0] = size
                rank(best)
                size = k
                threshold = best.score[k - 1]
    best.size[0] = size
    rank(best)
    best.size[0] = min(k, size)
    if oldest_first:
        for at in range(best.size[0]):
            best.seq[at] = -best.seq[at]


@lean
def _report_tied(target: Out, step: int, raw: Ring, best: Ranked, now: Record) -> int:
    """Report all rows that reach the lowest score that is ranked.

    Returns how many rows there are if the answer has no room for them, else 0.
    """
    threshold = _lowest_score(raw, now[0].k, best, now[0].dense != 0)
    first, stop, mask = raw.bounds[0], raw.bounds[1], raw.mask[0]
    count = 0
    for seq in range(first, stop):
        count += 1 if raw.score[seq & mask] >= threshold else 0
    low = target.rows.size[0]
    high = low + count
    if high > len(target.rows.score):
        return count
    rows = Ranked(target.rows.score[low:high], target.rows.seq[low:high], best.size)
    turn = -1 if now[0].oldest_first != 0 else 1
    size = 0
    for seq in range(first, stop):
        score = raw.score[seq & mask]
        if score >= threshold:
            rows.score[size] = score
            rows.seq[size] = turn * seq
            size += 1
    rows.size[0] = size
    rank(rows)
    for at in range(size):
        rows.seq[at] = turn * rows.seq[at]
    target.rows.size[0] = high
    skip(target, step)
    return 0


@lean
def _lowest_score(raw: Ring, k: int, best: Ranked, distinct: bool) -> float:
    """The k-th best score of the ring, counting rows or different scores; -inf if there is none.

    ``best`` has room for 2k scores.
    """
    size = 0
    threshold = -np.inf
    for seq in range(raw.bounds[0], raw.bounds[1]):
        score = raw.score[seq & raw.mask[0]]
        if score > threshold:
            best.score[size] = score
            best.seq[size] = seq
            size += 1
            if size == 2 * k:
                size = min(_sorted_scores(best, size, distinct), k)
                threshold = best.score[k - 1] if size == k else -np.inf
    size = _sorted_scores(best, size, distinct)
    return best.score[k - 1] if size >= k else -np.inf


@lean
def _sorted_scores(best: Ranked, size: int, distinct: bool) -> int:
    """Put the first scores in rank order, perhaps each once; return how many there are."""
    best.size[0] = size
    rank(best)
    if not distinct or size == 0:
        return size
    different = 1
    for at in range(1, size):
        if best.score[at] != best.score[different - 1]:
            best.score[different] = best.score[at]
            different += 1
    return different
