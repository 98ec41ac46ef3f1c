"""The points of a window, and how many of them one of them dominates. Less is better everywhere.

Each coordinate has a *code* besides its value: the number of bounds, of its dimension, that are not
above it. A lower code means a smaller value, so most pairs are told apart by comparing bytes:
higher codes in *all* dimensions are dominated without a look at the values, and only points whose
codes are nowhere lower but somewhere equal must be compared.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.kernels.jit import lean
from skyband.kernels.work import COMPARISONS, EXACT
from skyband.order import Floats, Ints

Bytes = NDArray[np.uint8]

BLOCKS = 256  # codes per dimension
_CHUNK = 1024  # points looked at together: their masks stay close to the processor


class Field(NamedTuple):
    """Points by slot (sequence number & (slots - 1)); a slot without a point is NaN.

    ``numbers``: dimensions, slots, oldest sequence number that is held, sequence number after the
    newest, points that can be ranked, arrivals and expiries so far.
    """

    points: Floats  # dimension * slots + slot
    codes: Bytes  # dimension * slots + slot
    bounds: Floats  # dimension * (BLOCKS - 1) + bound, ascending
    no_lower: Bytes  # scratch: codes nowhere lower, per point of a chunk
    higher: Bytes  # scratch: codes higher everywhere
    unsure: Ints  # scratch: places in a chunk that must be compared
    numbers: Ints


WIDTH, SLOTS, OLDEST, NEXT, POINTS, ARRIVED, EXPIRED = range(7)


def field(room: int, width: int) -> Field:
    """An empty field with room for ``room`` sequence numbers."""
    slots = 1 << max(int(room) - 1, 1).bit_length()
    return Field(
        np.full(slots * width, np.nan),
        np.zeros(slots * width, np.uint8),
        np.full(width * (BLOCKS - 1), np.inf),
        np.zeros(_CHUNK, np.uint8),
        np.zeros(_CHUNK, np.uint8),
        np.zeros(_CHUNK + 1, np.int64),
        np.array([width, slots, 0, 0, 0, 0, 0], np.int64),
    )


def roomier_field(old: Field, room: int) -> Field:
    """The same points with room for at least ``room`` sequence numbers."""
    width, slots, oldest, after = (int(old.numbers[at]) for at in (WIDTH, SLOTS, OLDEST, NEXT))
    new = field(room, width)
    if int(new.numbers[SLOTS]) <= slots:
        return old
    seqs = np.arange(oldest, after, dtype=np.int64)
    more = int(new.numbers[SLOTS])
    for at in range(width):
        new.points[at * more + (seqs & (more - 1))] = old.points[at * slots + (seqs & (slots - 1))]
        new.codes[at * more + (seqs & (more - 1))] = old.codes[at * slots + (seqs & (slots - 1))]
    new.numbers[:] = old.numbers
    new.numbers[SLOTS] = more
    return new._replace(bounds=old.bounds)


def choose_bounds(held: Field, sample: int = 65_536) -> None:
    """Choose bounds anew, so that codes are about equally frequent, and code every point again."""
    width, slots, oldest, after = (int(held.numbers[at]) for at in (WIDTH, SLOTS, OLDEST, NEXT))
    if after == oldest:
        return
    stride = max((after - oldest) // sample, 1)
    slot = np.arange(oldest, after, stride, dtype=np.int64) & (slots - 1)
    for at in range(width):
        column = held.points[at * slots : (at + 1) * slots]
        seen = np.sort(column[slot])
        seen = seen[: len(seen) - np.count_nonzero(np.isnan(seen))]
        if not len(seen):
            return
        # the k-th bound is the smallest value of the k-th part
        places = np.arange(1, BLOCKS, dtype=np.int64) * len(seen) // BLOCKS
        bounds = seen[places]
        held.bounds[at * (BLOCKS - 1) : (at + 1) * (BLOCKS - 1)] = bounds
        codes = np.searchsorted(bounds, column, side="right").astype(np.uint8)
        codes[np.isnan(column)] = 0
        held.codes[at * slots : (at + 1) * slots] = codes


@lean
def code_of(held: Field, at: int, value: float) -> int:
    """The code of a value of a dimension, by halving. O(log blocks)."""
    base = at * (BLOCKS - 1)
    low, high = 0, BLOCKS - 1
    while low < high:
        middle = (low + high) >> 1
        if held.bounds[base + middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@lean
def place_point(held: Field, attributes: Floats, row: int, ranked: bool) -> int:
    """Take in the next point, or hold its place if it cannot be ranked; return its slot."""
    numbers = held.numbers
    slots = numbers[SLOTS]
    slot = numbers[NEXT] & (slots - 1)
    numbers[NEXT] += 1
    numbers[ARRIVED] += 1
    if ranked:
        numbers[POINTS] += 1
        for at in range(numbers[WIDTH]):
            value = attributes[row, at]
            held.points[at * slots + slot] = value
            held.codes[at * slots + slot] = code_of(held, at, value)
    return slot


@lean
def is_point(held: Field, slot: int) -> bool:
    """Whether a slot holds a point that can be ranked."""
    value = held.points[slot]
    return value == value


@lean
def remove_oldest(held: Field) -> None:
    """Let the oldest point go."""
    numbers = held.numbers
    slots = numbers[SLOTS]
    slot = numbers[OLDEST] & (slots - 1)
    numbers[OLDEST] += 1
    numbers[EXPIRED] += 1
    if is_point(held, slot):
        numbers[POINTS] -= 1
        for at in range(numbers[WIDTH]):
            held.points[at * slots + slot] = np.nan
            held.codes[at * slots + slot] = 0


@lean
def dominates(held: Field, one: int, other: int) -> bool:
    """Whether the point in ``one`` is nowhere worse than that in ``other``, and not its equal."""
    slots = held.numbers[SLOTS]
    better = False
    for at in range(held.numbers[WIDTH]):
        mine, theirs = held.points[at * slots + one], held.points[at * slots + other]
        if not mine <= theirs:
            return False
        better = better or mine < theirs
    return better


@lean
def exact_score(held: Field, slot: int, work: Ints) -> int:
    """How many points the one in a slot dominates: an exact score computation. O(n d) bytes."""
    slots = held.numbers[SLOTS]
    oldest, after = held.numbers[OLDEST], held.numbers[NEXT]
    work[EXACT] += 1
    score = 0
    at = oldest
    while at < after:
        low = at & (slots - 1)
        count = min(min(_CHUNK, after - at), slots - low)
        score += _dominated_in(held, slot, low, count, work)
        at += count
    return score


@lean
def _dominated_in(held: Field, slot: int, low: int, count: int, work: Ints) -> int:
    """How many of the points in slots ``low`` to ``low + count`` the one in ``slot`` dominates."""
    slots, width = held.numbers[SLOTS], held.numbers[WIDTH]
    no_lower, higher = held.no_lower[:count], held.higher[:count]
    for at in range(width):
        base = at * slots
        mine = held.codes[base + slot]
        codes = held.codes[base + low : base + low + count]
        if at == 0:
            for i in range(len(codes)):
                no_lower[i] = codes[i] >= mine
                higher[i] = codes[i] > mine
        else:
            for i in range(len(codes)):
                no_lower[i] &= codes[i] >= mine
                higher[i] &= codes[i] > mine
    score, maybe = 0, 0
    for i in range(len(higher)):
        score += higher[i]
        maybe += no_lower[i]
    if maybe == score:
        return score
    unsure = 0
    for i in range(len(higher)):
        held.unsure[unsure] = i
        unsure += no_lower[i] ^ higher[i]
    for i in range(unsure):
        if dominates(held, slot, low + held.unsure[i]):
            score += 1
    work[COMPARISONS] += unsure * width
    return score
