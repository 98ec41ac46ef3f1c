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
from skyband.kernels.work import CANDIDATES, EVENTS, INSERTIONS, RESCANS, SLIDES
from skyband.order import Floats, Ints
from skyband.panes import Steps
from skyband.topk.algorithm import Algorithm, Setting
from skyband.totals.exact import OFTEN, add, carry, is_infinite, limbs_for, rounded
from skyband.totals.slots import (
    CHANGED,
    KEY,
    LATEST,
    SEEN,
    STRIDE,
    TOTAL,
    USED,
    hashes,
    slot_of,
)
from skyband.totals.standings import (
    BAR,
    BELOW,
    OUT,
    RANKED,
    SIZE,
    bar_is_due,
    leave,
    set_bar,
    stand,
    write_best,
)
from skyband.totals.state import (
    COUNTS,
    EXTREMES,
    INFINITE,
    KIND,
    LARGEST,
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
    TAIL,
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
_AHEAD = 31  # rows that are read ahead, less one
_NEGATIVE = 1 << 32  # what an infinity below zero counts in INFINITE


class PaneTotals(Algorithm):
    """Maintains, for each key, an entry per pane that it occurs in, and its total in the window.

    A pane that closes is added to the totals, one that expires is taken away: sums as limbs, which
    lose nothing (:mod:`skyband.totals.exact`). Maxima cannot be taken away; so each key has its
    entries of falling maxima, newest last, linked: the first of them is the maximum of the window.
    Keys whose totals changed are ranked anew when the window is answered.

    Invariants: (1) entries alive are those of the window's panes, and hold what their rows add up
    to; (2) totals are sums over entries alive, or the largest of them; (3) every key that has a
    total is ranked: in a heap if it is at or above the bar.

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
        rows = self.state.slots.rows()
        return np.sort(rows[rows[:, LATEST] >= self.state.numbers[OLDEST], SEEN])

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
        cells = state.slots.rows()
        for at in living:
            counted[int(cells[entries.slot[at], KEY])] += int(sums[at, ROWS])
        assert counted == rows, "1: entries are not the window's rows"
        unit = Fraction(2) ** (32 * int(numbers[LOWEST]) - 1074)
        for slot in range(len(cells)):
            key = int(cells[slot, KEY])
            assert int(cells[slot, TOTAL + ROWS]) == rows[key], f"2: rows of {key}"
            if kind in (SUMS, MEANS):
                limbs = cells[slot, TOTAL + LIMBS :].tolist()
                found = unit * sum(limb << (32 * at) for at, limb in enumerate(limbs))
                assert found == exact.get(key, 0), f"2: sum of {key}"
            if kind == EXTREMES and rows[key]:
                first = int(cells[slot, LARGEST])
                assert first >= numbers[OLDEST], f"2: maximum of {key} has expired"
                assert entries.value[first & entries.mask[0]] == highest[key], f"2: max of {key}"
        held = state.standings
        size, used = int(held.numbers[SIZE]), len(cells)
        order = [(_total_of(state, slot), int(cells[slot, SEEN])) for slot in range(used)]
        for at, slot in enumerate(held.heap[:size]):
            assert held.place[slot] == at, "3: a slot does not know its place"
            assert at == 0 or order[slot] < order[held.heap[(at - 1) // 2]], "3: not a heap"
        bar = (float(held.bar[0]), int(held.numbers[BAR]))
        for slot in range(used):
            assert held.place[slot] == OUT or rows[int(cells[slot, KEY])], "3: a key is gone"
            above = held.place[slot] != OUT and order[slot] >= bar
            assert above == (held.place[slot] > BELOW), "3: a key on the wrong side of the bar"
        assert int((held.place != OUT).sum()) == held.numbers[RANKED], "3: keys are miscounted"


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
            if bar_is_due(state.standings, numbers[K]):
                _set_bar(state)
            write_best(state.standings, numbers[K], target, step)
            state.work[SLIDES] += 1
            state.work[CANDIDATES] += state.standings.numbers[RANKED]
        else:
            skip(target, step)
        step += 1
    return step


@lean
def _take(state: State, rows: Rows, base: int, stop: int, pane: int) -> bool:
    """Add rows up to ``stop`` to the entries of a pane; False if room ran out before."""
    keys, hashed, values, bits = rows
    numbers, entries, slots = state.numbers, state.entries, state.slots
    position = numbers[POSITION]
    if position < stop and numbers[PANE] != pane:
        _close(state)
        numbers[PANE] = pane
    kind, sign, width, lowest = numbers[KIND], numbers[SIGN], numbers[WIDTH], numbers[LOWEST]
    mask, begin = entries.mask[0], numbers[PANE_FROM]
    while position < stop:
        value = values[position]
        if value != value:  # NaN holds its place only
            position += 1
            continue
        slot = slot_of(slots, keys[position], hashed[position])
        if slot < 0:
            break
        row = slot * slots.numbers[STRIDE]
        number = slots.cells[row + LATEST]
        if number < begin:
            number = numbers[NEXT]
            if number - numbers[OLDEST] > mask:
                break
            slots.cells[row + LATEST] = number
            _begin(state, number & mask, slot, base + position)
        at = number & mask
        slots.cells[row + SEEN] = base + position
        entries.sums[at * width + ROWS] += 1
        if kind == EXTREMES:
            entries.value[at] = max(entries.value[at], value * sign)
        elif kind != COUNTS:
            _add(entries.sums, at * width, width, lowest, bits[position])
        position += 1
    numbers[POSITION] = position
    return position >= stop


@lean
def _begin(state: State, at: int, slot: int, seq: int) -> None:
    """Begin the next entry, of nothing."""
    entries, width = state.entries, state.numbers[WIDTH]
    state.numbers[NEXT] += 1
    entries.slot[at] = slot
    entries.born[at] = seq
    for column in range(at * width, at * width + width):
        entries.sums[column] = 0
    if state.numbers[KIND] == EXTREMES:
        entries.value[at] = -np.inf


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
def _read_ahead(state: State, slots: Ints, low: int, high: int, mask: int) -> None:
    """Read the rows of the slots that come next, so that memory delivers them side by side."""
    cells, stride = state.slots.cells, state.slots.numbers[STRIDE]
    found = 0
    for i in range(low, min(low + _AHEAD + 1, high)):
        row = slots[i & mask] * stride
        found ^= cells[row] ^ cells[row + stride - 1]
    state.scratch[0] = found  # or it would not be read


@lean
def _touch(state: State, slot: int, row: int) -> None:
    """Note that a total has changed."""
    if state.slots.cells[row + CHANGED] == 0:
        state.slots.cells[row + CHANGED] = 1
        state.touched[state.numbers[TOUCHED]] = slot
        state.numbers[TOUCHED] += 1


@lean
def _close(state: State) -> None:
    """Add the open pane to the totals."""
    numbers, entries, cells = state.numbers, state.entries, state.slots.cells
    kind, width, mask = numbers[KIND], numbers[WIDTH], entries.mask[0]
    stride = state.slots.numbers[STRIDE]
    for number in range(numbers[PANE_FROM], numbers[NEXT]):
        if number & _AHEAD == 0:
            _read_ahead(state, entries.slot, number, numbers[NEXT], mask)
        at = number & mask
        row = entries.slot[at] * stride
        if width > LIMBS:
            carry(entries.sums, at * width + LIMBS, width - LIMBS)
        for column in range(width):
            cells[row + TOTAL + column] += entries.sums[at * width + column]
        if kind == EXTREMES:
            _link(state, number, row)
        _touch(state, entries.slot[at], row)
    state.work[INSERTIONS] += numbers[NEXT] - numbers[PANE_FROM]
    numbers[PANE_FROM] = numbers[NEXT]


@lean
def _link(state: State, number: int, row: int) -> None:
    """Let an entry follow the older ones of its key that are larger; forget the others."""
    entries, cells, oldest = state.entries, state.slots.cells, state.numbers[OLDEST]
    mask = entries.mask[0]
    value = entries.value[number & mask]
    # a key without older rows has nothing to follow, whatever stands in its row
    older = cells[row + TAIL] if cells[row + TOTAL + ROWS] > entries.sums[number & mask] else -1
    while older >= oldest and entries.value[older & mask] <= value:
        older = entries.older[older & mask]
    if older < oldest:
        cells[row + LARGEST] = number
    else:
        entries.newer[older & mask] = number
    entries.older[number & mask] = older
    entries.newer[number & mask] = -1
    cells[row + TAIL] = number


@lean
def _expire(state: State, first: int) -> None:
    """Take the panes that begin before a row away from the totals."""
    numbers, entries, cells = state.numbers, state.entries, state.slots.cells
    kind, width, mask = numbers[KIND], numbers[WIDTH], entries.mask[0]
    stride = state.slots.numbers[STRIDE]
    while numbers[OLDEST] < numbers[NEXT]:
        number = numbers[OLDEST]
        at = number & mask
        if entries.born[at] >= first:
            break
        if number & _AHEAD == 0:
            _read_ahead(state, entries.slot, number, numbers[NEXT], mask)
        row = entries.slot[at] * stride
        for column in range(width):
            cells[row + TOTAL + column] -= entries.sums[at * width + column]
        if kind == EXTREMES and cells[row + LARGEST] == number:
            cells[row + LARGEST] = entries.newer[at]
        numbers[OLDEST] = number + 1
        _touch(state, entries.slot[at], row)


@lean
def _settle(state: State) -> None:
    """Rank every key whose total has changed anew."""
    numbers, cells, stride = state.numbers, state.slots.cells, state.slots.numbers[STRIDE]
    for i in range(numbers[TOUCHED]):
        if i & _AHEAD == 0:
            _read_ahead(state, state.touched, i, numbers[TOUCHED], -1)
        slot = state.touched[i]
        row = slot * stride
        cells[row + CHANGED] = 0
        total = _total(state, slot)
        if total == total:
            stand(state.standings, slot, total, cells[row + SEEN])
        else:
            leave(state.standings, slot)
    state.work[EVENTS] += numbers[TOUCHED]
    numbers[TOUCHED] = 0


@lean
def _set_bar(state: State) -> None:
    """Set the bar anew, among totals as they are now."""
    held, cells, stride = state.standings, state.slots.cells, state.slots.numbers[STRIDE]
    for slot in range(state.slots.numbers[USED]):
        if held.place[slot] == BELOW:
            held.score[slot] = _total(state, slot)
            held.seq[slot] = cells[slot * stride + SEEN]
    set_bar(held, state.numbers[K])
    state.work[RESCANS] += 1


@entry
def _total_of(state: State, slot: int) -> float:
    """:func:`_total` for Python."""
    return _total(state, slot)


@lean
def _total(state: State, slot: int) -> float:
    """The total of a key; NaN if it has none."""
    numbers, sums = state.numbers, state.slots.cells
    kind, width = numbers[KIND], numbers[WIDTH]
    at = slot * state.slots.numbers[STRIDE] + TOTAL
    rows = sums[at + ROWS]
    if rows == 0:
        return np.nan
    if kind == COUNTS:
        return float(rows)
    if kind == EXTREMES:
        entries = state.entries
        return entries.value[sums[at - TOTAL + LARGEST] & entries.mask[0]] * numbers[SIGN]
    infinite = sums[at + INFINITE]
    if infinite > 0:
        if infinite < _NEGATIVE:
            return np.inf
        return -np.inf if infinite & (_NEGATIVE - 1) == 0 else np.nan
    if width == LIMBS:
        return 0.0
    found = rounded(sums, at + LIMBS, width - LIMBS, numbers[LOWEST], state.scratch)
    return found / rows if kind == MEANS else found
