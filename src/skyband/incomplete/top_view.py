"""The top view: the best objects, somewhat more than k, so that they are seldom searched anew.

The *floor* is the best rank that an object outside the view may have; it is a part of the store's
record. A floor with the sequence number ``NONE`` says that all objects are listed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.incomplete.objects import (
    NONE,
    Batch,
    Store,
    append,
    drop_oldest,
    newest_seq,
)
from skyband.kernels.answers import Ranked, ranked
from skyband.kernels.jit import lean
from skyband.kernels.ranked import better, place_of
from skyband.order import Ints


class TopView(NamedTuple):
    """Listed objects by rank; the sequence number in ``best`` is that of an object's newest row."""

    best: Ranked
    owner: Ints


def empty_view(room: int) -> TopView:
    """A view with room for so many objects."""
    return TopView(ranked(room), np.zeros(room, np.int64))


@lean
def raise_floor(store: Store, score: float, seq: int) -> None:
    """Note that an object of this rank may be outside the view."""
    now = store.now[0]
    if better(score, seq, now.floor_score, now.floor_seq):
        now.floor_score = score
        now.floor_seq = seq


@lean
def offer(view: TopView, store: Store, obj: int) -> None:
    """List an object that is not listed, if it ranks before the floor. O(room)."""
    best, listed, now = view.best, store.objects.listed, store.now[0]
    score, seq = store.objects.score[obj], newest_seq(store, obj)
    if not better(score, seq, now.floor_score, now.floor_seq):
        return
    size = best.size[0]
    place = place_of(best, score, seq)
    if size == len(view.owner):
        if place == size:
            raise_floor(store, score, seq)
            return
        size -= 1
        raise_floor(store, best.score[size], best.seq[size])
        listed[view.owner[size]] = 0
    for at in range(size, place, -1):
        best.score[at] = best.score[at - 1]
        best.seq[at] = best.seq[at - 1]
        view.owner[at] = view.owner[at - 1]
    best.score[place] = score
    best.seq[place] = seq
    view.owner[place] = obj
    best.size[0] = size + 1
    listed[obj] = 1


@lean
def unlist(view: TopView, store: Store, obj: int) -> None:
    """Remove an object that is listed, before its score or its newest row changes. O(room)."""
    best = view.best
    place = place_of(best, store.objects.score[obj], newest_seq(store, obj))
    size = best.size[0] - 1
    for at in range(place, size):
        best.score[at] = best.score[at + 1]
        best.seq[at] = best.seq[at + 1]
        view.owner[at] = view.owner[at + 1]
    best.size[0] = size
    store.objects.listed[obj] = 0


@lean
def clear(view: TopView, store: Store) -> None:
    """Empty the view, and lower its floor."""
    now = store.now[0]
    for at in range(view.best.size[0]):
        store.objects.listed[view.owner[at]] = 0
    view.best.size[0] = 0
    now.floor_score = -np.inf
    now.floor_seq = NONE


@lean
def fill(view: TopView, store: Store) -> None:
    """List the best of all objects. O(objects), and O(room) for each that is listed."""
    clear(view, store)
    for obj in range(store.now[0].objects):
        if store.objects.newest[obj] != NONE:
            offer(view, store, obj)


@lean
def falls_short(view: TopView, store: Store) -> bool:
    """Whether fewer than ``k`` are listed although others may be outside."""
    now = store.now[0]
    return view.best.size[0] < now.k and now.floor_seq != NONE


@lean
def follow(view: TopView, store: Store) -> None:
    """Renumber the listed objects after :func:`tidy`, which kept all their rows. O(room)."""
    for at in range(view.best.size[0]):
        view.owner[at] = store.moved[view.owner[at]]


@lean
def admit(
    view: TopView, store: Store, obj: int, batch: Batch, at: int, seq: int, until: int
) -> None:
    """Add a row of a batch to its object, and bring the view up to date."""
    if store.objects.listed[obj] == 1:
        unlist(view, store, obj)
    append(store, obj, batch.stream[at], batch.value[at], seq, until)
    offer(view, store, obj)


@lean
def dismiss(view: TopView, store: Store) -> None:
    """Remove the oldest row, which has expired, and bring the view up to date."""
    obj = store.rows.owner[store.now[0].first]
    if store.objects.listed[obj] == 1:
        unlist(view, store, obj)
    drop_oldest(store)
    if store.objects.newest[obj] != NONE:
        offer(view, store, obj)
