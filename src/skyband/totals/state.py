"""What pane totals keep: an entry for each key of each pane, and the totals of the window."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.work import counters
from skyband.order import Floats, Ints
from skyband.totals.keys import Keys, keys_in
from skyband.totals.standings import Standings, standings

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


class Entries(NamedTuple):
    """What each key adds up to in each pane, oldest pane first; entry e stands at e & mask.

    ``sums``    WIDTH numbers each, see :data:`ROWS`
    ``value``   largest value (extremes only, as are the next two)
    ``newer``   the key's next entry that is smaller, -1: none
    ``older``   the key's last entry before that is larger; it may have expired
    """

    slot: Ints
    born: Ints  # sequence number of the first row
    sums: Ints
    value: Floats
    newer: Ints
    older: Ints
    mask: Ints


class Totals(NamedTuple):
    """What each key adds up to in the window, by slot.

    ``largest``, ``tail``  first and last of the key's entries of falling values (extremes only)
    """

    sums: Ints
    latest: Ints  # the key's newest entry
    seen: Ints  # sequence number of the key's newest row
    largest: Ints
    tail: Ints
    changed: Ints  # 1 if the slot is in touched
    touched: Ints


class State(NamedTuple):
    """All of it."""

    keys: Keys
    entries: Entries
    totals: Totals
    standings: Standings
    scratch: Ints
    work: Ints
    numbers: Ints


def new_state(k: int, kind: int, sign: int) -> State:
    """Nothing has arrived."""
    numbers = np.zeros(_NUMBERS, np.int64)
    numbers[[K, KIND, SIGN, PANE]] = k, kind, sign, -(1 << 62)
    numbers[WIDTH] = LIMBS if kind in (SUMS, MEANS) else 1
    room, width, extreme = 64, int(numbers[WIDTH]), kind == EXTREMES
    return State(
        keys_in(room, np.empty(0, np.int64)),
        _entries(room, width, extreme),
        _totals(room, width, extreme),
        standings(room),
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


def _totals(room: int, width: int, extreme: bool) -> Totals:
    linked = room if extreme else 1
    return Totals(
        np.zeros(room * width, np.int64),
        np.full(room, -1, np.int64),
        np.zeros(room, np.int64),
        np.full(linked, -1, np.int64),
        np.full(linked, -1, np.int64),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
    )


def with_more_entries(state: State) -> State:
    """Room for twice as many entries."""
    numbers, old = state.numbers, state.entries
    oldest, following = int(numbers[OLDEST]), int(numbers[NEXT])
    room = 2 * (int(old.mask[0]) + 1)
    width, extreme = int(numbers[WIDTH]), int(numbers[KIND]) == EXTREMES
    new = _entries(room, width, extreme)
    alive = np.arange(oldest, following, dtype=np.int64)
    source, target = alive & old.mask[0], alive & new.mask[0]
    new.slot[target], new.born[target] = old.slot[source], old.born[source]
    new.sums.reshape(-1, width)[target] = old.sums.reshape(-1, width)[source]
    if extreme:
        new.value[target] = old.value[source]
        new.newer[target], new.older[target] = old.newer[source], old.older[source]
    return state._replace(entries=new)


def with_fresh_slots(state: State) -> State:
    """Slots for new keys: those of keys without rows are taken back, or there are twice as many."""
    numbers, old, entries = state.numbers, state.totals, state.entries
    width, extreme = int(numbers[WIDTH]), int(numbers[KIND]) == EXTREMES
    used = int(state.keys.size[0])
    alive = np.arange(numbers[OLDEST], numbers[NEXT], dtype=np.int64) & entries.mask[0]
    busy = (state.standings.place[:used] >= 0) | (old.changed[:used] == 1)
    busy[entries.slot[alive]] = True
    slots = np.flatnonzero(busy)
    room = len(state.keys.key)
    if 2 * len(slots) > room:
        room *= 2
    moved = np.full(used, -1, np.int64)
    moved[slots] = np.arange(len(slots))
    entries.slot[alive] = moved[entries.slot[alive]]
    held = len(slots)
    new = _totals(room, width, extreme)
    new.sums.reshape(-1, width)[:held] = old.sums.reshape(-1, width)[slots]
    new.latest[:held], new.seen[:held] = old.latest[slots], old.seen[slots]
    new.changed[:held] = old.changed[slots]
    if extreme:
        new.largest[:held], new.tail[:held] = old.largest[slots], old.tail[slots]
    touched = int(numbers[TOUCHED])
    new.touched[:touched] = moved[old.touched[:touched]]
    before, after = state.standings, standings(room)
    after.score[:held], after.seq[:held] = before.score[slots], before.seq[slots]
    after.place[:held] = before.place[slots]
    ranked = int(before.size[0])
    after.heap[:ranked] = moved[before.heap[:ranked]]
    after.size[0] = ranked
    keys = keys_in(room, state.keys.key[slots])
    return state._replace(keys=keys, totals=new, standings=after)


def with_limbs(state: State, lowest: int, beyond: int) -> State:
    """Sums with at least the limbs from ``lowest`` up to ``beyond``."""
    numbers = state.numbers
    width, first = int(numbers[WIDTH]), int(numbers[LOWEST])
    if width > LIMBS:
        lowest, beyond = min(lowest, first), max(beyond, first + width - LIMBS)
    if beyond - lowest == width - LIMBS:
        return state
    wider = LIMBS + beyond - lowest
    shift = LIMBS + first - lowest

    def spread(sums: Ints) -> Ints:
        old = sums.reshape(-1, width)
        new = np.zeros((len(old), wider), np.int64)
        new[:, :LIMBS] = old[:, :LIMBS]
        if width > LIMBS:
            new[:, shift : shift + width - LIMBS] = old[:, LIMBS:]
        return new.reshape(-1)

    numbers[WIDTH], numbers[LOWEST] = wider, lowest
    return state._replace(
        entries=state.entries._replace(sums=spread(state.entries.sums)),
        totals=state.totals._replace(sums=spread(state.totals.sums)),
        scratch=np.zeros(wider + 2, np.int64),
    )
