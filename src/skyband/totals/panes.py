"""Pane totals: what each key adds up to in each pane, and in the window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar

import numpy as np

from skyband.directory import Directory
from skyband.kernels.emission import Out, skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.work import CANDIDATES, EVENTS, INSERTIONS, SLIDES
from skyband.order import Floats, Ints
from skyband.panes import Steps
from skyband.topk.algorithm import Algorithm, Setting
from skyband.totals.exact import OFTEN, add, carry, is_infinite, limbs_for, rounded
from skyband.totals.keys import hashes, slot_of
from skyband.totals.standings import leave, stand, write_best
from skyband.totals.state import (
    COUNTS,
    EXTREMES,
    INFINITE,
    KIND,
    LIMBS,
    LOWEST,
    MEANS,
    NEXT,
    OLDEST,
    PANE,
    PANE_FROM,
    POSITION,
    ROWS,
    SIGN,
    SUMS,
    TOUCHED,
    WIDTH,
    K,
    State,
    new_state,
    with_fresh_slots,
    with_limbs,
    with_more_entries,
)

_KINDS = {
    "count": (COUNTS, 1),
    "sum": (SUMS, 1),
    "mean": (MEANS, 1),
    "max": (EXTREMES, 1),
    "min": (EXTREMES, -1),
}
_NEGATIVE = 1 << 32  # what an infinity below zero counts in INFINITE


class PaneTotals(Algorithm):
    """Maintains, for each key, an entry per pane that it occurs in, and its total in the window.

    A pane that closes is added to the totals, one that expires is taken away: sums as limbs, which
    lose nothing (:mod:`skyband.totals.exact`). Maxima cannot be taken away; so each key has its
    entries of falling maxima, newest last, linked: the first of them is the maximum of the window.
    Keys whose totals changed are ranked anew when the window is answered.

    Invariants: (1) entries alive are those of the window's panes, and hold what their rows add up
    to; (2) totals are sums over entries alive, or the largest of them; (3) the standings are a heap
    of every key that has a total.

    Complexity: O(1) per row; per slide O(log n) at most for each key of the panes that came and
    went, and O(k log k); space O(entries + n), n being the keys of the window.
    """

    name = "pane-totals"
    state: State
    directory: Directory
    """Where the monitor keeps the keys of rows, by sequence number."""

    by: ClassVar[tuple[str, ...]] = tuple(_KINDS)

    def __init__(self, setting: Setting, by: str) -> None:
        self._kind = _KINDS[by]
        super().__init__(setting)

    def new_state(self) -> State:  # noqa: D102
        return new_state(self.setting.k, *self._kind)

    def welcome(self, scores: Floats, steps: Steps) -> None:
        """Make room for the limbs of these values, and look the batch's keys up."""
        self.state.numbers[POSITION] = 0
        self._keys = self.directory.id[len(self.directory.id) - len(scores) :]
        self._hashes = hashes(self._keys)
        self._bits = scores.view(np.int64)
        if self._kind[0] in (SUMS, MEANS):
            lowest, beyond = limbs_for(self._bits)
            if beyond:
                self.state = with_limbs(self.state, lowest, beyond)

    def run(  # noqa: D102
        self, scores: Floats, attributes: Floats | None, steps: Steps, target: Out, step: int
    ) -> int:
        rows = (self._keys, self._hashes, scores, self._bits)
        return _advance(self.state, rows, steps, target, step)

    def make_room(self, arriving: int) -> None:
        """Make room for more keys, or for more entries."""
        state = self.state
        if int(state.numbers[NEXT] - state.numbers[OLDEST]) == len(state.entries.slot):
            self.state = with_more_entries(state)
        else:
            self.state = with_fresh_slots(state)

    def kept(self) -> Ints:
        """The newest row of each key."""
        used = int(self.state.keys.size[0])
        alive = self.state.totals.latest[:used] >= self.state.numbers[OLDEST]
        ranked = self.state.standings.place[:used] >= 0
        seen = self.state.totals.seen[:used][alive]
        return np.union1d(seen, self.state.standings.seq[:used][ranked])

    @property
    def work(self) -> Ints:  # noqa: D102
        return self.state.work

    def check_invariants(self, alive: Mapping[int, float]) -> None:
        """Assert the above after a window was answered, given the rows alive."""
        state = self.state
        numbers, entries, kind = state.numbers, state.entries, self._kind[0]
        width = int(numbers[WIDTH])
        living = np.arange(numbers[OLDEST], numbers[NEXT], dtype=np.int64) & entries.mask[0]
        sums = entries.sums.reshape(-1, width)
        rows: Counter[int] = Counter()
        exact: dict[int, Fraction] = {}
        highest: dict[int, float] = {}
        for seq, value in alive.items():
            key = int(self.directory.id[self.directory.places(np.array([seq]))[0]])
            rows[key] += 1
            if np.isfinite(value):
                exact[key] = exact.get(key, Fraction(0)) + Fraction(value)
            signed = value * self._kind[1]
            highest[key] = max(highest.get(key, signed), signed)
        counted: Counter[int] = Counter()
        for at in living:
            counted[int(state.keys.key[entries.slot[at]])] += int(sums[at, ROWS])
        assert counted == rows, "1: entries are not the window's rows"
        totals = state.totals.sums.reshape(-1, width)
        unit = Fraction(2) ** (32 * int(numbers[LOWEST]) - 1074)
        for slot in range(int(state.keys.size[0])):
            key = int(state.keys.key[slot])
            assert int(totals[slot, ROWS]) == rows[key], f"2: rows of {key}"
            if kind in (SUMS, MEANS):
                limbs = totals[slot, LIMBS:].tolist()
                found = unit * sum(limb << (32 * at) for at, limb in enumerate(limbs))
                assert found == exact.get(key, 0), f"2: sum of {key}"
            if kind == EXTREMES and rows[key]:
                first = int(state.totals.largest[slot])
                assert first >= numbers[OLDEST], f"2: maximum of {key} has expired"
                assert entries.value[first & entries.mask[0]] == highest[key], f"2: max of {key}"
        held = state.standings
        size = int(held.size[0])
        order = [(float(held.score[slot]), int(held.seq[slot])) for slot in held.heap[:size]]
        for at in range(size):
            assert held.place[held.heap[at]] == at, "3: a slot does not know its place"
            assert at == 0 or order[at] < order[(at - 1) // 2], "3: not a heap"
        there = {int(state.keys.key[slot]) for slot in held.heap[:size]}
        assert there <= set(rows), "3: a key without rows is ranked"
        assert len(there) == size, "3: a key is ranked twice"


Rows = tuple[Ints, Ints, Floats, Ints]  # keys, their hashes, values, the bits of values


@entry
def _advance(state: State, rows: Rows, steps: Steps, target: Out, step: int) -> int:
    """Take in a batch from a step on; return the step in which room ran out."""
    numbers = state.numbers
    while step < len(steps.stop):
        _expire(state, steps.first[step])
        window = steps.window[step]
        if not _take(state, rows, steps.base[0], steps.split[step], 2 * window):
            return step
        if not _take(state, rows, steps.base[0], steps.stop[step], 2 * window + 1):
            return step
        if steps.emit[step]:
            _close(state)
            _settle(state)
            write_best(state.standings, numbers[K], target, step)
            state.work[SLIDES] += 1
            state.work[CANDIDATES] += state.standings.size[0]
        else:
            skip(target, step)
        step += 1
    return step


@lean
def _take(state: State, rows: Rows, base: int, stop: int, pane: int) -> bool:
    """Add rows up to ``stop`` to the entries of a pane; False if room ran out before."""
    keys, hashed, values, bits = rows
    numbers, entries, totals = state.numbers, state.entries, state.totals
    position = numbers[POSITION]
    if position < stop and numbers[PANE] != pane:
        _close(state)
        numbers[PANE] = pane
        numbers[PANE_FROM] = numbers[NEXT]
    kind, sign, width, lowest = numbers[KIND], numbers[SIGN], numbers[WIDTH], numbers[LOWEST]
    mask, begin = entries.mask[0], numbers[PANE_FROM]
    while position < stop:
        value = values[position]
        if value != value:  # NaN holds its place only
            position += 1
            continue
        slot = slot_of(state.keys, keys[position], hashed[position])
        if slot < 0:
            numbers[POSITION] = position
            return False
        number = totals.latest[slot]
        at = number & mask
        if number < begin:
            number = numbers[NEXT]
            if number - numbers[OLDEST] > mask:
                numbers[POSITION] = position
                return False
            numbers[NEXT] = number + 1
            totals.latest[slot] = number
            at = number & mask
            entries.slot[at] = slot
            entries.born[at] = base + position
            for column in range(at * width, at * width + width):
                entries.sums[column] = 0
            if kind == EXTREMES:
                entries.value[at] = -np.inf
        totals.seen[slot] = base + position
        entries.sums[at * width] += 1
        if kind == EXTREMES:
            entries.value[at] = max(entries.value[at], value * sign)
        elif kind != COUNTS:
            _add(entries.sums, at * width, width, lowest, bits[position])
        position += 1
    numbers[POSITION] = position
    return True


@lean
def _add(sums: Ints, at: int, width: int, lowest: int, bits: int) -> None:
    if is_infinite(bits):
        sums[at + INFINITE] += _NEGATIVE if bits < 0 else 1
        return
    if width > LIMBS:
        add(sums, at + LIMBS, lowest, bits)
        if sums[at] & OFTEN == 0:
            carry(sums, at + LIMBS, width - LIMBS)


@lean
def _touch(state: State, slot: int) -> None:
    if state.totals.changed[slot] == 0:
        state.totals.changed[slot] = 1
        state.totals.touched[state.numbers[TOUCHED]] = slot
        state.numbers[TOUCHED] += 1


@lean
def _close(state: State) -> None:
    """Add the open pane to the totals."""
    numbers, entries, totals = state.numbers, state.entries, state.totals
    kind, width, mask = numbers[KIND], numbers[WIDTH], entries.mask[0]
    for number in range(numbers[PANE_FROM], numbers[NEXT]):
        at = number & mask
        slot = entries.slot[at]
        if width > LIMBS:
            carry(entries.sums, at * width + LIMBS, width - LIMBS)
        for column in range(width):
            totals.sums[slot * width + column] += entries.sums[at * width + column]
        if kind == EXTREMES:
            _link(state, number, slot)
        _touch(state, slot)
    state.work[INSERTIONS] += numbers[NEXT] - numbers[PANE_FROM]
    numbers[PANE_FROM] = numbers[NEXT]


@lean
def _link(state: State, number: int, slot: int) -> None:
    """Let an entry follow the older ones of its key that are larger; forget the others."""
    entries, totals, oldest = state.entries, state.totals, state.numbers[OLDEST]
    mask = entries.mask[0]
    value = entries.value[number & mask]
    older = totals.tail[slot]
    while older >= oldest and entries.value[older & mask] <= value:
        older = entries.older[older & mask]
    if older < oldest:
        totals.largest[slot] = number
    else:
        entries.newer[older & mask] = number
    entries.older[number & mask] = older
    entries.newer[number & mask] = -1
    totals.tail[slot] = number


@lean
def _expire(state: State, first: int) -> None:
    """Take the panes that begin before a row away from the totals."""
    numbers, entries, totals = state.numbers, state.entries, state.totals
    kind, width, mask = numbers[KIND], numbers[WIDTH], entries.mask[0]
    while numbers[OLDEST] < numbers[NEXT]:
        number = numbers[OLDEST]
        at = number & mask
        if entries.born[at] >= first:
            break
        slot = entries.slot[at]
        for column in range(width):
            totals.sums[slot * width + column] -= entries.sums[at * width + column]
        if kind == EXTREMES and totals.largest[slot] == number:
            totals.largest[slot] = entries.newer[at]
        numbers[OLDEST] = number + 1
        _touch(state, slot)


@lean
def _settle(state: State) -> None:
    """Rank every key whose total has changed anew."""
    numbers, totals, held = state.numbers, state.totals, state.standings
    width = numbers[WIDTH]
    for i in range(numbers[TOUCHED]):
        slot = totals.touched[i]
        totals.changed[slot] = 0
        total = np.nan
        if totals.sums[slot * width + ROWS] > 0:
            total = _total(state, slot)
        if total == total:
            stand(held, slot, total, totals.seen[slot])
        else:
            leave(held, slot)
    state.work[EVENTS] += numbers[TOUCHED]
    numbers[TOUCHED] = 0


@lean
def _total(state: State, slot: int) -> float:
    """The total of a key that has rows; NaN if it has none."""
    numbers, sums = state.numbers, state.totals.sums
    kind, width = numbers[KIND], numbers[WIDTH]
    at = slot * width
    if kind == COUNTS:
        return float(sums[at + ROWS])
    if kind == EXTREMES:
        entries = state.entries
        return entries.value[state.totals.largest[slot] & entries.mask[0]] * numbers[SIGN]
    infinite = sums[at + INFINITE]
    if infinite > 0:
        if infinite < _NEGATIVE:
            return np.inf
        return -np.inf if infinite & (_NEGATIVE - 1) == 0 else np.nan
    if width == LIMBS:
        return 0.0
    found = rounded(sums, at + LIMBS, width - LIMBS, numbers[LOWEST], state.scratch)
    return found / sums[at + ROWS] if kind == MEANS else found
