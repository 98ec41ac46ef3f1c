"""Journeys: objects that pass some places, one after the other, among many others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.datasets.blocks import BLOCK
from skyband.order import Floats, Ints


class Stops(NamedTuple):
    """A block of stops in order of time: whose they are, and which of the journey's.

    ``journey`` numbers journeys from 0; one that passes the end of the block goes on at its
    beginning as another one, with a number of its own. ``drawn`` is the place of a stop in what
    was drawn: by journey, and then by time.
    """

    journey: Ints
    drawn: Ints


def begun(stops: Ints) -> Ints:
    """As many journeys as fill a block: the one of each stop, given how many stops each has.

    ``stops`` must be enough for a block; the last journey may be cut short.
    """
    return np.repeat(np.arange(len(stops), dtype=np.int64), stops)[:BLOCK]


def running(journey: Ints, gaps: Floats) -> Floats:
    """Sums of the gaps from the beginning of each journey up to each stop, the first left out."""
    first = np.flatnonzero(np.diff(journey, prepend=-1))
    since = np.cumsum(gaps)
    found: Floats = since - np.repeat(since[first], np.diff(first, append=len(journey)))
    return found


def in_time(journey: Ints, start: Floats, since: Floats, length: float) -> Stops:
    """Put stops in order: ``since`` seconds after the ``start`` of their journey.

    So many seconds, ``length``, a block lasts. Who is there at its beginning came before it.
    """
    moment = start[journey] + since
    order = np.argsort(moment % length, kind="stable")
    rounds = (moment // length).astype(np.int64)
    other = rounds * len(start) + journey
    return Stops(other[order], order.astype(np.int64, copy=False))
