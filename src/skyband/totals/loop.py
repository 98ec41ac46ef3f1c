"""The loop of pane totals: for each step expire, take rows in, rank what changed, answer."""

from __future__ import annotations

import numpy as np

from skyband.engine.steps import Steps
from skyband.kernels.emission import Out, skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.work import CANDIDATES, EVENTS, INSERTIONS, RESCANS, SLIDES
from skyband.order import Floats, Ints
from skyband.totals.exact import OFTEN, add, carry, is_infinite, rounded
from skyband.totals.key_ranking import BELOW, RANKED, bar_is_due, leave, set_bar, stand, write_best
from skyband.totals.slots import CHANGED, LATEST, SEEN, STRIDE, TOTAL, USED, slot_of
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
    TAIL,
    TOUCHED,
    WIDTH,
    K,
    State,
)

_AHEAD = 31  # rows that are read ahead, less one
_NEGATIVE = 1 << 32  # what an infinity below zero counts in INFINITE

Rows = tuple[Ints, Ints, Floats, Ints, Ints]
"""Keys, their hashes, values, the bits of values; how many rows each stands for, none: one."""


@entry
def advance(state: State, rows: Rows, steps: Steps, target: Out, step: int) -> int:
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
    keys, hashed, values, bits, counts = rows
    counted = len(counts) > 0
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
        entries.sums[at * width + ROWS] += counts[position] if counted else 1
        if kind == EXTREMES:
            entries.value[at] = max(entries.value[at], value * sign)
        elif kind != COUNTS:
            _add(entries.sums, at * width, width, lowest, bits[position], counted)
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
def _add(sums: Ints, at: int, width: int, lowest: int, bits: int, often: bool) -> None:
    if is_infinite(bits):
        sums[at + INFINITE] += _NEGATIVE if bits < 0 else 1
        return
    if width > LIMBS:
        add(sums, at + LIMBS, lowest, bits)
        if often or sums[at] & OFTEN == 0:  # rows that stand for many say little of additions
            carry(sums, at + LIMBS, width - LIMBS)


@lean
def _read_ahead(state: State, slots: Ints, low: int, high: int, mask: int) -> None:
    """Read the rows of the slots that come next, so that memory delivers them side by side."""
    cells, stride = state.slots.cells, state.slots.numbers[STRIDE]
    entries, extreme = state.entries, state.numbers[KIND] == EXTREMES
    last = entries.mask[0]
    found = 0
    for i in range(low, min(low + _AHEAD + 1, high)):
        row = slots[i & mask] * stride
        found ^= cells[row] ^ cells[row + stride - 1]
        if extreme:
            largest, tail = cells[row + LARGEST] & last, cells[row + TAIL] & last
            found ^= entries.newer[largest] ^ entries.older[tail]
            if entries.value[largest] < entries.value[tail]:
                found ^= 1
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
def total_of(state: State, slot: int) -> float:
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
