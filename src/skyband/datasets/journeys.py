"""Journeys: objects that stop at some places, one after the other, many of them at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.datasets.blocks import BLOCK
from skyband.order import Floats, Ints


class Stops(NamedTuple):
    """A block of stops in order of time: the journey of each, and its place among the drawn stops.

    ``journey`` numbers journeys from 0; one that passes the end of the block continues at its
    beginning as a new one, with another number. Drawn stops, which ``drawn`` indexes, are sorted by
    journey, and then by time.
    """

    journey: Ints
    drawn: Ints


def begun(stops: Ints) -> Ints:
    """Return the journey of each stop of a block, given the number of stops of each journey.

    ``stops`` must be enough for a block; the last journey may be cut short.
    """
    return np.repeat(np.arange(len(stops), dtype=np.int64), stops)[:BLOCK]


def running(journey: Ints, gaps: Floats) -> Floats:
    """Sum the gaps from the beginning of each journey up to each stop, without its first gap."""
    first = np.flatnonzero(np.diff(journey, prepend=-1))
    since = np.cumsum(gaps)
    sums: Floats = since - np.repeat(since[first], np.diff(first, append=len(journey)))
    return sums


def in_time(journey: Ints, start: Floats, since: Floats, length: float) -> Stops:
    """Sort stops by time: each is ``since`` seconds after the ``start`` of its journey.

    A block lasts ``length`` seconds; stops after its end are moved to its beginning.
    """
    moment = start[journey] + since
    order = np.argsort(moment % length, kind="stable")
    rounds = (moment // length).astype(np.int64)
    other = rounds * len(start) + journey
    return Stops(other[order], order.astype(np.int64, copy=False))
