"""The state of event-based processing, and its clock.

The clock ticks with every arrival and every expiry. A point's distance to the k-th score shrinks by
one per tick at most: an arrival may raise the point's score, an expiry may lower the k-th. That is
the time of the paper for one arrival and one expiry per update, and holds for any number of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.dominating.bounds import Bounds
from skyband.dominating.cells import Cells
from skyband.dominating.events.calendar import Calendar
from skyband.dominating.exact_scores import Tracked
from skyband.dominating.point_window import ARRIVED, BITS, EXPIRED, SLOTS, WIDTH, Field
from skyband.kernels.jit import lean
from skyband.kernels.ranked import Ranked
from skyband.order import Ints

# what is known of a point, by slot
NOTHING, EVENT, OBSOLETE, CANDIDATE, TOP, EXCLUDED = range(6)

NUMBERS = (
    "k",
    "taken",  # whether the points of the step have been taken in
    "fresh",  # whether nothing is scheduled yet
    "size",  # rows of a count window; 0 for time windows
    "advanced",  # whether counters and candidates are kept (ADA)
    "sampling",  # points in a sample of a cell (AHBA); 0 for no samples
    "pruning",  # whether points of low cells are left alone (AMSA)
    "near",  # ticks within which an event makes a point a candidate
    "most_candidates",
    "looked",  # tick up to which events have been processed
    "examined",  # sequence number up to which arrivals have been examined
    "bounded",  # arrivals when the bounds of cells were counted
    "fined",  # the same of smaller cells (AMSA)
    "partial",  # whether exact scores are counted for partially dominated cells (ADA)
    "chance",  # state of the random numbers
    "kept",  # obsolete events kept, in thousandths
    "sample_room",
    "error",  # of means of samples, in thousandths of the range of a cell (AHBA)
    "gauged",  # arrivals when the accuracy was estimated
    "missed",  # answers that are expected to be missing, in thousandths
    "coded",  # arrivals when codes were chosen; the last
)
(
    K,
    TAKEN,
    FRESH,
    SIZE,
    ADVANCED,
    SAMPLING,
    PRUNING,
    NEAR,
    MOST_CANDIDATES,
    LOOKED,
    EXAMINED,
    BOUNDED,
    FINED,
    PARTIAL,
    CHANCE,
    KEPT,
    SAMPLE_ROOM,
    ERROR,
    GAUGED,
    MISSED,
    CODED,
) = range(len(NUMBERS))


class Samples(NamedTuple):
    """Points whose mean score stands for that of others in their cell (AHBA)."""

    items: Tracked
    place: Ints  # by slot: place among the samples, or NONE
    size: Ints  # by cell: points in the sample; NONE if the cell has none
    total: Ints  # by cell: their scores
    largest: Ints  # by cell: the largest of them
    listed: Ints  # the cells that have samples; their number first


class State(NamedTuple):
    """The window, the answers, and when each other point must be examined."""

    held: Field
    grid: Cells
    limits: Bounds  # of the cells of the grid
    fine: Bounds  # of more and smaller cells
    top: Tracked  # the k best, with their scores
    best: Ranked  # the same in rank order
    ages: Ints  # their sequence numbers, ascending
    marks: Ints  # their codes, packed, in the same order
    candidates: Tracked
    place: Ints  # by slot: place in top or candidates, or NONE
    kind: Ints  # by slot: what is known of the point
    score: Ints  # by slot, of events: score, or a bound of it, when the event was generated
    since: Ints  # by slot, of events: arrivals then
    dates: Calendar
    later: Ints  # by cell: arrivals in cells that dominate it
    before: Ints  # by slot: the same when the point arrived, less what was counted besides
    counted: Ints  # by slot: whether the point was counted where it dominates a cell partially
    samples: Samples
    work: Ints
    numbers: Ints


@lean
def clock(held: Field) -> int:
    """Arrivals and expiries so far."""
    return held.numbers[ARRIVED] + held.numbers[EXPIRED]


@lean
def expiry(state: State, seq: int) -> int:
    """The tick at which a point expires, or, in time windows, one that is not after it."""
    size, held = state.numbers[SIZE], state.held
    if size > 0:
        return 2 * (seq + 1) + size
    return max(held.numbers[ARRIVED] + seq + 1, clock(held) + 1)


@lean
def mark(state: State, slot: int) -> int:
    """The leading bits of a point's codes in one number, a free bit before each dimension's."""
    held = state.held
    width, slots = held.numbers[WIDTH], held.numbers[SLOTS]
    bits = 63 // width - 1
    cut = max(held.numbers[BITS] - bits, 0)
    found = 0
    for at in range(width):
        found = (found << (bits + 1)) | (np.int64(held.codes[at * slots + slot]) >> cut)
    return found


@lean
def draw(state: State, below: int) -> int:
    """A random number below ``below``."""
    state.numbers[CHANCE] = (state.numbers[CHANCE] * 1103515245 + 12345) & 0x7FFFFFFF
    return (state.numbers[CHANCE] >> 8) % below
