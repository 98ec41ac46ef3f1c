"""Exact sums of float64 numbers as rows of whole numbers, which add and subtract without loss.

Every finite float64 is a whole multiple of 2**-1074. A sum is kept as *limbs*: limb i counts
multiples of 2**(32 * i - 1074). A number is cut into three neighbouring limbs of 32 bits each, all
of its sign, and limbs are added without carrying; so a row of limbs depends only on which numbers
are in it, and taking numbers away again leaves what was there before. Only the limbs between
``lowest`` and the highest that any number so far needs are stored.
"""

from __future__ import annotations

import math

import numpy as np

from skyband.kernels.jit import lean
from skyband.order import Ints

OFTEN = (1 << 30) - 1
"""Additions after which limbs must be carried, less one: 2**30 of 32 bits each fit 63 bits."""

_BITS = 32
_LIMB = (1 << _BITS) - 1
_MANTISSA = (1 << 52) - 1
_INFINITE = 0x7FF


def limbs_for(bits: Ints) -> tuple[int, int]:
    """The limbs that finite numbers, given by their bits, need: the lowest, and after the highest.

    (0, 0) if all are zero, infinite or NaN.
    """
    exponent = (bits >> 52) & _INFINITE
    exponent = exponent[(exponent < _INFINITE) & ((bits << 1) != 0)]
    if not len(exponent):
        return 0, 0
    place = np.maximum(np.array([exponent.min(), exponent.max()]), 1) - 1
    return int(place[0]) // _BITS, int(place[1]) // _BITS + 3


@lean
def is_infinite(bits: int) -> bool:
    """Whether the number with these bits is infinite (or NaN)."""
    return ((bits >> 52) & _INFINITE) == _INFINITE


@lean
def add(limbs: Ints, at: int, lowest: int, bits: int) -> None:
    """Add a finite number to the limbs that begin at ``at``, the first being ``lowest``. O(1)."""
    exponent = (bits >> 52) & _INFINITE
    mantissa = bits & _MANTISSA
    if exponent > 0:
        mantissa |= _MANTISSA + 1
        exponent -= 1
    if mantissa == 0:
        return
    shift = exponent & (_BITS - 1)
    to = at + (exponent >> 5) - lowest
    low = (mantissa & (_LIMB >> shift)) << shift
    rest = mantissa >> (_BITS - shift)
    if bits < 0:
        limbs[to] -= low
        limbs[to + 1] -= rest & _LIMB
        limbs[to + 2] -= rest >> _BITS
    else:
        limbs[to] += low
        limbs[to + 1] += rest & _LIMB
        limbs[to + 2] += rest >> _BITS


@lean
def carry(limbs: Ints, at: int, size: int) -> None:
    """Bring every limb but the highest into 32 bits, not negative; same sum. O(size)."""
    over = 0
    for i in range(at, at + size - 1):
        found = limbs[i] + over
        limbs[i] = found & _LIMB
        over = found >> _BITS
    limbs[at + size - 1] += over


@lean
def rounded(limbs: Ints, at: int, size: int, lowest: int, scratch: Ints) -> float:
    """The float64 nearest to a sum, of two the even one. O(size).

    ``scratch`` has room for two limbs more than the sum.
    """
    sign = 1.0
    over = _magnitude(limbs, at, size, 1, scratch)
    if over < 0:
        sign = -1.0
        over = _magnitude(limbs, at, size, -1, scratch)
    scratch[size] = over & _LIMB
    scratch[size + 1] = over >> _BITS
    top = size + 1
    while top >= 0 and scratch[top] == 0:
        top -= 1
    if top < 0:
        return 0.0
    # 55 bits from the highest one on: 53 to keep, one for the half, one for all that follows
    kept = scratch[top]
    width = math.frexp(float(kept))[1]
    need = 55 - width
    below = top - 1
    more = 0
    while below >= 0:
        limb = scratch[below]
        take = min(need, _BITS)
        kept = (kept << take) | (limb >> (_BITS - take))
        more |= limb & (_LIMB >> take)
        need -= take
        below -= 1
    kept <<= need
    if more != 0:
        kept |= 1
    result, rest = kept >> 2, kept & 3
    if rest == 3 or (rest == 2 and result & 1 == 1):
        result += 1
    exponent = (lowest + top) * _BITS + width - 53 - 1074
    if exponent > 971 or (exponent == 971 and result == 1 << 53):
        return sign * math.inf
    return sign * math.ldexp(float(result), int(exponent))


@lean
def _magnitude(limbs: Ints, at: int, size: int, sign: int, scratch: Ints) -> int:
    """Limbs times ``sign``, carried, into ``scratch``; returns the carry, below 0 if they are."""
    over = 0
    for i in range(size):
        found = sign * limbs[at + i] + over
        scratch[i] = found & _LIMB
        over = found >> _BITS
    return over
