"""The points of a window, and how many of them one of them dominates. Less is better everywhere.

Each coordinate has a *code* besides its value: the number of bounds, of its dimension, that are not
above it. A lower code means a smaller value, so most pairs are told apart by short numbers: higher
codes in *all* dimensions are dominated without a look at the values, and only points whose codes
are nowhere lower but somewhere equal must be compared.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.kernels.jit import entry, lean
from skyband.kernels.records import Record, fields, record
from skyband.kernels.work import COMPARISONS, EXACT
from skyband.order import Floats, Ints

Bytes = NDArray[np.uint8]
Codes = NDArray[np.uint16]

_MOST = 4096  # codes per dimension at most: so many that points of equal code are few
NONE = -1  # no slot, no place, no bound
_CHUNK = 512  # points looked at together: their masks stay close to the processor
_EVEN = 0x00FF00FF00FF00FF


class PointWindow(NamedTuple):
    """Points by slot (sequence number & (slots - 1)); a slot without a point is NaN."""

    points: Floats  # slot * dimensions + dimension
    codes: Codes  # dimension * slots + slot
    bounds: Floats  # dimension * (blocks - 1) + bound, ascending
    no_lower: Bytes  # scratch: codes nowhere lower, per point of a chunk
    higher: Bytes  # scratch: codes higher everywhere
    unsure: Ints  # scratch: places in a chunk that must be compared
    now: Record


_NOW = fields(
    "width",  # dimensions
    "slots",
    "oldest",  # the oldest sequence number of the window
    "end",  # the sequence number after the newest
    "points",  # points that can be ranked
    "arrived",  # rows so far, unranked ones among them
    "expired",
    "blocks",  # codes per dimension, a power of two
    "bits",  # of a code
    "coded_at",  # arrivals when codes were chosen
)


def point_window(room: int, width: int) -> PointWindow:
    """An empty window with room for ``room`` sequence numbers."""
    slots = 1 << max(int(room) - 1, 1).bit_length()
    blocks = min(slots, _MOST)
    return PointWindow(
        np.full(slots * width, np.nan),
        np.zeros(slots * width, np.uint16),
        np.full(width * (blocks - 1), np.inf),
        np.zeros(_CHUNK, np.uint8),
        np.zeros(_CHUNK, np.uint8),
        np.zeros(_CHUNK + 1, np.int64),
        record(_NOW, width=width, slots=slots, blocks=blocks, bits=blocks.bit_length() - 1),
    )


def resized_window(old: PointWindow, room: int) -> PointWindow:
    """The same points, coded anew, with room for ``room`` sequence numbers, or those it holds."""
    before = old.now[0]
    width, slots = int(before.width), int(before.slots)
    new = point_window(max(room, int(before.end - before.oldest)), width)
    now = new.now[0]
    if int(now.slots) == slots:
        return old
    seqs = np.arange(before.oldest, before.end, dtype=np.int64)
    more = int(now.slots)
    to, source = seqs & (more - 1), seqs & (slots - 1)
    new.points.reshape(more, width)[to] = old.points.reshape(slots, width)[source]
    now.oldest, now.end, now.points = before.oldest, before.end, before.points
    now.arrived, now.expired, now.coded_at = before.arrived, before.expired, before.coded_at
    choose_bounds(new)
    return new


def choose_bounds(window: PointWindow, sample: int = 65_536) -> None:
    """Choose bounds anew, so that codes are about equally frequent, and code every point again."""
    now = window.now[0]
    width, slots, blocks = int(now.width), int(now.slots), int(now.blocks)
    slot = np.arange(now.oldest, now.end, dtype=np.int64) & (slots - 1)
    slot = slot[~np.isnan(window.points[slot * width])]
    if not len(slot):
        return
    some = slot[:: max(len(slot) // sample, 1)]
    for at in range(width):
        column = np.ascontiguousarray(window.points.reshape(slots, width)[:, at])
        values = np.sort(column[some])
        # the k-th bound is the smallest value of the k-th part
        places = np.arange(1, blocks, dtype=np.int64) * len(values) // blocks
        bounds = values[places]
        window.bounds[at * (blocks - 1) : (at + 1) * (blocks - 1)] = bounds
        window.codes[at * slots : (at + 1) * slots] = 0
        window.codes[at * slots + slot] = np.searchsorted(bounds, column[slot], side="right")


@entry
def stale(window: PointWindow) -> bool:
    """Whether so many points came since codes were chosen that they may not suit any more."""
    now = window.now[0]
    since = now.arrived - now.coded_at
    return since >= 64 and 2 * since >= now.points


@lean
def slot_of(window: PointWindow, seq: int) -> int:
    """The slot of a sequence number."""
    return seq & (window.now[0].slots - 1)


@lean
def seq_of(window: PointWindow, slot: int) -> int:
    """The sequence number that a slot holds, or will hold next."""
    oldest = window.now[0].oldest
    return oldest + ((slot - oldest) & (window.now[0].slots - 1))


@lean
def code_of(window: PointWindow, at: int, value: float) -> int:
    """The code of a value of a dimension, by halving. O(log blocks)."""
    blocks = window.now[0].blocks
    base = at * (blocks - 1)
    low, high = 0, blocks - 1
    while low < high:
        middle = (low + high) >> 1
        if window.bounds[base + middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@lean
def place_point(window: PointWindow, attributes: Floats, row: int, ranked: bool) -> int:
    """Take in the next point, or hold its place if it cannot be ranked; return its slot."""
    now = window.now[0]
    slots = now.slots
    slot = now.end & (slots - 1)
    now.end += 1
    now.arrived += 1
    if ranked:
        now.points += 1
        for at in range(now.width):
            value = attributes[row, at]
            window.points[slot * now.width + at] = value
            window.codes[at * slots + slot] = code_of(window, at, value)
    return slot


@lean
def is_point(window: PointWindow, slot: int) -> bool:
    """Whether a slot holds a point that can be ranked."""
    value = window.points[slot * window.now[0].width]
    return value == value


@lean
def remove_oldest(window: PointWindow) -> None:
    """Let the oldest point go."""
    now = window.now[0]
    slots = now.slots
    slot = now.oldest & (slots - 1)
    now.oldest += 1
    now.expired += 1
    if is_point(window, slot):
        now.points -= 1
        for at in range(now.width):
            window.points[slot * now.width + at] = np.nan
            window.codes[at * slots + slot] = 0


@lean
def dominates(window: PointWindow, one: int, other: int) -> bool:
    """Whether the point in ``one`` is nowhere worse than that in ``other``, and not its equal."""
    width = window.now[0].width
    better = False
    for at in range(width):
        mine, theirs = window.points[one * width + at], window.points[other * width + at]
        if not mine <= theirs:
            return False
        better = better or mine < theirs
    return better


@lean
def exact_score(window: PointWindow, slot: int, work: Ints) -> int:
    """How many points the one in a slot dominates: an exact score computation. O(n d)."""
    now = window.now[0]
    slots, end = now.slots, now.end
    work[EXACT] += 1
    score = 0
    at = now.oldest
    while at < end:
        low = at & (slots - 1)
        count = min(min(_CHUNK, end - at), slots - low)
        score += _dominated_in(window, slot, low, count, work)
        at += count
    return score


@lean
def _dominated_in(window: PointWindow, slot: int, low: int, count: int, work: Ints) -> int:
    """How many of the points in slots ``low`` to ``low + count`` the one in ``slot`` dominates."""
    now = window.now[0]
    slots, width = now.slots, now.width
    no_lower, higher = window.no_lower[:count], window.higher[:count]
    for at in range(width):
        base = at * slots
        mine = window.codes[base + slot]
        codes = window.codes[base + low : base + low + count]
        if at == 0:
            for i in range(len(codes)):
                no_lower[i] = codes[i] >= mine
                higher[i] = codes[i] > mine
        else:
            for i in range(len(codes)):
                no_lower[i] &= codes[i] >= mine
                higher[i] &= codes[i] > mine
    for i in range(count, min((count + 7) & ~7, _CHUNK)):
        window.no_lower[i] = 0
        window.higher[i] = 0
    # eight points at a time: bytes of 0 and 1, of which a chunk has too few to overflow
    words = (count + 7) >> 3
    sure, possible = window.higher.view(np.int64)[:words], window.no_lower.view(np.int64)[:words]
    total, doubt = 0, 0
    for i in range(len(sure)):
        total += sure[i]
        doubt |= sure[i] ^ possible[i]
    total = (total & _EVEN) + ((total >> 8) & _EVEN)
    total += total >> 16
    score = (total + (total >> 32)) & 0xFFFF
    if doubt == 0:
        return score
    unsure = 0
    for word in range(words):
        if sure[word] != possible[word]:
            for i in range(8 * word, 8 * word + 8):
                window.unsure[unsure] = i
                unsure += int(window.no_lower[i] ^ window.higher[i])
    for i in range(unsure):
        # no branches: the processor fetches the next points while it waits for this one
        other = (low + window.unsure[i]) * width
        no_worse, better = True, False
        for at in range(width):
            mine, theirs = window.points[slot * width + at], window.points[other + at]
            no_worse &= mine <= theirs
            better |= mine < theirs
        score += no_worse & better
    work[COMPARISONS] += unsure * width
    return score
