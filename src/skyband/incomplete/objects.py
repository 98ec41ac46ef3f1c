"""A store of objects whose attributes arrive row by row: rows in sequence, linked per object.

Rows stand oldest first, from ``first`` to before ``end``; each is linked to the next row of its
object. A hash table finds objects by id. Nothing is removed one by one: rows that expire move
``first``, and :func:`tidy` closes the gaps, drops objects without rows and fills the table anew.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.engine.rows import Rows
from skyband.incomplete.combine import ADD, MAX, Rule, join, score_at
from skyband.kernels.jit import entry, lean
from skyband.kernels.records import Record, fields, record
from skyband.order import Floats, Ints

NONE = -1

STORE = fields("k", "span", "first", "end", "objects", "broken", "floor_seq", real=("floor_score",))
"""The numbers of a store.

``k``, ``span``  of the query: answers, and slides in a window
``first, end``   where the rows stand
``objects``      how many there are, some perhaps without rows
``broken``       rows beyond the number that the query promises
``floor_*``      the best rank outside the top view, see :mod:`skyband.incomplete.top_view`
"""


class Batch(NamedTuple):
    """Rows that arrive; a value of NaN is no value."""

    value: Floats
    stream: Ints
    id: Ints


def batch_of(rows: Rows) -> Batch:
    """The rows of a push, as kernels take them."""
    assert rows.id is not None, "rows of incomplete streams name objects"
    return Batch(rows.score, rows.columns[0], rows.id)


class StoredRows(NamedTuple):
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
    listed: Ints  # whether it is in the top view
    score: Floats
    seen: Ints  # object * streams + stream: rows so far, while it lives
    value: Floats  # object * streams + stream: its rows joined; NaN if there are none


class Store(NamedTuple):
    """Rows, objects, the table that finds them, and room to work in."""

    rows: StoredRows
    objects: Objects
    table: Ints  # object + 1, or 0
    rule: Rule
    values: Floats  # scratch: an attribute per stream
    moved: Ints  # scratch: where objects go
    now: Record  # of STORE


def empty_store(rule: Rule, k: int, span: int, room: int) -> Store:
    """A store of a query, with room for so many rows."""
    width = len(rule.weight)
    ints = [np.zeros(room, np.int64) for _ in range(10)]
    return Store(
        StoredRows._make([*ints[:5], np.zeros(room)]),
        Objects._make(
            [*ints[5:9], np.zeros(room), np.zeros(room * width, np.int64), np.zeros(room * width)]
        ),
        np.zeros(_slots(room), np.int64),
        rule,
        np.zeros(width),
        ints[9],
        record(STORE, k=k, span=span, floor_seq=NONE, floor_score=-np.inf),
    )


def _slots(room: int) -> int:
    return 1 << (2 * room - 1).bit_length()


def enlarged(store: Store, room: int) -> Store:
    """The same store with room for so many rows; its table must be filled by :func:`tidy`."""
    larger = empty_store(store.rule, 0, 0, room)

    def copied(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        new[: len(old)] = old
        return new

    rows = StoredRows._make(map(copied, store.rows, larger.rows))
    objects = Objects._make(map(copied, store.objects, larger.objects))
    return larger._replace(rows=rows, objects=objects, now=store.now)


@lean
def _home(object_id: int, slots: int) -> int:
    """Where the search for an id begins; products stay below 2**63."""
    mixed = (object_id & 0xFFFFFFFF) * 0x2545F491
    mixed ^= ((object_id >> 32) & 0xFFFFFFFF) * 0x1F4914F7
    return (mixed ^ (mixed >> 29)) & (slots - 1)


@lean
def find(store: Store, object_id: int) -> int:
    """Find the object with this id, or make it. O(1) expected."""
    table, objects, now = store.table, store.objects, store.now[0]
    slot = _home(object_id, len(table))
    while table[slot] != 0:
        if objects.id[table[slot] - 1] == object_id:
            return table[slot] - 1
        slot = (slot + 1) & (len(table) - 1)
    new = now.objects
    now.objects = new + 1
    table[slot] = new + 1
    objects.id[new] = object_id
    objects.listed[new] = 0
    _forget_rows(store, new)
    return new


@lean
def _forget_rows(store: Store, obj: int) -> None:
    """Make an object one without rows, of which none were seen."""
    objects, width = store.objects, store.rule.form[0].streams
    objects.oldest[obj] = NONE
    objects.newest[obj] = NONE
    objects.score[obj] = -np.inf
    for at in range(obj * width, obj * width + width):
        objects.seen[at] = 0
        objects.value[at] = np.nan


@lean
def append(store: Store, obj: int, stream: int, value: float, seq: int, until: int) -> None:
    """Add a row, newer than all others, to an object. O(streams)."""
    rows, objects, rule, now = store.rows, store.objects, store.rule, store.now[0]
    form = rule.form[0]
    new = now.end
    now.end = new + 1
    rows.seq[new] = seq
    rows.until[new] = until
    rows.stream[new] = stream
    rows.value[new] = value
    rows.owner[new] = obj
    rows.after[new] = NONE
    if objects.newest[obj] == NONE:
        objects.oldest[obj] = new
    else:
        rows.after[objects.newest[obj]] = new
    objects.newest[obj] = new
    base = obj * form.streams
    objects.seen[base + stream] += 1
    if objects.seen[base + stream] > form.most and form.repeats != MAX:
        now.broken += 1
    objects.value[base + stream] = join(rule, objects.value[base + stream], value)
    objects.score[obj] = score_at(rule, objects.value, base)


@lean
def drop_oldest(store: Store) -> int:
    """Remove the oldest row, which has expired; returns its object.

    O(streams), and O(rows of the object) if the row counted.
    """
    rows, objects, form, now = store.rows, store.objects, store.rule.form[0], store.now[0]
    row = now.first
    now.first = row + 1
    obj = rows.owner[row]
    objects.oldest[obj] = rows.after[row]
    if objects.oldest[obj] == NONE:
        _forget_rows(store, obj)
        return obj
    joined = objects.value[obj * form.streams + rows.stream[row]]
    if form.repeats == ADD or not rows.value[row] < joined:
        rescore(store, obj)
    return obj


@lean
def rescore(store: Store, obj: int) -> None:
    """Compute the score of an object from its rows, oldest first. O(rows of the object)."""
    rows, rule, values = store.rows, store.rule, store.objects.value
    width = rule.form[0].streams
    base = obj * width
    for at in range(base, base + width):
        values[at] = np.nan
    row = store.objects.oldest[obj]
    while row != NONE:
        at = base + rows.stream[row]
        values[at] = join(rule, values[at], rows.value[row])
        row = rows.after[row]
    store.objects.score[obj] = score_at(rule, values, base)


@lean
def newest_seq(store: Store, obj: int) -> int:
    """The number of the object's newest row."""
    return store.rows.seq[store.objects.newest[obj]]


@lean
def streams_seen(store: Store, obj: int) -> int:
    """The streams in which an object came, as bits."""
    width, streams = store.rule.form[0].streams, 0
    for stream in range(width):
        if store.objects.seen[obj * width + stream] > 0:
            streams |= 1 << stream
    return streams


@entry
def tidy(store: Store) -> None:
    """Drop marked rows and objects without rows. O(rows + objects + table).

    Objects move: ``moved`` says where to, or ``NONE``. Scores of objects that lose rows are left
    as they were.
    """
    rows, objects, moved, now = store.rows, store.objects, store.moved, store.now[0]
    for obj in range(now.objects):
        moved[obj] = NONE
    for row in range(now.first, now.end):
        if rows.owner[row] != NONE:
            moved[rows.owner[row]] = 0
    _move_objects(store)
    to = 0
    for row in range(now.first, now.end):
        if rows.owner[row] == NONE:
            continue
        obj = moved[rows.owner[row]]
        rows.seq[to] = rows.seq[row]
        rows.until[to] = rows.until[row]
        rows.stream[to] = rows.stream[row]
        rows.value[to] = rows.value[row]
        rows.owner[to] = obj
        rows.after[to] = NONE
        if objects.newest[obj] == NONE:
            objects.oldest[obj] = to
        else:
            rows.after[objects.newest[obj]] = to
        objects.newest[obj] = to
        to += 1
    now.first = 0
    now.end = to
    _fill_table(store)


@lean
def _move_objects(store: Store) -> None:
    """Close the gaps that objects without rows leave."""
    objects, moved, now = store.objects, store.moved, store.now[0]
    width = store.rule.form[0].streams
    to = 0
    for obj in range(now.objects):
        if moved[obj] == NONE:
            continue
        moved[obj] = to
        objects.id[to] = objects.id[obj]
        objects.listed[to] = objects.listed[obj]
        objects.score[to] = objects.score[obj]
        for at in range(width):
            objects.seen[to * width + at] = objects.seen[obj * width + at]
            objects.value[to * width + at] = objects.value[obj * width + at]
        objects.oldest[to] = NONE
        objects.newest[to] = NONE
        to += 1
    now.objects = to


@lean
def _fill_table(store: Store) -> None:
    table = store.table
    for slot in range(len(table)):
        table[slot] = 0
    for obj in range(store.now[0].objects):
        slot = _home(store.objects.id[obj], len(table))
        while table[slot] != 0:
            slot = (slot + 1) & (len(table) - 1)
        table[slot] = obj + 1


@entry
def scores_are_current(store: Store) -> bool:
    """Whether the scores of objects are those that their rows make: for invariant checks."""
    objects = store.objects
    for obj in range(store.now[0].objects):
        before = objects.score[obj]
        if objects.newest[obj] != NONE:
            rescore(store, obj)
        if before != objects.score[obj]:
            return False
    return True
