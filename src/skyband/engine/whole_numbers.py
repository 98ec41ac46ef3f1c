"""Whole numbers of 64 bits as float64 codes in the same order, so that kernels rank them exactly.

Kernels compare float64 numbers, and do not calculate with them. So a whole number is handed over as
the float64 number whose bits, read as a whole number, are its size: of two such codes the larger
one stands for the larger number, and none is rounded. No such code can hold all of int64: of the
2**64 patterns of a float64 number 2**53 - 2 are NaN, which have no order, and two are zero. So
sizes beyond :data:`LARGEST` have no code, but for the ends of int64, which people take for "none"
and "unlimited" and which the infinities stand for. On Spark, windows of time rank bigints
as such, and take them all; what runs the local engine (rows by arrival, totals) refuses those
without a code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.errors import DataError
from skyband.order import Bools, Floats, Ints

LARGEST = int(np.array(np.finfo(np.float64).max).view(np.int64))
"""The largest size that has a code, 9,218,868,437,227,405,311."""

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def codes_of(numbers: Any, null: Bools | None = None, what: str = "scores") -> Floats:
    """The codes of whole numbers, NaN where they are NULL; raises if a number has none.

    >>> codes = codes_of(np.array([-3, 0, 1 << 53, (1 << 53) + 1]))
    >>> bool((np.diff(codes) > 0).all()), numbers_of(codes).tolist()
    (True, [-3, 0, 9007199254740992, 9007199254740993])
    """
    numbers = np.asarray(numbers)
    if not np.issubdtype(numbers.dtype, np.integer) and len(numbers):
        raise DataError(
            f"{what} are of type {numbers.dtype}",
            "whole numbers, as the query says",
            "push them as int64, or ask the query without 'int64'",
        )
    if numbers.dtype == np.uint64 and len(numbers) and int(numbers.max()) > _MOST:
        raise _beyond(int(numbers.max()), what)
    whole: Ints = numbers.astype(np.int64, copy=False)
    bits = np.where(whole < 0, -whole | _LEAST, whole)
    codes: Floats = bits.view(np.float64)
    if len(whole) and (int(whole.max()) > LARGEST or int(whole.min()) < -LARGEST):
        ends = (whole == _LEAST) | (whole == _MOST)
        beyond = ((whole > LARGEST) | (whole < -LARGEST)) & ~ends
        if null is not None:
            beyond &= ~null
        if beyond.any():
            raise _beyond(int(whole[beyond][0]), what)
        codes = np.where(ends, np.where(whole > 0, np.inf, -np.inf), codes)
    return codes if null is None else np.where(null, np.nan, codes)


def numbers_of(codes: Floats) -> Ints:
    """The whole numbers that codes stand for."""
    bits = np.ascontiguousarray(codes).view(np.int64)
    numbers: Ints = np.where(bits < 0, -(bits & _MOST), bits)
    ends = np.isinf(codes)
    if ends.any():
        numbers = np.where(ends, np.where(codes > 0, _MOST, _LEAST), numbers)
    return numbers


def _beyond(number: int, what: str) -> DataError:
    return DataError(
        f"a number of {what} is {number:,}",
        f"whole numbers up to {LARGEST:,} in size, or an end of int64",
        "divide them, or convert them to floats (in SQL, CAST(... AS DOUBLE)) to accept ties",
    )
