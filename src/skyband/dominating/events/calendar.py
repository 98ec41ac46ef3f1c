"""A calendar queue: what is due at which tick of a clock, in constant time.

A priority queue over whole numbers that lie ahead by less than a horizon: one list per tick, the
lists in a circle. What lies beyond the horizon is noted at its edge, and looked at again then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.dominating.point_window import NONE
from skyband.kernels.jit import lean
from skyband.order import Ints


class Calendar(NamedTuple):
    """Slots by the tick at which they are due, as linked lists."""

    first: Ints  # by tick & (ticks - 1): first slot
    after: Ints  # by slot
    before: Ints  # by slot
    due: Ints  # by slot: tick, or NONE if nothing is noted


def calendar(slots: int) -> Calendar:
    """An empty calendar for ``slots`` slots, a power of two, that reaches twice as far."""
    return Calendar(
        np.full(2 * slots, NONE, np.int64),
        np.full(slots, NONE, np.int64),
        np.full(slots, NONE, np.int64),
        np.full(slots, NONE, np.int64),
    )


@lean
def note(dates: Calendar, slot: int, tick: int, now: int) -> None:
    """Note a slot for a tick after ``now``. O(1)."""
    tick = min(tick, now + len(dates.first) - 1)
    bucket = tick & (len(dates.first) - 1)
    first = dates.first[bucket]
    dates.due[slot] = tick
    dates.before[slot] = NONE
    dates.after[slot] = first
    if first != NONE:
        dates.before[first] = slot
    dates.first[bucket] = slot


@lean
def strike(dates: Calendar, slot: int) -> None:
    """Take a slot out of the calendar, if it is noted. O(1)."""
    tick = dates.due[slot]
    if tick == NONE:
        return
    after, before = dates.after[slot], dates.before[slot]
    if before == NONE:
        dates.first[tick & (len(dates.first) - 1)] = after
    else:
        dates.after[before] = after
    if after != NONE:
        dates.before[after] = before
    dates.due[slot] = NONE


@lean
def take_due(dates: Calendar, tick: int) -> int:
    """Take a slot that is due at a tick out of the calendar; NONE if there is no more. O(1)."""
    slot = dates.first[tick & (len(dates.first) - 1)]
    if slot != NONE:
        strike(dates, slot)
    return slot
