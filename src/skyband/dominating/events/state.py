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
from skyband.dominating.exact_scores import ExactScores
from skyband.dominating.point_window import PointWindow
from skyband.kernels.answers import Ranked
from skyband.kernels.jit import lean
from skyband.kernels.records import Record, fields
from skyband.order import Ints

# what is known of a point, by slot
NOTHING, EVENT, OBSOLETE, CANDIDATE, TOP, EXCLUDED = range(6)

NOW = fields(
    "k",
    "window_size",  # rows of a count window; 0 for time windows
    "taken_in",  # whether the points of the step have been taken in
    "must_start",  # whether nothing is scheduled, and all events must be generated anew
    "processed",  # tick up to which events have been processed
    "examined",  # sequence number up to which arrivals have been examined
    "obsolete_kept",  # share of obsolete events that is kept, in thousandths
    "random",  # state of the random numbers
    # ADA
    "near",  # ticks within which an event makes a point a candidate
    "most_candidates",
    "partial",  # whether exact scores are counted for partially dominated cells
    "bounded_at",  # arrivals when the bounds of cells were counted, or NONE
    # AHBA
    "sample_size",  # points in the sample of a cell
    "sample_room",  # points in all samples at most
    "sample_error",  # of means of samples, in thousandths of the range of a cell
    # AMSA
    "guarded",  # whether points are spared whose cells may hold answers
    # AHBA and AMSA
    "fine_bounded_at",  # arrivals when the bounds of smaller cells were counted, or NONE
    "gauged_at",  # arrivals when the accuracy was estimated
    "missed",  # answers that are expected to be missing, in thousandths
)


class Samples(NamedTuple):
    """Points whose mean score stands for that of others in their cell (AHBA)."""

    points: ExactScores
    place: Ints  # by slot: place among the points, or NONE
    size: Ints  # by cell: points in the sample; NONE if the cell has none
    total: Ints  # by cell: their scores
    largest: Ints  # by cell: the largest of them
    listed: Ints  # the cells that have samples; their number first


class State(NamedTuple):
    """The window, the answers, and when each other point must be examined."""

    window: PointWindow
    grid: Cells
    top: ExactScores  # the k best
    best: Ranked  # the same in rank order
    top_seq: Ints  # their sequence numbers, ascending
    top_codes: Ints  # their codes, packed, in the same order
    place: Ints  # by slot: place in top or candidates, or NONE
    kind: Ints  # by slot: what is known of the point
    score: Ints  # by slot, of events: score, or a bound of it, when the event was generated
    generated_at: Ints  # by slot, of events: arrivals then
    calendar: Calendar
    candidates: ExactScores  # from here on ADA's; empty for EVA
    limits: Bounds  # of the cells of the grid
    cell_counter: Ints  # by cell: arrivals in cells that dominate it
    point_counter: Ints  # by slot: the same when the point arrived, less what was counted besides
    counted: Ints  # by slot: whether the point was counted where it dominates a cell partially
    samples: Samples
    fine: Bounds  # of more and smaller cells (AHBA, AMSA)
    work: Ints
    now: Record


@lean
def clock(window: PointWindow) -> int:
    """Arrivals and expiries so far."""
    span = window.now[0]
    return span.arrived + span.expired


@lean
def expiry(state: State, seq: int) -> int:
    """The tick at which a point expires, or, in time windows, one that is not after it."""
    size = state.now[0].window_size
    if size > 0:
        return 2 * (seq + 1) + size
    return max(state.window.now[0].arrived + seq + 1, clock(state.window) + 1)


@lean
def packed_codes(state: State, slot: int) -> int:
    """The leading bits of a point's codes in one number, a free bit before each dimension's."""
    window, span = state.window, state.window.now[0]
    width, slots = span.width, span.slots
    bits = 63 // width - 1
    cut = max(span.bits - bits, 0)
    packed = 0
    for at in range(width):
        packed = (packed << (bits + 1)) | (np.int64(window.codes[at * slots + slot]) >> cut)
    return packed


@lean
def draw(state: State, below: int) -> int:
    """A random number below ``below``."""
    now = state.now[0]
    now.random = (now.random * 1103515245 + 12345) & 0x7FFFFFFF
    return (now.random >> 8) % below
