"""Counting what points dominate, 64 at a time. Less is better in every dimension.

Points are indexed in blocks. A block stands in lexicographic order, the greatest first: those that
come lexicographically after a point are the first so many of its block, and only they can be
dominated by it (they cannot equal it, and their first coordinate is not less). For each further
dimension the block is sorted once more, and at every 32nd place of that order a bitmap tells who
stood before it; so "at least as much in this dimension" is a bitmap and at most 31 single points,
and what a point dominates are the bits that all these bitmaps share.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.kernels.jit import entry, lean
from skyband.order import Floats, Ints

BLOCK = 4096
_SCAN = 512  # the size of blocks where only some of them are looked at
_STEP = 32
_WORD = 64

Bits = NDArray[np.uint64]


class Index(NamedTuple):
    """Points in blocks, with their orders by dimension and the bitmaps along them.

    ``value`` and ``place`` hold, from dimension 1 on, the coordinates of each block in descending
    order and where in the block they belong. Space: 16 bytes per coordinate, and about as much
    again for the bitmaps of a full block.
    """

    points: Floats  # rows by dimension
    value: Floats  # dimension - 1, then row
    place: NDArray[np.int16]
    bits: Bits  # dimension - 1, block, mark, word
    block: Ints  # points of a block, one number

    @property
    def bytes(self) -> int:
        """Memory of all arrays."""
        return sum(array.nbytes for array in self)


def index(points: Floats, block: int = BLOCK) -> Index:
    """Index points, given as a matrix with a row each, in blocks. O(n d log n)."""
    rows, width = points.shape
    blocks, most = -(-rows // block), min(rows, block)
    sorted_points = np.empty((rows, width))
    value = np.empty((max(width - 1, 0), rows))
    place = np.empty((max(width - 1, 0), rows), np.int16)
    shape = (max(width - 1, 0), blocks, most // _STEP + 1, -(-most // _WORD))
    for low in range(0, rows, block):
        high = min(rows, low + block)
        part = points[low:high]
        part = part[_greatest_first(part)]
        sorted_points[low:high] = part
        for at in range(1, width):
            order = np.argsort(-part[:, at])
            value[at - 1, low:high] = part[order, at]
            place[at - 1, low:high] = order
    bits = np.zeros(shape, np.uint64)
    indexed = Index(sorted_points, value, place, bits, np.array([block], np.int64))
    _mark(indexed)
    return indexed


def _greatest_first(points: Floats) -> Ints:
    """The lexicographic order, descending; equal first coordinates are rare in most data."""
    order = np.argsort(-points[:, 0])
    first = points[order, 0]
    if len(first) > 1 and points.shape[1] > 1 and (first[1:] == first[:-1]).any():
        order = np.lexsort(-points.T[::-1])
    return order.astype(np.int64, copy=False)


def dominated(indexed: Index, by: Floats) -> Ints:
    """How many of the indexed points each row of ``by`` dominates."""
    counts = np.zeros(len(by), np.int64)
    if len(by) and len(indexed.points):
        room = np.zeros((2, indexed.bits.shape[3]), np.uint64)
        _dominated(indexed, np.ascontiguousarray(by), counts, room)
    return counts


def dominators(points: Floats, of: Floats) -> Ints:
    """How many of the points dominate each row of ``of``."""
    return dominated(index(-points), -of)


def kth_newest(points: Floats, of: Floats, k: int) -> Ints:
    """Where the k-th dominator of each row of ``of`` stands among the points, the last one first.

    -1 where fewer than k points dominate it.
    """
    places = np.full(len(of), -1, np.int64)
    if len(of) and len(points):
        indexed, of = index(-points, _SCAN), np.ascontiguousarray(of)
        room = np.zeros((2, _SCAN // _WORD), np.uint64)
        _kth_newest(indexed, np.ascontiguousarray(points), of, -of, k, room, places)
    return places


@entry
def _mark(indexed: Index) -> None:
    """Set the bitmaps: at each mark, who stands before it."""
    (rows, width), size = indexed.points.shape, indexed.block[0]
    bits = indexed.bits
    marks, words = bits.shape[2], bits.shape[3]
    for at in range(width - 1):
        for block in range(bits.shape[1]):
            low = block * size
            inside = min(size, rows - low)
            for mark in range(1, marks):
                if mark * _STEP > inside:
                    break
                for word in range(words):
                    bits[at, block, mark, word] = bits[at, block, mark - 1, word]
                for i in range(low + (mark - 1) * _STEP, low + mark * _STEP):
                    place = np.int64(indexed.place[at, i])
                    bits[at, block, mark, place >> 6] |= np.uint64(1) << np.uint64(place & 63)


@entry
def _dominated(indexed: Index, by: Floats, counts: Ints, room: Bits) -> None:
    (rows, width), size = indexed.points.shape, indexed.block[0]
    for block in range((rows + size - 1) // size):
        low = block * size
        inside = min(size, rows - low)
        for row in range(len(by)):
            counts[row] += _in_block(indexed, by, row, width, block, low, inside, room)


@lean
def _in_block(
    indexed: Index, by: Floats, row: int, width: int, block: int, low: int, inside: int, room: Bits
) -> int:
    """How many points of a block a row dominates; ``room`` has two rows, used in turn."""
    reach = _after(indexed.points, by, row, width, low, inside)
    if reach == 0 or width == 1:
        return reach
    words = (reach + 63) >> 6
    now, started = 0, False
    for at in range(width - 1):
        least = _at_least(indexed.value, at, by[row, at + 1], low, inside)
        if least == 0:
            return 0
        if least == inside:
            continue
        mark = least // _STEP
        after = 1 - now
        if started:
            for word in range(words):
                room[after, word] = room[now, word] & indexed.bits[at, block, mark, word]
        else:
            for word in range(words):
                room[after, word] = indexed.bits[at, block, mark, word]
        for i in range(low + mark * _STEP, low + least):
            place = np.int64(indexed.place[at, i])
            if place < reach:
                bit = np.uint64(1) << np.uint64(place & 63)
                if started:
                    bit &= room[now, place >> 6]
                room[after, place >> 6] |= bit
        now, started = after, True
    if not started:
        return reach
    if reach & 63:
        room[now, words - 1] &= (np.uint64(1) << np.uint64(reach & 63)) - np.uint64(1)
    count = 0
    for word in range(words):
        count += _ones(room[now, word])
    return count


@lean
def _after(points: Floats, by: Floats, row: int, width: int, low: int, inside: int) -> int:
    """How many points of a block come lexicographically after one."""
    least, most = 0, inside
    while least < most:
        middle = (least + most) >> 1
        after = False
        for at in range(width):
            theirs, ours = points[low + middle, at], by[row, at]
            if theirs != ours:
                after = theirs > ours
                break
        if after:
            least = middle + 1
        else:
            most = middle
    return least


@lean
def _at_least(value: Floats, at: int, bound: float, low: int, inside: int) -> int:
    """How many coordinates of a block are at least so much; the way down has no branches."""
    base, left = low, inside
    while left > 1:
        half = left >> 1
        base += half if value[at, base + half - 1] >= bound else 0
        left -= half
    return base - low + (1 if value[at, base] >= bound else 0)


@lean
def _ones(word: Any) -> Any:
    """How many bits of a word are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    word += word >> np.uint64(8)
    word += word >> np.uint64(16)
    word += word >> np.uint64(32)
    return np.int64(word & np.uint64(127))


@entry
def _kth_newest(
    indexed: Index, points: Floats, of: Floats, by: Floats, k: int, room: Bits, places: Ints
) -> None:
    """``by`` are the rows of ``of`` the other way round, as the indexed points are."""
    (rows, width), size = indexed.points.shape, indexed.block[0]
    blocks = (rows + size - 1) // size
    for row in range(len(of)):
        met = 0
        for block in range(blocks - 1, -1, -1):
            low = block * size
            inside = min(size, rows - low)
            more = _in_block(indexed, by, row, width, block, low, inside, room)
            if met + more >= k:
                places[row] = _back_from(points, of, row, low + inside, k - met)
                break
            met += more


@lean
def _back_from(points: Floats, of: Floats, row: int, end: int, wanted: int) -> int:
    """Where the so many-th dominator of a row stands, going back from an end."""
    met = 0
    for other in range(end - 1, -1, -1):
        worse, better = False, False
        for at in range(points.shape[1]):
            theirs, ours = points[other, at], of[row, at]
            if theirs > ours:
                worse = True
                break
            better = better or theirs < ours
        if better and not worse:
            met += 1
            if met == wanted:
                return other
    return -1
