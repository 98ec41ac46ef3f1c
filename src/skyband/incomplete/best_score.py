"""What attributes that were not seen may yet be worth: the most, or by the chance of seeing them.

Chances come from the streams themselves: of the objects of this window that came in some streams,
how many came in another, too. A sketch per stream tells how many objects came in any of several,
and sums and differences of those how many came in all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.incomplete.combine import ADD, MOST, REPEATS, WIDTH, Rule
from skyband.incomplete.self_join import SelfJoin, note_repeat, repeats, self_join
from skyband.incomplete.sketch import Sketch, distinct, note, sketch
from skyband.kernels.jit import entry, lean
from skyband.order import Floats, Ints

CERTAIN, CHANCES, FORESIGHT = 0, 1, 2  # how much is hoped for
KIND, REFRESHED = 0, 1
STREAMS = 8
"""Streams at most of which chances are told, for there are two to the power of them."""


class Hopes(NamedTuple):
    """``value[seen * streams + stream]``: what to hope for, given the streams seen as bits."""

    value: Floats  # of one row only, the highest bounds, if nothing is left to chance
    often: Floats  # per stream: how often an object comes at most
    union: Floats  # per set of streams: objects in any of them
    sketch: Sketch
    joins: SelfJoin
    numbers: Ints


def certain(by: Rule) -> Hopes:
    """The highest bounds."""
    often = np.full(len(by.high), float(by.numbers[MOST]))
    return Hopes(
        by.high.copy(), often, np.zeros(1), sketch(1, 1), self_join(1, 1), np.zeros(2, np.int64)
    )


def chances(by: Rule, span: int, maps: int) -> Hopes:
    """Chances that are learnt from sketches with so many bitmaps; the highest bounds at first."""
    width = len(by.high)
    return Hopes(
        np.tile(by.high, 1 << width),
        np.full(width, float(by.numbers[MOST])),
        np.zeros(1 << width),
        sketch(width, maps),
        self_join(width, span),
        np.array([CHANCES, 0], np.int64),
    )


@lean
def learn(hopes: Hopes, by: Rule, stream: int, id: int, until: int) -> None:
    """A row came that lives until a window. O(1)."""
    note(hopes.sketch, stream, id, until)
    if by.numbers[REPEATS] == ADD:
        note_repeat(hopes.joins, stream, id, until)


@entry
def refresh(hopes: Hopes, by: Rule, window: int) -> None:
    """Bring the chances up to date with the objects of a window.

    O(2**streams * maps + 3**streams).
    """
    width = by.numbers[WIDTH]
    for some in range(1, 1 << width):
        hopes.union[some] = distinct(hopes.sketch, some, window)
    for seen in range(1, 1 << width):
        base = _in_all(hopes.union, seen)
        for stream in range(width):
            both = _in_all(hopes.union, seen | (1 << stream))
            chance = min(both / base, 1.0) if base >= 1.0 else 1.0
            low, high = by.low[stream], by.high[stream]
            hopes.value[seen * width + stream] = low + chance * (high - low)
    if by.numbers[REPEATS] == ADD:
        for stream in range(width):
            often = np.ceil(repeats(hopes.joins, stream, window))
            hopes.often[stream] = min(float(by.numbers[MOST]), often)
    hopes.numbers[REFRESHED] = window


@lean
def _in_all(union: Floats, streams: int) -> float:
    """How many objects came in each of these streams: unions, added and taken away."""
    found = 0.0
    some = streams
    while some > 0:
        found += union[some] if _odd(some) else -union[some]
        some = (some - 1) & streams
    return max(found, 0.0)


@lean
def _odd(some: int) -> bool:
    """Whether the number of streams is odd."""
    found = False
    while some > 0:
        found = not found
        some &= some - 1
    return found


@lean
def hoped(hopes: Hopes, by: Rule, seen: int, stream: int, times: int, value: float) -> float:
    """What an attribute may be worth that came so many times and is now worth ``value``.

    ``seen`` are the streams in which the object came; NaN stands for no value.
    """
    if times == 0:
        return hopes.often[stream] * hopes.value[seen * by.numbers[WIDTH] + stream]
    left = hopes.often[stream] - times
    if left <= 0.0:
        return value
    return left * by.high[stream] if value != value else value + left * by.high[stream]
