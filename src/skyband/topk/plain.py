"""Plain: answer small streams with NumPy alone, so that nothing has to be compiled for them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from skyband.engine.algorithm import Algorithm, best_of
from skyband.engine.changes import Changes
from skyband.engine.plan import Setting
from skyband.engine.rows import Rows
from skyband.engine.snapshot import Saved, join, part
from skyband.engine.steps import Steps
from skyband.kernels.answers import Out, out
from skyband.kernels.work import CANDIDATES, RESCANNED, RESCANS, SLIDES, counters
from skyband.order import Floats, Ints

_NANOSECONDS = 2e8  # of work that NumPy may take before compiled kernels take over
_PER_PUSH, _PER_WINDOW, _PER_ROW = 30_000.0, 30_000.0, 8.0  # what work takes, roughly
_ROWS = 1 << 16  # rows that are remembered at most


class Plain(Algorithm):
    """Maintains everything that was pushed, and selects each window's k best from it.

    It is what ``algorithm="auto"`` begins with. Before the work becomes worth compiling for,
    :meth:`replay` lets the planned algorithm take over, as if it had been there from the start.

    Complexity: O(n + k log k) per slide, space O(rows pushed); :meth:`can_afford` bounds both, by a
    fifth of a second and by 65,536 rows.
    """

    name = "plain"
    keeps_window = True

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._pushes: list[tuple[Rows, Steps]] = []
        self._score = np.empty(1024)
        self._size = 0
        self._first = 0
        self._spent = np.zeros(1)  # shared with forks: NumPy works for them, too
        self._changes = Changes() if setting.changes else None
        self._work = counters()

    @override
    def new_state(self) -> None:
        return None

    def can_afford(self, rows: Rows, steps: Steps) -> bool:
        """Whether this batch, too, is small enough to be answered here."""
        spent = float(self._spent[0]) + _cost(rows, steps)
        return self._size + rows.size <= _ROWS and spent <= _NANOSECONDS

    def replay(self, algorithm: Algorithm) -> None:
        """Let another algorithm take in what was pushed so far; its answers were given."""
        for rows, steps in self._pushes:
            algorithm.push(rows if algorithm.attributes else rows._replace(columns=()), steps)

    @override
    def fork(self) -> Plain:
        fork = copy.copy(self)
        fork._pushes, fork._work = self._pushes.copy(), self._work.copy()
        fork._score = self._score[: self._size].copy()
        return fork

    def first_scores(self, count: int) -> Floats:
        """The first scores that were pushed."""
        return self._score[: min(self._size, count)]

    @override
    def push(self, rows: Rows, steps: Steps) -> Out:
        self._spent[0] += _cost(rows, steps)
        self._remember(rows._replace(id=None, time=None).copied(), steps)
        emitted, base = np.flatnonzero(steps.emit), int(steps.base[0])
        windows = [self._best(int(steps.first[at]), base + int(steps.stop[at])) for at in emitted]
        self._first = max(self._first, int(steps.first[-1]) if len(steps.first) else 0)
        none = np.empty(0, np.int64)
        lengths = np.cumsum([0] + [len(seq) for seq in windows])
        seq = np.concatenate([none, *windows])
        score = self._score[seq]
        ranks = previous = none
        if self._changes is not None:
            changed = self._changes.of_windows([0] * len(windows), lengths, (score, seq, seq, seq))
            lengths, ranks, previous = changed.offsets, changed.ranks, changed.previous
            score, seq = changed.columns[:2]
        upto = np.zeros(len(steps.stop), np.int64)
        upto[emitted] = lengths[1:]
        answers = out(0, 0, 1, False)
        size = np.array([len(seq)], np.int64)
        return answers._replace(
            rows=answers.rows._replace(score=score, seq=seq, size=size),
            rank=ranks,
            previous=previous,
            upto=np.maximum.accumulate(upto),
        )

    def _remember(self, rows: Rows, steps: Steps) -> None:
        self._pushes.append((rows, steps))
        size = self._size + rows.size
        if size > len(self._score):
            self._score = np.concatenate([self._score, np.empty(size)])
        self._score[self._size : size] = rows.score
        self._size = size

    def _best(self, first: int, stop: int) -> Ints:
        """Sequence numbers of the best of a window, best first: k, or more if they share ranks."""
        k, score = self.setting.k, self._score[first:stop]
        ranked = np.flatnonzero(score == score)
        distinct = np.unique if self.setting.rank_by == "dense_rank" else np.asarray
        counted = distinct(score[ranked])
        shares_ranks = self.setting.rank_by != "row_number"
        if len(counted) > (k if shares_ranks else 4 * k):
            worst = np.partition(counted, len(counted) - k)[len(counted) - k]
            ranked = ranked[score[ranked] >= worst]
        age = ranked if self.setting.oldest_first else -ranked
        order = np.lexsort((age, -score[ranked]))[: None if shares_ranks else k]
        self._work[[SLIDES, RESCANS]] += 1
        self._work[[CANDIDATES, RESCANNED]] += stop - first
        return ranked[order] + first

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        raise AssertionError("plain answers whole batches")

    @override
    def kept(self) -> Ints:
        return np.arange(self._first, self._size, dtype=np.int64)

    @override
    def reported(self) -> Ints:
        if self._changes is None or 0 not in self._changes.reported:
            return np.empty(0, np.int64)
        return self._changes.reported[0][1]

    @property
    @override
    def work(self) -> Ints:
        return self._work

    @override
    def state_bytes(self) -> int:
        columns = [column for rows, _ in self._pushes for column in (rows.score, *rows.columns)]
        steps = [array for _, steps in self._pushes for array in steps]
        return sum(array.nbytes for array in (*columns, *steps, self._score))

    @override
    def check_invariants(self, alive: Mapping[int, float]) -> None:
        score = self._score[: self._size]
        known = {seq: float(score[seq]) for seq in range(self._first, self._size)}
        known = {seq: value for seq, value in known.items() if value == value}
        assert best_of(known, self.setting.k) == best_of(alive, self.setting.k)

    @override
    def saved(self) -> Saved:
        pushes = {
            str(at): _saved_push(rows, steps) for at, (rows, steps) in enumerate(self._pushes)
        }
        header: dict[str, Any] = {
            "spent": float(self._spent[0]),
            "first": self._first,
            "pushes": len(pushes),
        }
        parts = {**pushes, "work": ({}, {"counts": self._work})}
        if self._changes is not None:
            parts["changes"] = self._changes.saved()
        return join(header, parts)

    @override
    def restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._spent[0], self._first = header["spent"], header["first"]
        for at in range(header["pushes"]):
            columns = part(str(at), header, arrays)[1]
            steps = Steps(*(columns[name] for name in Steps._fields))
            matrix = (columns["matrix"],) if "matrix" in columns else ()
            self._remember(Rows(columns["score"], columns=matrix), steps)
        self._work = part("work", header, arrays)[1]["counts"]
        if self._changes is not None:
            self._changes.restored(*part("changes", header, arrays))


def _cost(rows: Rows, steps: Steps) -> float:
    """Nanoseconds that answering a batch takes, roughly."""
    alive = (steps.base + steps.stop - steps.first)[steps.emit]
    return _PER_PUSH + _PER_WINDOW * len(alive) + _PER_ROW * (float(alive.sum()) + rows.size)


def _saved_push(rows: Rows, steps: Steps) -> Saved:
    matrix = {"matrix": rows.columns[0]} if rows.columns else {}
    return {}, {"score": rows.score, **matrix, **steps._asdict()}
