"""The state of pane totals: the open pane, an entry for each key of each pane, and the totals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.records import Record, fields, record
from skyband.kernels.work import counters
from skyband.order import Floats, Ints
from skyband.totals.exact import NO_PLACES, SPARE, WHOLE_LAYOUT, layout, relaid
from skyband.totals.key_ranking import (
    LOWEST,
    OUT,
    ROW_NUMBER,
    KeyRanking,
    key_ranking,
    moved_ranking,
)
from skyband.totals.slots import Slots, slots_with

COUNTS, SUMS, MEANS, EXTREMES, FIRSTS, LASTS = 0, 1, 2, 3, 4, 5
"""Aggregates; EXTREMES are maxima, of values times ``sign``. From EXTREMES on, a total is one of
the values: that of the first of the key's linked entries."""

ENOUGH, SLOTS, ENTRIES, LIMBS = 0, 1, 2, 3
"""What there is no room for."""

SEEN, PANE_SUM = 0, 1
"""The row of a slot in the open pane: sequence number of its newest row, -1 if it has none; what
its rows in the pane add up to."""

CHANGED, LATEST, TOTAL = 0, 1, 2
"""The row of a slot in the totals: 1 if its total has changed since it was ranked; its newest
entry, -1 if it has none; its total."""

ROWS, INFINITE, LIMB = 0, 1, 2
"""What a sum consists of: rows; infinities (+1 each, negative ones +2**32); limbs. Only rows if
rows are counted, or one of the values is looked for."""

LARGEST, TAIL = TOTAL + 1, TOTAL + 2
"""Where a row of the totals has the first and the last of the key's linked entries: of extremes
those of falling values, of first values all, of last values the newest one alone."""

NOW = fields(
    "k",
    "aggregate",
    "sign",
    "origin",  # layout of sums
    "limbs",
    "lowest",  # places of all values so far
    "highest",
    "whole",  # whether values are codes of whole numbers
    "unit",  # how many units of values a mean is told in
    "position",  # row of the batch at which to go on
    "lacking",  # what room ran out for
    "used",  # slots
    "pane",  # number of the open pane
    "pane_from",  # sequence number of its first row
    "opened",  # slots that have rows in it
    "oldest",  # entries alive: from the oldest up to the next
    "next",
    "changed",  # slots whose totals have changed since they were ranked
    "ranked",  # slots that have a total
    "above",  # slots at or above the threshold
    "threshold_seq",
    "turn",  # -1 if of equal totals the oldest rank first, else 1
    "rank_by",  # how ranks count
    "written",  # keys of the last window, if they share ranks
    "unwritten",  # rows of an answer that room may have run out for
    real=("threshold",),
)
"""The single numbers."""


class OpenPane(NamedTuple):
    """What rows add up to in the open pane.

    ``sums``   a row for each slot, see :data:`SEEN`; zero for slots without rows in the pane
    ``value``  largest, first or last value of each slot (if it is the total)
    ``slot``   slots that have rows in the pane, in order of their first
    ``time``   time of the row that ``value`` is of (first and last only)
    """

    sums: Ints
    value: Floats
    slot: Ints
    time: Ints


class Entries(NamedTuple):
    """What each key adds up to in each closed pane, oldest pane first; e stands at e & mask.

    ``slot``   whose it is
    ``first``  sequence number of the first row of its pane
    ``sums``   a sum each, see :data:`ROWS`
    ``value``  largest, first or last value (if it is the total; so are the next two)
    ``newer``  the key's next linked entry, -1: none
    ``older``  the key's linked entry before; it may have expired
    """

    slot: Ints
    first: Ints
    sums: Ints
    value: Floats
    newer: Ints
    older: Ints


class State(NamedTuple):
    """All of it.

    ``totals``   a row for each slot, see :data:`CHANGED`
    ``changed``  slots whose totals have changed
    """

    slots: Slots
    pane: OpenPane
    entries: Entries
    totals: Ints
    changed: Ints
    ranking: KeyRanking
    scratch: Ints
    work: Ints
    now: Record


def new_scratch(limbs: int) -> Ints:
    """Room to round a sum of so many limbs, and to divide it."""
    return np.zeros(limbs + SPARE, np.int64)


def sum_width(aggregate: int, limbs: int) -> int:
    """Numbers in a sum."""
    return LIMB + limbs if aggregate in (SUMS, MEANS) else 1


def total_width(aggregate: int, limbs: int) -> int:
    """Numbers in a row of the totals."""
    return TAIL + 1 if aggregate >= EXTREMES else TOTAL + sum_width(aggregate, limbs)


def new_state(
    k: int,
    aggregate: int,
    sign: int,
    whole: bool = False,
    unit: int = 1,
    oldest_first: bool = False,
    rank_by: int = ROW_NUMBER,
) -> State:
    """The state before the first row."""
    origin, limbs = WHOLE_LAYOUT if whole else layout(*NO_PLACES)
    now = record(
        NOW,
        k=k,
        aggregate=aggregate,
        sign=sign,
        origin=origin,
        limbs=limbs,
        lowest=NO_PLACES[0],
        highest=NO_PLACES[1],
        whole=whole,
        unit=unit,
        pane=-(1 << 62),
        threshold=-np.inf,
        threshold_seq=LOWEST,
        turn=-1 if oldest_first else 1,
        rank_by=rank_by,
    )
    room = 64
    width = sum_width(aggregate, limbs)
    return State(
        slots_with(room, np.empty(0, np.int64)),
        _open_pane(room, width, aggregate),
        _entries(room, width, aggregate),
        _totals(room, total_width(aggregate, limbs)),
        np.zeros(room + 1, np.int64),
        key_ranking(room),
        new_scratch(limbs),
        counters(),
        now,
    )


def _open_pane(room: int, width: int, aggregate: int) -> OpenPane:
    """Without rows; the list of slots has room for one that does not count."""
    sums = np.zeros((room, PANE_SUM + width), np.int64)
    sums[:, SEEN] = -1
    value = np.full(room if aggregate >= EXTREMES else 1, -np.inf)
    time = np.zeros(room if aggregate >= FIRSTS else 1, np.int64)
    return OpenPane(sums.reshape(-1), value, np.zeros(room + 1, np.int64), time)


def _totals(room: int, width: int) -> Ints:
    totals = np.zeros((room, width), np.int64)
    totals[:, LATEST] = -1
    return totals.reshape(-1)


def _entries(room: int, width: int, aggregate: int) -> Entries:
    linked = room if aggregate >= EXTREMES else 1
    return Entries(
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.zeros(room * width, np.int64),
        np.zeros(linked),
        np.zeros(linked, np.int64),
        np.zeros(linked, np.int64),
    )


def alive_entries(state: State) -> Ints:
    """Where the entries of the window stand, oldest first."""
    now = state.now[0]
    numbers: Ints = np.arange(now.oldest, now.next, dtype=np.int64)
    return numbers & (len(state.entries.slot) - 1)


def with_more_entries(state: State) -> State:
    """Room for twice as many entries."""
    now, old = state.now[0], state.entries
    room = 2 * len(old.slot)
    aggregate = int(now.aggregate)
    width = sum_width(aggregate, int(now.limbs))
    new = _entries(room, width, aggregate)
    source = alive_entries(state)
    target = np.arange(now.oldest, now.next, dtype=np.int64) & (room - 1)
    new.slot[target], new.first[target] = old.slot[source], old.first[source]
    new.sums.reshape(-1, width)[target] = old.sums.reshape(-1, width)[source]
    if aggregate >= EXTREMES:
        new.value[target] = old.value[source]
        new.newer[target], new.older[target] = old.newer[source], old.older[source]
    return state._replace(entries=new)


def with_joined_entries(state: State) -> State:
    """One entry for each key, where all entries expire together: what the key adds up to."""
    now, old = state.now[0], state.entries
    aggregate, limbs = int(now.aggregate), int(now.limbs)
    width, row_width = sum_width(aggregate, limbs), total_width(aggregate, limbs)
    alive = alive_entries(state)
    if not len(alive):
        return state
    slots = np.unique(old.slot[alive])
    rows = state.totals.reshape(-1, row_width)
    room = len(old.slot)
    new = _entries(room, width, aggregate)
    numbers = np.arange(now.next - len(slots), now.next, dtype=np.int64)
    at = numbers & (room - 1)
    new.slot[at], new.first[at] = slots, old.first[alive[0]]
    new.sums.reshape(-1, width)[at] = rows[slots, TOTAL : TOTAL + width]
    if aggregate >= EXTREMES:
        new.value[at] = old.value[rows[slots, LARGEST] & (room - 1)]
        new.newer[at] = new.older[at] = -1
        rows[slots, LARGEST] = rows[slots, TAIL] = numbers
    rows[slots, LATEST] = numbers
    now.oldest = int(numbers[0])
    return state._replace(entries=new)


def with_fresh_slots(state: State) -> State:
    """Slots for new keys: take back those of keys without rows, or double the room."""
    now, entries, pane = state.now[0], state.entries, state.pane
    used, opened, changed = int(now.used), int(now.opened), int(now.changed)
    aggregate = int(now.aggregate)
    width, row_width = sum_width(aggregate, int(now.limbs)), total_width(aggregate, int(now.limbs))
    alive = alive_entries(state)
    rows = state.totals.reshape(-1, row_width)
    busy = (state.ranking.place[:used] != OUT) | (rows[:used, CHANGED] == 1)
    busy[entries.slot[alive]] = True
    busy[pane.slot[:opened]] = True
    kept = np.flatnonzero(busy)
    room = len(state.slots.key)
    if 2 * len(kept) > room:
        room *= 2
    moved = np.full(used, -1, np.int64)
    moved[kept] = np.arange(len(kept))
    entries.slot[alive] = moved[entries.slot[alive]]
    new_pane = _open_pane(room, width, aggregate)
    new_pane.sums.reshape(room, -1)[: len(kept)] = pane.sums.reshape(-1, PANE_SUM + width)[kept]
    if aggregate >= EXTREMES:
        new_pane.value[: len(kept)] = pane.value[kept]
    if aggregate >= FIRSTS:
        new_pane.time[: len(kept)] = pane.time[kept]
    new_pane.slot[:opened] = moved[pane.slot[:opened]]
    totals = _totals(room, row_width)
    totals.reshape(room, -1)[: len(kept)] = rows[kept]
    new_changed = np.zeros(room + 1, np.int64)
    new_changed[:changed] = moved[state.changed[:changed]]
    now.used = len(kept)
    return state._replace(
        slots=slots_with(room, state.slots.key[kept]),
        pane=new_pane,
        totals=totals,
        changed=new_changed,
        ranking=moved_ranking(state.ranking, int(now.above), kept, moved, room),
    )


def with_limbs(state: State) -> State:
    """Sums with room for all values so far, between the places ``lowest`` and ``highest``."""
    now = state.now[0]
    old_limbs, old_origin = int(now.limbs), int(now.origin)
    origin, limbs = layout(int(now.lowest), int(now.highest))

    def moved(rows: Ints, ahead: int) -> Ints:
        """Rows of numbers, of which the limbs come last, after ``ahead`` others."""
        old = rows.reshape(-1, ahead + old_limbs)
        sums = relaid(old[:, ahead:], old_origin - origin, limbs)
        return np.concatenate([old[:, :ahead], sums], axis=1).reshape(-1)

    now.origin, now.limbs = origin, limbs
    return state._replace(
        pane=state.pane._replace(sums=moved(state.pane.sums, PANE_SUM + LIMB)),
        entries=state.entries._replace(sums=moved(state.entries.sums, LIMB)),
        totals=moved(state.totals, TOTAL + LIMB),
        scratch=new_scratch(limbs),
    )
