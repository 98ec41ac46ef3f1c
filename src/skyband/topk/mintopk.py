"""MinTopk: the super-top-k list, one integrated list for all future windows."""

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
from skyband.kernels.ranked import better
from skyband.kernels.records import Record, fields, record
from skyband.kernels.skiplist import LEVELS, SkipList, link, room_left, skiplist, unlink, with_room
from skyband.kernels.work import CANDIDATES, DELETIONS, EVENTS, INSERTIONS, SLIDES, counters
from skyband.order import Floats, Ints


class State(NamedTuple):
    """The list, the window marks of its nodes, and per open window its pointer and counter.

    ``now``  ``k``; slides in a window (``span``); open windows that there is room for (``slots``);
             the current window (``window``); whether its answer may have changed (``dirty``); row
             of the batch at which to go on after room ran out (``resume``, 0: at the step's first)
    """

    items: SkipList
    start: Ints  # node: first window in which it is predicted (start_w)
    end: Ints  # node: last window it lives in (end_w)
    lowest: Ints  # window % slots: node of its worst predicted object (lbp)
    filled: Ints  # window % slots: objects predicted for it (tkc)
    best: Ranked
    memory: Emission
    work: Ints
    now: Record


_NOW = fields("k", "span", "slots", "window", "dirty", "resume")


class MinTopk(Algorithm):
    """Maintains the minimal candidate set as one ranked list for all future windows.

    Each object carries two marks, the first and the last window in which it is predicted to be an
    answer (its career is continuous, Lemma 4.3); each window points at its worst predicted object.

    Invariants: (1) the list is in rank order; (2) it is the union of the predicted results of all
    open windows, nothing else; (3) each window's counter and pointer agree with that; (4) the
    current window's answer is the head of the list (Lemma 4.4).

    Complexity: O(log c + w) per arrival that becomes a candidate, with c candidates and w windows
    that it enters, O(1) per other arrival, O(k) per slide; space O(c), at worst k n/s.

    Reference: Yang et al., EDBT 2011, section 4, Figure 6.

    Deviations: the first window that a new object enters is looked for from its last window back
    (the bounds fall monotonically, Lemma 4.2), not from the current one on. Line 1 of the paper's
    UpdateSuperTopk compares with the last object of the list; here it is the worst object of the
    last window that the newcomer reaches, and an equal score is not discarded. Nothing in the
    proofs depends on which of equal scores ranks first: where the oldest do, the list holds
    sequence numbers with their signs turned, and an equal score is discarded.
    """

    name = "mintopk"
    state: State

    @override
    def new_state(self) -> State:
        setting = self.setting
        slots = setting.span + 2
        if slots > 1 << 28:
            raise QueryError(
                f"{setting.span:,} slides in a window for {self.name}",
                "fewer: it keeps a record per open window",
                "use sap, or a larger slide",
            )
        room = 2 * min(setting.k, 1024)
        return State(
            skiplist(room),
            np.zeros(room + 1, np.int64),
            np.zeros(room + 1, np.int64),
            np.zeros(slots, np.int64),
            np.zeros(slots, np.int64),
            ranked(min(setting.k, setting.size) if setting.counted else setting.k),
            emission(setting.k, setting.changes),
            counters(),
            record(_NOW, k=setting.k, span=setting.span, slots=slots, dirty=1),
        )

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        oldest_first = self.setting.oldest_first
        return _advance(self.state, rows.score, steps, target, step, oldest_first)

    @override
    def make_room(self, arriving: int) -> None:
        items = with_room(self.state.items)
        marks = np.zeros((2, len(items.score)), np.int64)
        marks[:, : len(self.state.start)] = self.state.start, self.state.end
        self.state = self.state._replace(items=items, start=marks[0], end=marks[1])

    def _nodes(self) -> list[int]:
        nodes, node = [], int(self.state.items.after[0])
        while node:
            nodes.append(node)
            node = int(self.state.items.after[node * LEVELS])
        return nodes

    @override
    def kept(self) -> Ints:
        return np.sort(np.abs(self.state.items.seq[np.array(self._nodes(), np.int64)]))

    @property
    @override
    def work(self) -> Ints:
        return self.state.work

    @override
    def check_invariants(self, alive: Mapping[int, float]) -> None:
        state = self.state
        now = state.now[0]
        k, slots = now.k, now.slots
        nodes = self._nodes()
        items = [(float(state.items.score[node]), int(state.items.seq[node])) for node in nodes]
        assert items == sorted(items, reverse=True), "1: the list is not in rank order"
        assert len(nodes) == state.items.now[0].count
        predicted: set[int] = set()
        for future in range(now.window, now.window + now.span + 1):
            members = [n for n in nodes if state.start[n] <= future <= state.end[n]]
            predicted.update(members)
            slot = future % slots
            assert len(members) == state.filled[slot] <= k, "3: a window's counter is off"
            if members:
                assert state.lowest[slot] == members[-1], "3: a lower bound pointer is off"
            # an object that is not predicted has k better ones, or does not live that long
            if len(members) < k:
                assert all(n in members for n in nodes if state.end[n] >= future)
        assert predicted == set(nodes), "2: the list holds more than the predicted results"
        head = [abs(seq) for _, seq in items[:k]]
        assert head == best_of(alive, k, self.setting.oldest_first), (
            "4: the head of the list is not the answer"
        )


@entry
def _advance(
    state: State, scores: Floats, steps: Steps, target: Out, step: int, oldest_first: bool
) -> int:
    """Take in a batch from a step on; return the step in which room ran out.

    Nodes may run out in the middle of a step: ``resume`` tells the next call where to go on.
    """
    now, items = state.now[0], state.items
    k, span, slots = now.k, now.span, now.slots
    sign = -1 if oldest_first else 1
    position = steps.stop[step - 1] if step > 0 else 0
    if now.resume > position:
        position = now.resume
    now.resume = 0
    now.dirty = 1
    while step < len(steps.stop):
        window, stop = steps.window[step], steps.stop[step]
        if lacks_room(target, k, state.memory):
            return step
        if window != now.window:
            _purge(state, window)
        split, base = steps.split[step], steps.base[0]
        final = window - 1 + span + (1 if position > split else 0)
        slot = final % slots
        for at in range(position, stop):
            if at == split:  # from here on objects live one window longer
                final = window + span
                slot = final % slots
            score = scores[at]
            # beaten even in its last window
            if score != score or (
                state.filled[slot] == k
                and _beats(items.score[state.lowest[slot]], score, oldest_first)
            ):
                continue
            if room_left(items) == 0:
                now.resume = at
                return step
            _insert(state, score, sign * (base + at), window, final)
        position = stop
        if steps.emit[step]:
            dirty = now.dirty == 1
            if dirty:
                _head(state, sign)
            report(target, step, state.best, k, state.memory, dirty)
            now.dirty = 0
            state.work[SLIDES] += 1
            state.work[CANDIDATES] += items.now[0].count
        else:
            skip(target, step)
        step += 1
    return step


@lean
def _purge(state: State, window: int) -> None:
    """Move on to a window: drop the objects that were predicted for no later one."""
    now, items = state.now[0], state.items
    slots = now.slots
    for expired in range(now.window, min(window, now.window + slots)):
        slot = expired % slots
        node = items.after[0]
        for _ in range(state.filled[slot]):
            following = items.after[node * LEVELS]
            state.start[node] = max(state.start[node], expired + 1)
            if state.start[node] > state.end[node]:
                unlink(items, node)
                now.dirty = 1
            node = following
        state.filled[slot] = 0
        state.lowest[slot] = 0
    now.window = window


@lean
def _beats(score: float, newer: float, oldest_first: bool) -> bool:
    """Whether an object ranks before a newer one with that score."""
    return score > newer or (oldest_first and score == newer)


@lean
def _insert(state: State, score: float, seq: int, window: int, final: int) -> None:
    """Put a new object on the list and in the windows it enters.

    Of equal scores the larger ``seq`` ranks first: where that is the oldest, it is below zero.
    """
    now, items = state.now[0], state.items
    k, slots = now.k, now.slots
    filled, lowest = state.filled, state.lowest
    entered = final
    slot = final % slots
    while entered > window:
        before = slot - 1 if slot > 0 else slots - 1
        worst = lowest[before]
        if filled[before] == k and better(items.score[worst], items.seq[worst], score, seq):
            break
        entered -= 1
        slot = before
    node = link(items, score, seq)
    state.start[node] = entered
    state.end[node] = final
    for future in range(entered, final + 1):
        worst = lowest[slot]
        if filled[slot] < k:
            filled[slot] += 1
            if worst == 0 or better(items.score[worst], items.seq[worst], score, seq):
                lowest[slot] = node
        else:
            lowest[slot] = items.before[worst]  # Lemma 4.5: the next worst stands before it
            state.start[worst] = future + 1
            state.work[EVENTS] += 1
            if state.start[worst] > state.end[worst]:
                unlink(items, worst)
                state.work[DELETIONS] += 1
        slot = slot + 1 if slot + 1 < slots else 0
    state.work[INSERTIONS] += 1
    if entered == window:
        now.dirty = 1


@lean
def _head(state: State, sign: int) -> None:
    """Copy the first k objects of the list; ``sign`` is that of its sequence numbers."""
    items, best, k = state.items, state.best, state.now[0].k
    node = items.after[0]
    size = 0
    while node != 0 and size < k:
        best.score[size] = items.score[node]
        best.seq[size] = sign * items.seq[node]
        size += 1
        node = items.after[node * LEVELS]
    best.size[0] = size
