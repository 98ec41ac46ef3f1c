"""What pane totals keep: an entry for each key of each pane, and the totals of the window."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.work import counters
from skyband.order import Floats, Ints
from skyband.totals.key_ranking import OUT, Standings, moved_standings, standings
from skyband.totals.slots import CHANGED, STRIDE, TOTAL, USED, Slots, slots_with

COUNTS, SUMS, MEANS, EXTREMES = 0, 1, 2, 3
"""Kinds of totals; EXTREMES are maxima, of values times ``SIGN``."""

K, KIND, SIGN = 0, 1, 2
WIDTH, LOWEST = 3, 4  # numbers in a sum, and its lowest limb
OLDEST, NEXT = 5, 6  # entries alive: from the oldest up to the next
PANE, PANE_FROM = 7, 8  # number of the open pane, and its first entry
POSITION = 9  # row of the batch at which to go on
TOUCHED = 10  # slots whose totals have changed since they were ranked
_NUMBERS = 11

ROWS, INFINITE, LIMBS = 0, 1, 2
"""What stands where in a sum: rows; infinities (+1 each, negative ones +2**32); limbs."""

LARGEST, TAIL = TOTAL + 1, TOTAL + 2
"""Where the row of a key has the first and the last of its entries of falling values (extremes)."""


class Entries(NamedTuple):
    """What each key adds up to in each pane, oldest pane first; entry e stands at e & mask.

    ``slot``   whose it is
    ``born``   sequence number of its first row
    ``sums``   WIDTH numbers each, see :data:`ROWS`
    ``value``  largest value (extremes only, as are the next two)
    ``newer``  the key's next entry that is smaller, -1: none
    ``older``  the key's last entry before that is larger; it may have expired
    ``mask``   one element: entries that there is room for, less one
    """

    slot: Ints
    born: Ints
    sums: Ints
    value: Floats
    newer: Ints
    older: Ints
    mask: Ints


class State(NamedTuple):
    """All of it; ``touched`` lists the slots whose totals have changed."""

    slots: Slots
    entries: Entries
    standings: Standings
    touched: Ints
    scratch: Ints
    work: Ints
    numbers: Ints


def new_state(k: int, kind: int, sign: int) -> State:
    """Nothing has arrived."""
    numbers = np.zeros(_NUMBERS, np.int64)
    numbers[[K, KIND, SIGN, PANE]] = k, kind, sign, -(1 << 62)
    numbers[WIDTH] = LIMBS if kind in (SUMS, MEANS) else 1
    room, width, extreme = 64, int(numbers[WIDTH]), kind == EXTREMES
    stride = TAIL + 1 if extreme else TOTAL + width
    return State(
        slots_with(room, np.empty((0, stride), np.int64)),
        _entries(room, width, extreme),
        standings(room),
        np.zeros(room, np.int64),
        np.zeros(width + 2, np.int64),
        counters(),
        numbers,
    )


def _entries(room: int, width: int, extreme: bool) -> Entries:
    linked = room if extreme else 1
    return Entries(
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.zeros(room * width, np.int64),
        np.zeros(linked),
        np.zeros(linked, np.int64),
        np.zeros(linked, np.int64),
        np.array([room - 1], np.int64),
    )


def with_more_entries(state: State) -> State:
    """Room for twice as many entries."""
    numbers, old = state.numbers, state.entries
    room = 2 * (int(old.mask[0]) + 1)
    width, extreme = int(numbers[WIDTH]), int(numbers[KIND]) == EXTREMES
    new = _entries(room, width, extreme)
    alive = np.arange(numbers[OLDEST], numbers[NEXT], dtype=np.int64)
    source, target = alive & old.mask[0], alive & new.mask[0]
    new.slot[target], new.born[target] = old.slot[source], old.born[source]
    new.sums.reshape(-1, width)[target] = old.sums.reshape(-1, width)[source]
    if extreme:
        new.value[target] = old.value[source]
        new.newer[target], new.older[target] = old.newer[source], old.older[source]
    return state._replace(entries=new)


def with_fresh_slots(state: State) -> State:
    """Slots for new keys: those of keys without rows are taken back, or there are twice as many."""
    numbers, entries, used = state.numbers, state.entries, int(state.slots.numbers[USED])
    alive = np.arange(numbers[OLDEST], numbers[NEXT], dtype=np.int64) & entries.mask[0]
    rows = state.slots.rows()
    busy = (state.standings.place[:used] != OUT) | (rows[:, CHANGED] == 1)
    busy[entries.slot[alive]] = True
    kept = np.flatnonzero(busy)
    room = len(state.slots.table) // 2
    if 2 * len(kept) > room:
        room *= 2
    moved = np.full(used, -1, np.int64)
    moved[kept] = np.arange(len(kept))
    entries.slot[alive] = moved[entries.slot[alive]]
    changed = int(numbers[TOUCHED])
    touched = np.zeros(room, np.int64)
    touched[:changed] = moved[state.touched[:changed]]
    return state._replace(
        slots=slots_with(room, rows[kept]),
        standings=moved_standings(state.standings, kept, moved, room),
        touched=touched,
    )


def with_limbs(state: State, lowest: int, beyond: int) -> State:
    """Sums with at least the limbs from ``lowest`` up to ``beyond``."""
    numbers = state.numbers
    width, first = int(numbers[WIDTH]), int(numbers[LOWEST])
    if width > LIMBS:
        lowest, beyond = min(lowest, first), max(beyond, first + width - LIMBS)
    wider = LIMBS + beyond - lowest
    if wider == width:
        return state
    shift = LIMBS + first - lowest

    def spread(cells: Ints, ahead: int) -> Ints:
        """Rows of ``ahead`` other numbers and a sum, with room for all limbs."""
        old = cells.reshape(-1, ahead + width)
        new = np.zeros((len(old), ahead + wider), np.int64)
        new[:, : ahead + LIMBS] = old[:, : ahead + LIMBS]
        if width > LIMBS:
            new[:, ahead + shift : ahead + shift + width - LIMBS] = old[:, ahead + LIMBS :]
        return new.reshape(-1)

    slots = state.slots
    numbers[WIDTH], numbers[LOWEST], slots.numbers[STRIDE] = wider, lowest, TOTAL + wider
    return state._replace(
        slots=slots._replace(cells=spread(slots.cells, TOTAL)),
        entries=state.entries._replace(sums=spread(state.entries.sums, 0)),
        scratch=np.zeros(wider + 2, np.int64),
    )
