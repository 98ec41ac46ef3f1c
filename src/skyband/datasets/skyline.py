"""IND, ANT, COR: the usual points of studies of dominance, of one to eight dimensions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from typing_extensions import override

from skyband.datasets.arrivals import Rate
from skyband.datasets.blocks import BLOCK, generator, places
from skyband.datasets.source import Dataset, Source
from skyband.errors import QueryError
from skyband.order import Floats

MOST = 8
"""The largest number of dimensions."""
USUAL = 4
"""Dimensions by default."""

_PLANES = 1 / 24  # spread of anticorrelated points about the middle plane
_DIAGONAL = 1 / 6  # spread of correlated points about the diagonal, of the way to the border


def _independent(rng: np.random.Generator, width: int) -> Floats:
    return rng.random((BLOCK, width))


def _anticorrelated(rng: np.random.Generator, width: int) -> Floats:
    """Points anywhere on planes across the diagonal, nearly all of them close to the middle."""
    plane = 0.5 + _PLANES * rng.standard_normal(BLOCK)
    return _across(plane, rng.uniform(-1.0, 1.0, (BLOCK, width)))


def _correlated(rng: np.random.Generator, width: int) -> Floats:
    """Points near the diagonal on planes across it, more often planes close to the middle."""
    plane = rng.random((BLOCK, width)).mean(axis=1)
    return _across(plane, _DIAGONAL * rng.standard_normal((BLOCK, width)))


def _across(plane: Floats, moves: Floats) -> Floats:
    """Points on planes: a move adds to one coordinate and takes as much from the next."""
    moves = moves * np.minimum(plane, 1 - plane)[:, None]
    points: Floats = plane[:, None] + moves - np.roll(moves, 1, axis=1)
    return points


class _Kind(NamedTuple):
    """A way to draw points: its stream number, title and description, candidates of a block."""

    stream: int
    title: str
    description: str
    draw: Callable[[np.random.Generator, int], Floats]


_KINDS = {
    "ind": _Kind(
        8,
        "IND: independent attributes",
        "Points with independent uniform attributes.",
        _independent,
    ),
    "ant": _Kind(
        9,
        "ANT: anticorrelated attributes",
        "Points that are good in one attribute and bad in others: few dominate many.",
        _anticorrelated,
    ),
    "cor": _Kind(
        10,
        "COR: correlated attributes",
        "Points that are good in all attributes or in none.",
        _correlated,
    ),
}

NAMES = tuple(_KINDS)


class Skyline(Source):
    """Points of the unit cube, drawn independently.

    Invariants: (1) all coordinates lie in [0, 1]; (2) candidates outside the cube are skipped, so
    the distribution is that of candidates inside it.

    Complexity: O(width) a point, times the candidates per point: 1 (IND), below 2 (COR), about 2
    to 10 (ANT, two to eight dimensions).

    Reference: Borzsonyi et al., ICDE 2001, section 5; Kontaki et al., TKDE 2012, section 9.

    Deviations: the distributions are described there in words; spreads are our reading of them.
    """

    def __init__(self, kind: str, width: int) -> None:
        self.kind = _KINDS[kind]
        self.names = [f"x{at}" for at in range(1, width + 1)]
        self.schema = pa.schema([("t", pa.int64()), *((name, pa.float64()) for name in self.names)])

    @override
    def block(self, seed: int, number: int, rate: Rate) -> pa.RecordBatch:
        columns = np.ascontiguousarray(self._points(seed, number).T)
        return pa.record_batch([places(number) + 1, *columns], schema=self.schema)

    @override
    def scores(self, seed: int, number: int) -> Floats:
        columns = self._points(seed, number).T
        total: Floats = columns[0].copy()
        for column in columns[1:]:
            total += column
        return total

    def _points(self, seed: int, number: int) -> Floats:
        rng = generator(seed, self.kind.stream, number)
        parts: list[Floats] = []
        missing = BLOCK
        while missing > 0:
            points = self.kind.draw(rng, len(self.names))
            inside = points[((points >= 0) & (points <= 1)).all(axis=1)]
            parts.append(inside[:missing])
            missing -= len(inside)
        return np.concatenate(parts)


@cache
def skyline(name: str, width: int = USUAL) -> Dataset:
    """Return points of one kind with ``width`` attributes ``x1``, ..., all to be minimised."""
    if isinstance(width, bool) or not isinstance(width, int) or not 1 <= width <= MOST:
        raise QueryError(
            f"dimensions is {width!r}", f"a whole number from 1 to {MOST}", f"write {USUAL}"
        )
    kind, source = _KINDS[name], Skyline(name, width)
    return Dataset(
        name=name,
        title=kind.title,
        description=kind.description,
        score=" + ".join(source.names),
        time=None,
        source=source,
        dimensions=tuple((attribute, "min") for attribute in source.names),
    )
