"""COVER: plots of forest, surveyed area by area."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from typing_extensions import override

from skyband.datasets.arrivals import Rate
from skyband.datasets.blocks import BLOCK, generator, places
from skyband.datasets.source import Dataset, Source
from skyband.datasets.walks import walks
from skyband.order import Floats, Ints

AREA = 4_096
"""Plots of an area, one after the other in the stream."""

_STREAM = 12
_LEVELS = 6  # what differs from area to area
_SLOW = 2.0  # areas until a level has moved by half a radian
_SUNS = ((0.70, 0.71, 2.0), (0.87, 0.50, 3.2), (0.70, 0.71, 4.3))  # cosine, sine, direction


class Cover(Source):
    """Plots with attributes of different scales, in whole metres, degrees and shades.

    Areas of 4,096 plots follow each other. Each is like its neighbours, for what it is like
    (height, ruggedness, aspect, how far water, roads and fires are) wanders from area to area; so
    the distribution drifts, and the best plots of a window change often. Hillshade is 0 to 254 at
    nine, noon and three, and follows from slope and aspect.

    Reference: Kontaki et al., TKDE 2012, section 9 (FC, Forest Cover).

    Deviations: drawn, not the survey's records. Directions are those of somebody who looks for a
    place to build: low and level, close to water and roads, far from fires, in the sun.
    """

    schema = pa.schema(
        [
            (name, pa.int64())
            for name in (
                *("plot", "area", "elevation", "slope", "water", "road", "fire"),
                *("shade_9am", "shade_noon", "shade_3pm"),
            )
        ]
    )

    @override
    def block(self, seed: int, number: int, rate: Rate) -> pa.RecordBatch:
        place = places(number)
        columns = [place + 1, place // AREA + 1, *_plots(seed, number)]
        return pa.record_batch(columns, schema=self.schema)

    @override
    def scores(self, seed: int, number: int) -> Floats:
        return _plots(seed, number)[0].astype(np.float64)


def _plots(seed: int, number: int) -> list[Ints]:
    """The attributes of a block: elevation, slope, water, road, fire, three shades."""
    rng = generator(seed, _STREAM, number)
    areas = range(number * (BLOCK // AREA), (number + 1) * (BLOCK // AREA))
    levels = np.sin(np.stack([walks(seed, _LEVELS, area) for area in areas], axis=1) / _SLOW)
    height, rugged, turn, wet, wild, dry = np.repeat(levels, AREA, axis=1)
    slope = _around(rng, 14.0, 0.5 * rugged, 3.0).clip(0, 66)
    aspect = np.pi * (1 + turn) + 1.2 * rng.standard_normal(BLOCK)
    tilt, lie = np.radians(slope), 0.45 * np.radians(slope)
    shades = [
        254 * (cos * np.cos(lie) + sin * np.sin(tilt) * np.cos(way - aspect)).clip(0, 1)
        for cos, sin, way in _SUNS
    ]
    columns = [
        2_750 + 700 * height + 120 * rng.standard_normal(BLOCK),
        slope,
        _around(rng, 270.0, -0.6 * wet, 1.0),
        _around(rng, 2_350.0, 0.7 * wild, 2.0),
        _around(rng, 1_980.0, -0.7 * dry, 2.0),
        *shades,
    ]
    return [np.rint(column).astype(np.int64) for column in columns]


def _around(rng: np.random.Generator, mean: float, level: Floats, shape: float) -> Floats:
    """Positive values with a tail, about a mean that is multiplied by the exponent of a level."""
    drawn: Floats = mean * np.exp(level) * rng.standard_gamma(shape, BLOCK) / shape
    return drawn


COVER = Dataset(
    name="cover",
    title="COVER: plots of forest",
    description="Plots of forest, area by area: eight attributes of mixed scales that drift.",
    score="elevation",
    time=None,
    source=Cover(),
    dimensions=(
        ("elevation", "min"),
        ("slope", "min"),
        ("water", "min"),
        ("road", "min"),
        ("fire", "max"),
        ("shade_9am", "max"),
        ("shade_noon", "max"),
        ("shade_3pm", "max"),
    ),
)
