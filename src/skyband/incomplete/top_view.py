"""The best objects, a few more than are asked for, so that they seldom have to be found anew."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.incomplete.objects import (
    FIRST,
    NONE,
    OBJECTS,
    Batch,
    Store,
    append,
    drop_oldest,
    find,
    newest_seq,
)
from skyband.kernels.jit import lean
from skyband.kernels.ranked import Ranked, better, place_of, ranked
from skyband.order import Floats, Ints


class View(NamedTuple):
    """Listed objects by rank, and the *floor*: no object outside ranks before it.

    The sequence number in ``best`` is that of the object's newest row.
    """

    best: Ranked
    owner: Ints
    floor: Floats  # its score
    floor_seq: Ints  # its sequence number; NONE says that nobody is outside


def view(room: int) -> View:
    """An empty view with room for so many objects."""
    return View(
        ranked(room), np.zeros(room, np.int64), np.array([-np.inf]), np.array([NONE], np.int64)
    )


@lean
def raise_floor(seen: View, score: float, seq: int) -> None:
    """Somebody who ranks here may be outside."""
    if better(score, seq, seen.floor[0], seen.floor_seq[0]):
        seen.floor[0] = score
        seen.floor_seq[0] = seq


@lean
def offer(seen: View, held: Store, one: int) -> None:
    """List an object that is not listed, if it ranks before the floor. O(room)."""
    best, listed = seen.best, held.objects.listed
    score, seq = held.objects.score[one], newest_seq(held, one)
    if not better(score, seq, seen.floor[0], seen.floor_seq[0]):
        return
    size = best.size[0]
    place = place_of(best, score, seq)
    if size == len(seen.owner):
        if place == size:
            raise_floor(seen, score, seq)
            return
        size -= 1
        raise_floor(seen, best.score[size], best.seq[size])
        listed[seen.owner[size]] = 0
    for at in range(size, place, -1):
        best.score[at] = best.score[at - 1]
        best.seq[at] = best.seq[at - 1]
        seen.owner[at] = seen.owner[at - 1]
    best.score[place] = score
    best.seq[place] = seq
    seen.owner[place] = one
    best.size[0] = size + 1
    listed[one] = 1


@lean
def unlist(seen: View, held: Store, one: int) -> None:
    """Remove an object that is listed, before its score or its newest row changes. O(room)."""
    best = seen.best
    place = place_of(best, held.objects.score[one], newest_seq(held, one))
    size = best.size[0] - 1
    for at in range(place, size):
        best.score[at] = best.score[at + 1]
        best.seq[at] = best.seq[at + 1]
        seen.owner[at] = seen.owner[at + 1]
    best.size[0] = size
    held.objects.listed[one] = 0


@lean
def clear(seen: View, held: Store) -> None:
    """List nobody; nobody is known to be outside."""
    for at in range(seen.best.size[0]):
        held.objects.listed[seen.owner[at]] = 0
    seen.best.size[0] = 0
    seen.floor[0] = -np.inf
    seen.floor_seq[0] = NONE


@lean
def fill(seen: View, held: Store) -> None:
    """Find the best of all objects. O(objects), and O(room) for each that is listed."""
    clear(seen, held)
    for one in range(held.numbers[OBJECTS]):
        if held.objects.newest[one] != NONE:
            offer(seen, held, one)


@lean
def falls_short(seen: View, k: int) -> bool:
    """Whether fewer than ``k`` are listed although others may be outside."""
    return seen.best.size[0] < k and seen.floor_seq[0] != NONE


@lean
def follow(seen: View, held: Store) -> None:
    """Objects, but no rows of listed ones, have been moved by :func:`tidy`. O(room)."""
    for at in range(seen.best.size[0]):
        seen.owner[at] = held.moved[seen.owner[at]]


@lean
def admit(seen: View, held: Store, batch: Batch, at: int, seq: int, until: int) -> None:
    """Add a row of a batch to the store; the view follows."""
    one = find(held, batch.id[at])
    if held.objects.listed[one] == 1:
        unlist(seen, held, one)
    append(held, one, batch.stream[at], batch.value[at], seq, until)
    offer(seen, held, one)


@lean
def dismiss(seen: View, held: Store) -> None:
    """Remove the oldest row, which has expired, from the store; the view follows."""
    one = held.rows.owner[held.numbers[FIRST]]
    if held.objects.listed[one] == 1:
        unlist(seen, held, one)
    drop_oldest(held)
    if held.objects.newest[one] != NONE:
        offer(seen, held, one)
