"""The minimal candidate set over panes, for many panes of a key at once: insert, answer, expire.

What :class:`skyband.spark.state.candidates.Candidates` does with arrays for each pane, this does
with one pass over the candidates; both hold the same rows in the same order, and answer the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.kernels.jit import entry, lean
from skyband.kernels.records import Record, fields, record
from skyband.order import Ints


class Rows(NamedTuple):
    """Candidates in rank order, with room for more behind them.

    ``place`` is that of a row in its pane, ``slot`` where its columns are; ``dominators`` counts
    the rows above it that live at least as long, and ``last`` is its last window.
    """

    pane: Ints
    place: Ints
    score: Any
    slot: Ints
    dominators: Ints
    last: Ints


class Panes(NamedTuple):
    """Panes in ascending order, whose rows, best first, stand in ``score`` from low to high.

    ``slot`` is where the columns of the first row of ``score`` are.
    """

    number: Ints
    low: Ints
    high: Ints
    last: Ints
    score: Any
    slot: int


class Answers(NamedTuple):
    """Windows that were answered: the number of each, and where its rows end."""

    window: Ints
    end: Ints
    score: Any
    slot: Ints


class Query(NamedTuple):
    """What is asked: k, the first window that is answered, what ranks first of equal scores."""

    k: int
    first_window: int
    oldest_first: bool


class Run(NamedTuple):
    """A run over panes: candidates and room for as many again, answers, and single numbers."""

    rows: Rows
    spare: Rows
    answers: Answers
    now: Record


NOW = fields("kept", "due", "answered", "turned")
"""Candidates, the first window not yet answered, windows answered, whether ``spare`` holds them."""


def rows_of(room: int, numbers: Any) -> Rows:
    """Room for so many candidates."""
    whole = [np.empty(room, np.int64) for _ in range(5)]
    return Rows(whole[0], whole[1], np.empty(room, numbers), whole[2], whole[3], whole[4])


def run_of(rows: Rows, kept: int, due: int, windows: int, k: int) -> Run:
    """A run that begins with ``kept`` candidates, and has room for so many windows."""
    answers = Answers(
        np.empty(windows, np.int64),
        np.empty(windows, np.int64),
        np.empty(windows * k, rows.score.dtype),
        np.empty(windows * k, np.int64),
    )
    now = record(NOW, kept=kept, due=due)
    return Run(rows, rows_of(len(rows.pane), rows.score.dtype), answers, now)


@entry
def answer_panes(run: Run, panes: Panes, query: Query, upto: int) -> None:
    """Take in panes, and answer all windows before each, and at last those up to ``upto``.

    O(c + m) for a pane of m rows and c candidates, O(c) for a window.
    """
    now = run.now[0]
    rows, spare = run.rows, run.spare
    for at in range(len(panes.number)):
        _answer_before(rows, run, query, panes.number[at] >> 1)
        if panes.low[at] < panes.high[at]:
            _insert(rows, spare, run, panes, at, query)
            rows, spare = spare, rows
            now.turned = 1 - now.turned
    _answer_before(rows, run, query, upto + 1)


@lean
def _insert(rows: Rows, spare: Rows, run: Run, panes: Panes, at: int, query: Query) -> None:
    """Merge the rows of a pane into the candidates; what has k dominators goes."""
    now = run.now[0]
    new, high, last = panes.low[at], panes.high[at], panes.last[at]
    above = 0  # rows of the pane that were merged
    as_long = 0  # candidates that were merged and live as long as the pane
    old, size = 0, 0
    while new < high or old < now.kept:
        is_new = old == now.kept
        if new < high and old < now.kept:
            score, other = panes.score[new], rows.score[old]
            is_new = score > other or (score == other and not query.oldest_first)
        if is_new:
            if above + as_long < query.k:
                spare.pane[size] = panes.number[at]
                spare.place[size] = above
                spare.score[size] = panes.score[new]
                spare.slot[size] = panes.slot + new
                spare.dominators[size] = above + as_long
                spare.last[size] = last
                size += 1
            above += 1
            new += 1
        else:
            dominators = rows.dominators[old] + above
            if dominators < query.k:
                spare.pane[size] = rows.pane[old]
                spare.place[size] = rows.place[old]
                spare.score[size] = rows.score[old]
                spare.slot[size] = rows.slot[old]
                spare.dominators[size] = dominators
                spare.last[size] = rows.last[old]
                size += 1
            if rows.last[old] >= last:
                as_long += 1
            old += 1
    now.kept = size


@lean
def _answer_before(rows: Rows, run: Run, query: Query, step: int) -> None:
    """Answer all windows before ``step`` that hold anything."""
    now = run.now[0]
    answers = run.answers
    while now.due < step and now.kept > 0:
        oldest = rows.pane[0]
        for at in range(1, now.kept):
            oldest = min(oldest, rows.pane[at])
        now.due = max(now.due, oldest >> 1)
        if now.due >= step:
            break
        if now.due >= query.first_window:
            end = answers.end[now.answered - 1] if now.answered else 0
            for at in range(min(query.k, now.kept)):
                answers.score[end] = rows.score[at]
                answers.slot[end] = rows.slot[at]
                end += 1
            answers.window[now.answered] = now.due
            answers.end[now.answered] = end
            now.answered += 1
        now.due += 1
        _expire(rows, run)
    now.due = max(now.due, step)


@lean
def _expire(rows: Rows, run: Run) -> None:
    """Forget the rows whose last window is before the one that is due."""
    now = run.now[0]
    size = 0
    for at in range(now.kept):
        if rows.last[at] >= now.due:
            if size < at:
                rows.pane[size] = rows.pane[at]
                rows.place[size] = rows.place[at]
                rows.score[size] = rows.score[at]
                rows.slot[size] = rows.slot[at]
                rows.dominators[size] = rows.dominators[at]
                rows.last[size] = rows.last[at]
            size += 1
    now.kept = size
