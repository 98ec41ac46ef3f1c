"""Partial sums as the float64 numbers that the local engine adds up, without loss."""

from __future__ import annotations

from math import ldexp
from typing import NamedTuple

import numpy as np

from skyband.order import Bools, Floats, Ints
from skyband.spark.families.totals.partials import HIGHEST, LOWEST, WIDTH

_EXACT = 1 << 53
_PART = 32
_LOW = (1 << _PART) - 1
_ROOM = 1 << 29  # whole numbers that may be moved up by a part, with one added, in 63 bits
_LARGEST = ldexp(1.0, 1023)


class Pieces(NamedTuple):
    """Values to push: the partial that each is a piece of, and whether it is the first of them."""

    row: Ints
    value: Floats
    first: Bools


def whole_pieces(parts: list[Ints]) -> Pieces:
    """Pieces of whole numbers: of one sum, or of one in units of ``2**32`` and one beside it."""
    if len(parts) == 1:
        return _joined(_halves(parts[0], 0))
    high, low = parts
    if _fits(high, low):
        return _joined(_halves((high << _PART) + low, 0))
    return _joined([*_halves(high, _PART), *_halves(low, 0)])


def double_pieces(bucket: Ints, parts: list[Ints]) -> Pieces:
    """Pieces of sums that were cut as in :mod:`skyband.spark.families.totals.partials`."""
    whole, middle, last = parts
    unit = WIDTH * bucket
    with np.errstate(over="ignore"):  # such sums come apart below
        if _fits(whole, middle):
            columns = _halves((whole << _PART) + middle, unit - _PART)
        else:
            columns = [*_halves(whole, unit), *_halves(middle, unit - _PART)]
        columns += _halves(last, unit - 2 * _PART)
    columns[0] = np.where(bucket > HIGHEST, np.inf, np.where(bucket < LOWEST, -np.inf, columns[0]))
    found = _joined(columns)
    finite = (bucket >= LOWEST) & (bucket <= HIGHEST)
    beyond = np.isinf(found.value) & finite[found.row]
    return _smaller(found, np.unique(found.row[beyond]), bucket, parts) if beyond.any() else found


def single_pieces(values: Floats) -> Pieces:
    """Every value is a piece of its own."""
    return Pieces(np.arange(len(values)), values, np.ones(len(values), np.bool_))


def _fits(high: Ints, low: Ints) -> bool:
    """Whether two parts can be joined in one whole number."""
    return not len(high) or bool(np.abs(high).max() < _ROOM and np.abs(low).max() < 1 << 60)


def _halves(numbers: Ints, unit: Ints | int) -> list[Floats]:
    """Whole numbers, in units of powers of two, as one or two columns of float64."""
    if not len(numbers) or (numbers.max() <= _EXACT and numbers.min() >= -_EXACT):
        return [np.ldexp(numbers.astype(np.float64), unit)]
    high, low = numbers >> _PART, numbers & _LOW
    return [
        np.ldexp(high.astype(np.float64), np.asarray(unit) + _PART),
        np.ldexp(low.astype(np.float64), unit),
    ]


def _joined(columns: list[Floats]) -> Pieces:
    """Row by row, the first column always and the others where they are not zero."""
    rows = len(columns[0])
    if len(columns) == 1:
        return single_pieces(columns[0])
    matrix = np.stack(columns, axis=1)
    there = matrix != 0
    there[:, 0] = True
    row, column = np.nonzero(there)
    assert len(np.unique(row)) == rows, "each partial has a first piece"
    return Pieces(row, matrix[row, column], column == 0)


def _smaller(found: Pieces, large: Ints, bucket: Ints, parts: list[Ints]) -> Pieces:
    """The same, but sums beyond the largest float64 as several values below it."""
    rows, values, firsts = [], [], []
    for at in large.tolist():
        whole = sum(int(part[at]) << (_PART * (2 - i)) for i, part in enumerate(parts))
        unit = WIDTH * int(bucket[at]) - 2 * _PART
        own = _values(abs(whole), unit)
        rows += [at] * len(own)
        values += [value if whole >= 0 else -value for value in own]
        firsts += [True, *([False] * (len(own) - 1))]
    others = ~np.isin(found.row, large)
    row = np.concatenate([found.row[others], np.array(rows, np.int64)])
    order = np.argsort(row, kind="stable")
    return Pieces(
        row[order],
        np.concatenate([found.value[others], values])[order],
        np.concatenate([found.first[others], firsts])[order],
    )


def _values(whole: int, unit: int) -> list[float]:
    """A whole number in units of a power of two as float64 numbers."""
    found: list[float] = []
    largest = 1 << (1023 - unit)
    while whole >= largest:
        found.append(_LARGEST)
        whole -= largest
    while whole:
        shift = max(whole.bit_length() - 53, 0)
        found.append(ldexp(whole >> shift, unit + shift))
        whole -= whole >> shift << shift
    return found
