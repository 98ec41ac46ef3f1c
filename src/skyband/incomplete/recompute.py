"""Recompute: keep the window's rows and compute every object's score anew at every slide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from skyband.engine.algorithm import Algorithm
from skyband.engine.plan import Setting
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.incomplete.invariants import window_rows
from skyband.incomplete.objects import batch_of
from skyband.incomplete.query import TopKIncomplete
from skyband.kernels.answers import Out
from skyband.kernels.work import CANDIDATES, RESCANNED, RESCANS, SLIDES, counters
from skyband.order import Floats, Ints, ranks_of_best


class State(NamedTuple):
    """The rows of the window, oldest first."""

    seq: Ints
    id: Ints
    stream: Ints
    value: Floats
    work: Ints


class Recompute(Algorithm):
    """Maintains the rows of the window; every answer is computed from all of them.

    Invariants: (1) the rows are exactly those of the window that have a value.

    Complexity: O(n log n) per slide, space O(n). Takes any function as ``combine``.
    """

    name = "recompute"
    attributes = True
    state: State

    def __init__(self, setting: Setting, query: TopKIncomplete) -> None:
        self.query = query
        self._lacking = 0  # rows of an answer that found no room
        super().__init__(setting)

    @override
    def new_state(self) -> State:
        none = np.empty(0, np.int64)
        return State(none, none, none, np.empty(0), counters())

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        del rows
        base, work = int(steps.base[0]), self.state.work
        self._lacking = 0
        for at in range(step, len(steps.stop)):
            self._expire(int(steps.first[at]))
            if steps.emit[at]:
                upto = int(np.searchsorted(self.state.seq, base + steps.stop[at]))
                score, seq = self._best(upto)
                size = int(target.rows.size[0])
                if size + len(seq) > len(target.rows.seq):
                    self._lacking = len(seq)
                    return at
                target.rows.score[size : size + len(seq)] = score
                target.rows.seq[size : size + len(seq)] = seq
                target.rows.size[0] = size + len(seq)
                work[[SLIDES, RESCANS]] += 1
                work[[CANDIDATES, RESCANNED]] += upto
            target.upto[at] = target.rows.size[0]
        return len(steps.stop)

    @override
    def lacking(self, target: Out) -> int:
        return self._lacking

    @override
    def reserve(self, rows: Rows, steps: Steps) -> None:
        # rows are taken in once, though :meth:`run` may begin again for want of room
        state, batch = self.state, batch_of(rows)
        seq = int(steps.base[0]) + np.arange(rows.size, dtype=np.int64)
        known = np.flatnonzero(~np.isnan(batch.value))
        self.state = State(
            np.concatenate([state.seq, seq[known]]),
            np.concatenate([state.id, batch.id[known]]),
            np.concatenate([state.stream, batch.stream[known]]),
            np.concatenate([state.value, batch.value[known]]),
            state.work,
        )

    def _expire(self, first: int) -> None:
        state = self.state
        expired = int(np.searchsorted(state.seq, first))
        if expired:
            self.state = State(
                state.seq[expired:],
                state.id[expired:],
                state.stream[expired:],
                state.value[expired:],
                state.work,
            )

    def _best(self, upto: int) -> tuple[Floats, Ints]:
        """Scores and newest rows of the objects of the first ``upto`` rows that rank."""
        query, state = self.query, self.state
        objects, of = np.unique(state.id[:upto], return_inverse=True)
        stream, value = state.stream[:upto], state.value[:upto]
        values = np.full((len(objects), len(query.streams)), -np.inf)
        if query.most > 1:
            values[:] = 0.0
            np.add.at(values, (of, stream), value)
        else:
            np.maximum.at(values, (of, stream), value)
        seen = np.zeros(values.shape, np.bool_)
        seen[of, stream] = True
        score = query.scores(np.where(seen, values, query.low))
        newest = np.zeros(len(objects), np.int64)
        np.maximum.at(newest, of, state.seq[:upto])
        setting = self.setting
        order = np.lexsort((newest if setting.oldest_first else -newest, -score))
        best = order[: len(ranks_of_best(score[order], setting.k, setting.rank_by))]
        return score[best], newest[best]

    @override
    def kept(self) -> Ints:
        return self.state.seq.copy()

    @property
    @override
    def work(self) -> Ints:
        return self.state.work

    @override
    def check_invariants(self, alive: Mapping[int, Any]) -> None:
        # alive: the id, stream number and value of each row so far, of a count window
        state = self.state
        rows = zip(state.id.tolist(), state.stream.tolist(), state.value.tolist(), strict=True)
        assert dict(zip(state.seq.tolist(), rows, strict=True)) == window_rows(
            alive, self.setting.size
        ), "1"
