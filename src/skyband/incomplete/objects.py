"""Objects whose attributes arrive row by row: rows in sequence, and a list of them per object.

Rows stand oldest first, from ``numbers[FIRST]`` to before ``numbers[LAST]``; each is linked to the
next row of its object. A hash table finds objects by id. Nothing is removed one by one: rows that
expire move ``FIRST``, and :func:`tidy` closes the gaps, drops objects without rows and fills the
table anew.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.incomplete.combine import ADD, MAX, MOST, REPEATS, WIDTH, Rule, join, score_at
from skyband.kernels.jit import entry, lean
from skyband.order import Floats, Ints

FIRST, LAST, OBJECTS, BROKEN = 0, 1, 2, 3
NONE = -1


class Batch(NamedTuple):
    """Rows that arrive; a value of NaN tells nothing."""

    value: Floats
    stream: Ints
    id: Ints


class Rows(NamedTuple):
    """Rows, oldest first; an owner of ``NONE`` marks a row that :func:`tidy` is to drop."""

    seq: Ints
    until: Ints  # the last window that holds the row
    stream: Ints
    owner: Ints
    after: Ints  # the next row of the same object
    value: Floats


class Objects(NamedTuple):
    """Objects in no order; their rows are linked from the oldest to the newest."""

    id: Ints
    oldest: Ints
    newest: Ints
    listed: Ints  # whether it is in the view of the best
    score: Floats
    seen: Ints  # object * streams + stream: rows so far, while it lives
    value: Floats  # object * streams + stream: what its rows are worth together; NaN if none


class Store(NamedTuple):
    """Rows, objects, the table that finds them, and room to work in."""

    rows: Rows
    objects: Objects
    table: Ints  # object + 1, or 0
    by: Rule
    values: Floats  # scratch: an attribute per stream
    moved: Ints  # scratch: where objects go
    numbers: Ints


def store(by: Rule, room: int) -> Store:
    """An empty store with room for so many rows."""
    width = int(by.numbers[WIDTH])
    ints = [np.zeros(room, np.int64) for _ in range(10)]
    return Store(
        Rows._make([*ints[:5], np.zeros(room)]),
        Objects._make(
            [*ints[5:9], np.zeros(room), np.zeros(room * width, np.int64), np.zeros(room * width)]
        ),
        np.zeros(_slots(room), np.int64),
        by,
        np.zeros(width),
        ints[9],
        np.zeros(4, np.int64),
    )


def _slots(room: int) -> int:
    return 1 << (2 * room - 1).bit_length()


def enlarged(held: Store, room: int) -> Store:
    """The same store with room for so many rows; its table must be filled by :func:`tidy`."""
    fresh = store(held.by, room)

    def copied(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        new[: len(old)] = old
        return new

    rows = Rows._make(map(copied, held.rows, fresh.rows))
    objects = Objects._make(map(copied, held.objects, fresh.objects))
    return fresh._replace(rows=rows, objects=objects, numbers=held.numbers)


@lean
def _home(id: int, slots: int) -> int:
    """Where the search for an id begins; products stay below 2**63."""
    mixed = (id & 0xFFFFFFFF) * 0x2545F491
    mixed ^= ((id >> 32) & 0xFFFFFFFF) * 0x1F4914F7
    return (mixed ^ (mixed >> 29)) & (slots - 1)


@lean
def find(held: Store, id: int) -> int:
    """The object with this id, made if there is none. O(1) expected."""
    table, objects = held.table, held.objects
    slot = _home(id, len(table))
    while table[slot] != 0:
        if objects.id[table[slot] - 1] == id:
            return table[slot] - 1
        slot = (slot + 1) & (len(table) - 1)
    new = held.numbers[OBJECTS]
    held.numbers[OBJECTS] = new + 1
    table[slot] = new + 1
    objects.id[new] = id
    objects.listed[new] = 0
    _forget_rows(held, new)
    return new


@lean
def _forget_rows(held: Store, one: int) -> None:
    """The object has no rows, and none were seen."""
    width = held.by.numbers[WIDTH]
    held.objects.oldest[one] = NONE
    held.objects.newest[one] = NONE
    held.objects.score[one] = -np.inf
    for at in range(one * width, one * width + width):
        held.objects.seen[at] = 0
        held.objects.value[at] = np.nan


@lean
def append(held: Store, one: int, stream: int, value: float, seq: int, until: int) -> None:
    """Add a row, newer than all others, to an object. O(streams)."""
    rows, objects, by = held.rows, held.objects, held.by
    new = held.numbers[LAST]
    held.numbers[LAST] = new + 1
    rows.seq[new] = seq
    rows.until[new] = until
    rows.stream[new] = stream
    rows.value[new] = value
    rows.owner[new] = one
    rows.after[new] = NONE
    if objects.newest[one] == NONE:
        objects.oldest[one] = new
    else:
        rows.after[objects.newest[one]] = new
    objects.newest[one] = new
    base = one * by.numbers[WIDTH]
    objects.seen[base + stream] += 1
    if objects.seen[base + stream] > by.numbers[MOST] and by.numbers[REPEATS] != MAX:
        held.numbers[BROKEN] += 1
    objects.value[base + stream] = join(by, objects.value[base + stream], value)
    objects.score[one] = score_at(by, objects.value, base)


@lean
def drop_oldest(held: Store) -> int:
    """The oldest row has expired; returns its object.

    O(streams), and O(rows of the object) if the row counted.
    """
    gone, by = held.numbers[FIRST], held.by
    held.numbers[FIRST] = gone + 1
    one = held.rows.owner[gone]
    held.objects.oldest[one] = held.rows.after[gone]
    if held.objects.oldest[one] == NONE:
        _forget_rows(held, one)
        return one
    worth = held.objects.value[one * by.numbers[WIDTH] + held.rows.stream[gone]]
    if by.numbers[REPEATS] == ADD or not held.rows.value[gone] < worth:
        rescore(held, one)
    return one


@lean
def rescore(held: Store, one: int) -> None:
    """Compute the score of an object from its rows, oldest first. O(rows of the object)."""
    rows, by, values = held.rows, held.by, held.objects.value
    base = one * by.numbers[WIDTH]
    for at in range(base, base + by.numbers[WIDTH]):
        values[at] = np.nan
    row = held.objects.oldest[one]
    while row != NONE:
        at = base + rows.stream[row]
        values[at] = join(by, values[at], rows.value[row])
        row = rows.after[row]
    held.objects.score[one] = score_at(by, values, base)


@lean
def newest_seq(held: Store, one: int) -> int:
    """The number of the object's newest row."""
    return held.rows.seq[held.objects.newest[one]]


@entry
def tidy(held: Store) -> None:
    """Drop marked rows and objects without rows. O(rows + objects + table).

    Objects move: ``moved`` says where to, or ``NONE``. Scores of objects that lose rows are left
    as they were.
    """
    rows, objects, numbers = held.rows, held.objects, held.numbers
    for one in range(numbers[OBJECTS]):
        held.moved[one] = NONE
    for row in range(numbers[FIRST], numbers[LAST]):
        if rows.owner[row] != NONE:
            held.moved[rows.owner[row]] = 0
    _move_objects(held)
    to = 0
    for row in range(numbers[FIRST], numbers[LAST]):
        if rows.owner[row] == NONE:
            continue
        one = held.moved[rows.owner[row]]
        rows.seq[to] = rows.seq[row]
        rows.until[to] = rows.until[row]
        rows.stream[to] = rows.stream[row]
        rows.value[to] = rows.value[row]
        rows.owner[to] = one
        rows.after[to] = NONE
        if objects.newest[one] == NONE:
            objects.oldest[one] = to
        else:
            rows.after[objects.newest[one]] = to
        objects.newest[one] = to
        to += 1
    numbers[FIRST] = 0
    numbers[LAST] = to
    _fill_table(held)


@lean
def _move_objects(held: Store) -> None:
    objects, width = held.objects, held.by.numbers[WIDTH]
    to = 0
    for one in range(held.numbers[OBJECTS]):
        if held.moved[one] == NONE:
            continue
        held.moved[one] = to
        objects.id[to] = objects.id[one]
        objects.listed[to] = objects.listed[one]
        objects.score[to] = objects.score[one]
        for at in range(width):
            objects.seen[to * width + at] = objects.seen[one * width + at]
            objects.value[to * width + at] = objects.value[one * width + at]
        objects.oldest[to] = NONE
        objects.newest[to] = NONE
        to += 1
    held.numbers[OBJECTS] = to


@lean
def _fill_table(held: Store) -> None:
    table = held.table
    for slot in range(len(table)):
        table[slot] = 0
    for one in range(held.numbers[OBJECTS]):
        slot = _home(held.objects.id[one], len(table))
        while table[slot] != 0:
            slot = (slot + 1) & (len(table) - 1)
        table[slot] = one + 1
