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

from skyband.kernels.jit import lean
from skyband.kernels.work import COMPARISONS, EXACT
from skyband.order import Floats, Ints

Bytes = NDArray[np.uint8]
Codes = NDArray[np.uint16]

_MOST = 4096  # codes per dimension at most: so many that points of equal code are few
NONE = -1  # no slot, no place, no bound
_CHUNK = 512  # points looked at together: their masks stay close to the processor
_EVEN = 0x00FF00FF00FF00FF


class Field(NamedTuple):
    """Points by slot (sequence number & (slots - 1)); a slot without a point is NaN.

    ``numbers``: dimensions, slots, oldest sequence number that is held, sequence number after the
    newest, points that can be ranked, arrivals and expiries so far, codes per dimension
    (*blocks*, a power of two) and its bits.
    """

    points: Floats  # slot * dimensions + dimension
    codes: Codes  # dimension * slots + slot
    bounds: Floats  # dimension * (blocks - 1) + bound, ascending
    no_lower: Bytes  # scratch: codes nowhere lower, per point of a chunk
    higher: Bytes  # scratch: codes higher everywhere
    unsure: Ints  # scratch: places in a chunk that must be compared
    numbers: Ints


WIDTH, SLOTS, OLDEST, NEXT, POINTS, ARRIVED, EXPIRED, BLOCKS, BITS = range(9)


def field(room: int, width: int) -> Field:
    """An empty field with room for ``room`` sequence numbers."""
    slots = 1 << max(int(room) - 1, 1).bit_length()
    blocks = min(slots, _MOST)
    return Field(
        np.full(slots * width, np.nan),
        np.zeros(slots * width, np.uint16),
        np.full(width * (blocks - 1), np.inf),
        np.zeros(_CHUNK, np.uint8),
        np.zeros(_CHUNK, np.uint8),
        np.zeros(_CHUNK + 1, np.int64),
        np.array([width, slots, 0, 0, 0, 0, 0, blocks, blocks.bit_length() - 1], np.int64),
    )


def resized_field(old: Field, room: int) -> Field:
    """The same points, coded anew, with room for ``room`` sequence numbers, or those it holds."""
    width, slots, oldest, after = (int(old.numbers[at]) for at in (WIDTH, SLOTS, OLDEST, NEXT))
    new = field(max(room, after - oldest), width)
    if int(new.numbers[SLOTS]) == slots:
        return old
    seqs = np.arange(oldest, after, dtype=np.int64)
    more = int(new.numbers[SLOTS])
    to, source = seqs & (more - 1), seqs & (slots - 1)
    new.points.reshape(more, width)[to] = old.points.reshape(slots, width)[source]
    new.numbers[OLDEST : EXPIRED + 1] = old.numbers[OLDEST : EXPIRED + 1]
    choose_bounds(new)
    return new


def choose_bounds(held: Field, sample: int = 65_536) -> None:
    """Choose bounds anew, so that codes are about equally frequent, and code every point again."""
    width, slots, oldest, after = (int(held.numbers[at]) for at in (WIDTH, SLOTS, OLDEST, NEXT))
    blocks = int(held.numbers[BLOCKS])
    slot = np.arange(oldest, after, dtype=np.int64) & (slots - 1)
    slot = slot[~np.isnan(held.points[slot * width])]
    if not len(slot):
        return
    some = slot[:: max(len(slot) // sample, 1)]
    for at in range(width):
        column = np.ascontiguousarray(held.points.reshape(slots, width)[:, at])
        seen = np.sort(column[some])
        # the k-th bound is the smallest value of the k-th part
        places = np.arange(1, blocks, dtype=np.int64) * len(seen) // blocks
        bounds = seen[places]
        held.bounds[at * (blocks - 1) : (at + 1) * (blocks - 1)] = bounds
        held.codes[at * slots : (at + 1) * slots] = 0
        held.codes[at * slots + slot] = np.searchsorted(bounds, column[slot], side="right")


@lean
def slot_of(held: Field, seq: int) -> int:
    """The slot of a sequence number."""
    return seq & (held.numbers[SLOTS] - 1)


@lean
def seq_of(held: Field, slot: int) -> int:
    """The sequence number that a slot holds, or will hold next."""
    oldest = held.numbers[OLDEST]
    return oldest + ((slot - oldest) & (held.numbers[SLOTS] - 1))


@lean
def code_of(held: Field, at: int, value: float) -> int:
    """The code of a value of a dimension, by halving. O(log blocks)."""
    blocks = held.numbers[BLOCKS]
    base = at * (blocks - 1)
    low, high = 0, blocks - 1
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
            held.points[slot * numbers[WIDTH] + at] = value
            held.codes[at * slots + slot] = code_of(held, at, value)
    return slot


@lean
def is_point(held: Field, slot: int) -> bool:
    """Whether a slot holds a point that can be ranked."""
    value = held.points[slot * held.numbers[WIDTH]]
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
            held.points[slot * numbers[WIDTH] + at] = np.nan
            held.codes[at * slots + slot] = 0


@lean
def dominates(held: Field, one: int, other: int) -> bool:
    """Whether the point in ``one`` is nowhere worse than that in ``other``, and not its equal."""
    width = held.numbers[WIDTH]
    better = False
    for at in range(width):
        mine, theirs = held.points[one * width + at], held.points[other * width + at]
        if not mine <= theirs:
            return False
        better = better or mine < theirs
    return better


@lean
def exact_score(held: Field, slot: int, work: Ints) -> int:
    """How many points the one in a slot dominates: an exact score computation. O(n d)."""
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
    for i in range(count, min((count + 7) & ~7, _CHUNK)):
        held.no_lower[i] = 0
        held.higher[i] = 0
    # eight points at a time: bytes of 0 and 1, of which a chunk has too few to overflow
    words = (count + 7) >> 3
    sure, possible = held.higher.view(np.int64)[:words], held.no_lower.view(np.int64)[:words]
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
                held.unsure[unsure] = i
                unsure += int(held.no_lower[i] ^ held.higher[i])
    for i in range(unsure):
        # no branches: the processor fetches the next points while it waits for this one
        other = (low + held.unsure[i]) * width
        no_worse, better = True, False
        for at in range(width):
            mine, theirs = held.points[slot * width + at], held.points[other + at]
            no_worse &= mine <= theirs
            better |= mine < theirs
        score += no_worse & better
    work[COMPARISONS] += unsure * width
    return score
