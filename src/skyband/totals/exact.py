"""Exact sums of float64 numbers as rows of whole numbers, which add and subtract without loss.

Every finite float64 is a whole multiple of 2**-1074: a mantissa of 53 bits whose last bit stands at
a *place*, 0 being 2**-1074. A sum is one long whole number in *limbs* of 62 bits: limb i counts
multiples of 2**(62 * i) from the place ``origin`` on. All limbs but the highest are from 0 to
2**62 - 1, the highest has the sign. So a sum depends only on which numbers are in it, and taking
numbers away again leaves what was there before.

A mantissa lies in two neighbouring limbs, so adding one is two additions and a carry that goes no
further in sums of two limbs. These hold 2**42 numbers whose places are no more than 29 apart; sums
of other numbers have more limbs, see :func:`layout`.
"""

from __future__ import annotations

import math

import numpy as np

from skyband.engine.whole_numbers import LARGEST
from skyband.kernels.jit import lean
from skyband.order import Ints

NO_PLACES = (1 << 11, -1)
"""The lowest and the highest place of no numbers."""

WHOLE_LAYOUT = (1074, 2)
"""Origin and limbs of sums of whole numbers, whose unit is one."""

SPARE = 3
"""Limbs, of zeros, that a sum is given before it is divided."""

_BITS = 62
_LIMB = (1 << _BITS) - 1
_MANTISSA = (1 << 52) - 1
_MAGNITUDE = (1 << 63) - 1
_INFINITE = 0x7FF
_HEADROOM = 53 + 42  # bits of a mantissa, and of how many numbers a sum can hold
_MARGIN = 2.0**-50  # what a rough sum may be wrong by, times the limbs that it is made of
_BEYOND = 2.0**200  # more than the two highest limbs can say


def layout(lowest: int, highest: int) -> tuple[int, int]:
    """Origin and limbs of sums of numbers between these places.

    Room that is left serves numbers to come, most of it smaller ones: the smallest number of a
    stream shrinks faster than the largest one grows.
    """
    if highest < lowest:
        return 0, 2
    bits = highest - lowest + _HEADROOM
    limbs = max(-(-bits // _BITS), 2)
    spare = limbs * _BITS - bits
    return lowest - (spare - spare // 4), limbs


def relaid(sums: Ints, shift: int, limbs: int) -> Ints:
    """Sums, a row each, whose origin is ``shift`` places lower, or higher if that loses nothing."""
    moved = np.zeros((len(sums), limbs), np.int64)
    last = sums.shape[1] - 1
    for i in range(last + 1):
        to, bits = divmod(_BITS * i + shift, _BITS)
        limb = sums[:, i]
        if to == limbs - 1:
            moved[:, to] += limb << bits
            continue
        if to >= 0:
            moved[:, to] += (limb & (_LIMB >> bits)) << bits
        if -1 <= to < limbs - 1:
            moved[:, to + 1] += limb >> (_BITS - bits)
        if i == last:  # a sum below zero fills all limbs above it
            for j in range(max(to + 1, 0), limbs - 1):
                moved[:, j + 1] += moved[:, j] >> _BITS
                moved[:, j] &= _LIMB
    return moved


@lean
def places(bits: Ints, lowest: int, highest: int) -> tuple[int, int]:
    """The range of places, widened to that of finite numbers given by their bits. O(numbers)."""
    infinite = _INFINITE << 52
    least, most = infinite, 0
    for i in range(len(bits)):
        magnitude = bits[i] & _MAGNITUDE
        least = min(least, magnitude if magnitude > 0 else infinite)
        most = max(most, magnitude if magnitude < infinite else 0)
    if most > 0:
        lowest = min(lowest, max(least >> 52, 1) - 1)
        highest = max(highest, max(most >> 52, 1) - 1)
    return lowest, highest


@lean
def fits(lowest: int, highest: int, origin: int, limbs: int) -> bool:
    """Whether sums with this layout hold numbers between these places. O(1)."""
    return highest < lowest or (lowest >= origin and highest - origin <= limbs * _BITS - _HEADROOM)


@lean
def is_infinite(bits: int) -> bool:
    """Whether the number with these bits is infinite (or NaN)."""
    return ((bits >> 52) & _INFINITE) == _INFINITE


@lean
def add(sums: Ints, at: int, limbs: int, origin: int, bits: int) -> None:
    """Add a finite number, given by its bits, to the sum that begins at ``at``. O(1) amortised."""
    exponent = (bits >> 52) & _INFINITE
    normal = 1 if exponent > 0 else 0
    mantissa = (bits & _MANTISSA) | (normal << 52)
    shift = max(exponent - normal - origin, 0)  # only zero stands below the origin
    if limbs > 2:
        limb = shift // _BITS
        shift -= limb * _BITS
        at += limb
        limbs -= limb
    sign = bits >> 63  # 0, or -1 for numbers below zero
    low = (mantissa & (_LIMB >> shift)) << shift
    high = mantissa >> (_BITS - shift)
    low = ((low ^ sign) - sign) + sums[at]
    high = ((high ^ sign) - sign) + (low >> _BITS) + sums[at + 1]
    sums[at] = low & _LIMB
    while limbs > 2:
        at += 1
        limbs -= 1
        sums[at] = high & _LIMB
        high >>= _BITS
        if high == 0:
            return
        high += sums[at + 1]
    sums[at + 1] = high


@lean
def add_whole(sums: Ints, at: int, bits: int) -> None:
    """Add a whole number, given by the bits of its code, to a sum of two limbs. O(1)."""
    number = bits if bits >= 0 else -(bits & _MAGNITUDE)
    low = sums[at] + (number & _LIMB)
    sums[at] = low & _LIMB
    sums[at + 1] += (number >> _BITS) + (low >> _BITS)


@lean
def whole_code(sums: Ints, at: int, scratch: Ints) -> float:
    """The code of a sum of two limbs, see :mod:`skyband.engine.whole_numbers`. O(1).

    A sum too large for a code is infinite.
    """
    low, high = sums[at], sums[at + 1]
    negative = high < 0
    if negative:
        high = -high if low == 0 else -high - 1
        low = -low & _LIMB
    scratch[0] = (high << _BITS) | low
    if high > 1 or scratch[0] > LARGEST:
        return -math.inf if negative else math.inf
    code = scratch[:1].view(np.float64)[0]
    return -code if negative else code


@lean
def add_sum(sums: Ints, at: int, others: Ints, other: int, limbs: int, sign: int) -> None:
    """Add another sum, or take it away if ``sign`` is -1. O(limbs)."""
    carry = 0
    for i in range(limbs - 1):
        limb = sums[at + i] + sign * others[other + i] + carry
        sums[at + i] = limb & _LIMB
        carry = limb >> _BITS
    sums[at + limbs - 1] += sign * others[other + limbs - 1] + carry


@lean
def rounded(
    sums: Ints, at: int, limbs: int, origin: int, count: int, unit: int, scratch: Ints
) -> float:
    """The float64 nearest to a sum divided by a count and a unit, of two the even one. O(limbs).

    The quotient of whole numbers has enough bits to be rounded once: a sum is given some limbs
    more, if it is divided. ``scratch`` has room for them, and for those of the sum.
    """
    spare = 0 if count == 1 and unit == 1 else SPARE
    negative = sums[at + limbs - 1] < 0
    sign = -1 if negative else 1
    carry = 0
    for i in range(spare):
        scratch[i] = 0
    for i in range(limbs):
        limb = sign * sums[at + i] + carry
        scratch[spare + i] = limb & _LIMB
        carry = limb >> _BITS
    top = spare + limbs - 1
    while top >= 0 and scratch[top] == 0:
        top -= 1
    if top < 0:
        return 0.0
    rest = 0
    if spare > 0:
        rest = _divide(scratch, top, count) | _divide(scratch, top, unit)
        while scratch[top] == 0:
            top -= 1
    return sign * _nearest(scratch, top, origin - spare * _BITS, rest)


@lean
def _divide(limbs: Ints, top: int, count: int) -> int:
    """Divide a number above zero, in place; returns the remainder. O(limbs)."""
    most = _BITS - _width(count)  # bits that can follow a remainder
    rest = 0
    for i in range(top, -1, -1):
        limb, quotient, left = limbs[i], 0, _BITS
        while left > 0:
            bits = min(most, left)
            left -= bits
            part = (rest << bits) | ((limb >> left) & ((1 << bits) - 1))
            digit = part // count
            rest = part - digit * count
            quotient = (quotient << bits) | digit
        limbs[i] = quotient
    return rest


@lean
def _nearest(limbs: Ints, top: int, origin: int, rest: int) -> float:
    """The float64 nearest to a number above zero; ``rest`` says whether a bit more is left."""
    # 55 bits from the highest one on: 53 to keep, one for the half, one for all that follows
    bits = limbs[top]
    width = _width(bits)
    below = top - 1
    if width > 55:
        rest |= bits & ((1 << (width - 55)) - 1)
        bits >>= width - 55
    elif width < 55:
        bits <<= 55 - width
        if below >= 0:
            bits |= limbs[below] >> (_BITS - 55 + width)
            rest |= limbs[below] & (_LIMB >> (55 - width))
            below -= 1
    while below >= 0:
        rest |= limbs[below]
        below -= 1
    if rest != 0:
        bits |= 1
    exponent = origin + top * _BITS + width - 53 - 1074
    cut = 2 + min(max(-1074 - exponent, 0), 55)  # numbers near zero have fewer bits
    exponent = max(exponent, -1074)
    mantissa, tail, half = bits >> cut, bits & ((1 << cut) - 1), 1 << (cut - 1)
    if tail > half or (tail == half and mantissa & 1 == 1):
        mantissa += 1
    if exponent > 971 or (exponent == 971 and mantissa == 1 << 53):
        return math.inf
    return math.ldexp(float(mantissa), int(exponent))


@lean
def _width(whole: int) -> int:
    """Bits of a number above zero; one float64 would round it."""
    if whole >> 31 > 0:
        return math.frexp(float(whole >> 31))[1] + 31
    return math.frexp(float(whole))[1]


@lean
def scaled(threshold: float, origin: int, limbs: int) -> float:
    """A threshold in units of a sum's last limb but one, for :func:`is_surely_below`.

    -inf, which no sum is below, if rounding of totals near the threshold may bring them up to it.
    """
    if not 1e-290 < abs(threshold) < 1e290:
        return -np.inf
    exponent = 1074 - origin - _BITS * (limbs - 2)
    if math.frexp(threshold)[1] + exponent > 200:
        return math.copysign(_BEYOND, threshold)
    return math.ldexp(threshold, int(exponent))


@lean
def is_surely_below(sums: Ints, at: int, limbs: int, threshold: float) -> bool:
    """Whether a sum is below a scaled threshold, and by so much that rounding does not matter.

    O(1), where :func:`rounded` costs several times as much. False says nothing.
    """
    high, low = float(sums[at + limbs - 1]) * 2.0**_BITS, float(sums[at + limbs - 2])
    margin = (abs(high) + low) * _MARGIN + 1.0
    return high + low + margin < threshold - abs(threshold) * _MARGIN
