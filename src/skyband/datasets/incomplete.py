"""Incomplete streams: each stream carries one attribute of the objects, and may miss objects."""

from __future__ import annotations

import random
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from typing_extensions import override

from skyband.datasets.arrivals import Rate
from skyband.datasets.blocks import BLOCK, places
from skyband.datasets.source import Dataset, Source
from skyband.errors import QueryError
from skyband.order import Floats, Ints

_TRIES = 8  # random picks before all candidates are looked at
_START = int(np.datetime64("2009-11-02", "us").astype(np.int64))
_APART = 1_000  # microseconds between rows
_SEEDS = 1 << 32  # between the seeds of successive blocks


class Sightings(NamedTuple):
    """Rows in order of arrival: an object, the number of a stream, and a value from 0 to 1."""

    id: Ints
    stream: Ints
    value: Floats


def sightings(
    rows: int, streams: int = 3, xi: float = 0.5, memory: int = 100, seed: int = 0
) -> Sightings:
    """Draw rows of streams that take turns; no object comes twice in one of them.

    With probability ``xi`` a stream repeats an object that is among the last ``memory`` of another
    stream and has not come in this one; otherwise, or if there is none, the object is new. Values
    are uniform.

    Complexity: O(1) a row, in plain Python; memory for each object.

    Reference: Haghani et al., CIKM 2009, section 6.1.1. Deviations: the paper does not say which
    values objects have, nor how streams alternate; both are our choice.

    >>> rows = sightings(6, streams=2, xi=1.0)
    >>> rows.stream.tolist(), rows.id.tolist()
    ([0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 2, 2])
    """
    if not 0 <= xi <= 1:
        raise QueryError(f"xi is {xi!r}", "a probability", "write xi=0.5")
    if streams < 1 or memory < 1 or rows < 0:
        raise QueryError(
            f"{rows} rows of {streams} streams with a memory of {memory}",
            "one stream and a memory of one at least",
            "write streams=3, memory=100",
        )
    chance = random.Random(seed)
    ids = np.empty(rows, np.int64)
    recent: list[list[int]] = [[] for _ in range(streams)]
    came: list[int] = []  # per object: the streams in which it came, as bits
    for at in range(rows):
        stream = at % streams
        obj = -1
        if streams > 1 and chance.random() < xi:
            obj = _pick(chance, recent, came, stream)
        if obj < 0:
            obj = len(came)
            came.append(0)
        came[obj] |= 1 << stream
        mine = recent[stream]
        if len(mine) < memory:
            mine.append(obj)
        else:
            mine[at // streams % memory] = obj
        ids[at] = obj
    value = np.random.default_rng(seed).random(rows)
    return Sightings(ids, np.arange(rows, dtype=np.int64) % streams, value)


def _pick(chance: random.Random, recent: list[list[int]], came: list[int], stream: int) -> int:
    """Pick a recent object of another stream that has not come in this one, -1 if there is none."""
    others = [one for at, one in enumerate(recent) if at != stream and one]
    total = sum(map(len, others))
    for _ in range(_TRIES if total else 0):
        place = chance.randrange(total)
        for other in others:
            if place < len(other):
                break
            place -= len(other)
        obj = other[place]
        if not came[obj] >> stream & 1:
            return obj
    left = [obj for other in others for obj in other if not came[obj] >> stream & 1]
    return chance.choice(left) if left else -1


class Seen(Source):
    """Objects seen in streams that take turns, a row a millisecond.

    Reference: Haghani et al., CIKM 2009, section 6.1.1. Deviations: those of :func:`sightings`; and
    every block of rows begins with an empty memory.
    """

    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("stream", pa.string()),
            ("value", pa.float64()),
            ("ts", pa.timestamp("us", tz="UTC")),
        ]
    )

    def __init__(self, streams: int, xi: float, memory: int) -> None:
        self.names = [f"s{number}" for number in range(1, streams + 1)]
        self.xi = xi
        self.memory = memory

    @override
    def block(self, seed: int, number: int, rate: Rate) -> pa.RecordBatch:
        drawn = self._sightings(seed, number)
        place = places(number)
        columns = [
            pa.array(drawn.id + number * BLOCK),
            pa.array(self.names).take(pa.array(place % len(self.names))),
            pa.array(drawn.value),
            pa.array(_START + place * _APART, self.schema.field("ts").type),
        ]
        return pa.record_batch(columns, schema=self.schema)

    @override
    def scores(self, seed: int, number: int) -> Floats:
        return self._sightings(seed, number).value

    def _sightings(self, seed: int, number: int) -> Sightings:
        block_seed = seed + number * _SEEDS
        return sightings(BLOCK, len(self.names), self.xi, self.memory, block_seed)


@cache
def sighted(streams: int = 3, xi: float = 0.5, memory: int = 100) -> Dataset:
    """Return the rows of :func:`sightings` as a data set of any length."""
    sightings(0, streams, xi, memory)  # raises for arguments that make no sense
    return Dataset(
        name="sightings",
        title="SIGHTINGS: objects in unsynchronised streams",
        description="Objects of which each stream sees a value, in no order, or does not.",
        score="value",
        time="ts",
        source=Seen(streams, xi, memory),
        seen=("id", "stream", "value"),
    )
