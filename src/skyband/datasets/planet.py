"""PLANET: where minor planets were observed."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from typing_extensions import override

from skyband.datasets.arrivals import Rate
from skyband.datasets.blocks import BLOCK, generator, places
from skyband.datasets.source import Dataset, Source
from skyband.order import Floats, Ints

OBJECTS = 100_000

_STREAM = 5
_ORBITS = 6
_A_YEAR = 10_000_000  # observations
_TRACKLET = 4  # observations of an object, one after the other
_TWENTY_MINUTES = 20 / (60 * 24 * 365.25)  # in years
_CHOICES = 4  # objects looked at for each tracklet; the one nearest to opposition is observed
_TURN = 2 * np.pi


class Orbits(NamedTuple):
    """One orbit per object: astronomical units, radians, years."""

    axis: Floats
    eccentricity: Floats
    anomaly: Floats
    perihelion: Floats
    node: Floats
    inclination: Floats


class Planet(Source):
    """Observed positions x, y, z around the sun, in astronomical units.

    100,000 minor planets on Kepler orbits: the main belt with its gaps, and some near the earth
    and beside Jupiter. Each is observed four times in a row, mostly while opposite to the sun, so
    the scores of neighbours are alike and the whole drifts through the year.

    Reference: Zhu et al., TKDE 29(6), 2017, section 6.1 (distance to a given point).

    Deviations: drawn, not the Minor Planet Center's records; the given point is where the earth
    stands in September, (1, 0, 0). The score multiplies rather than calls ``power``, so that every
    engine gets the same last bit.
    """

    schema = pa.schema(
        [
            ("observation", pa.int64()),
            ("object", pa.int64()),
            ("x", pa.float64()),
            ("y", pa.float64()),
            ("z", pa.float64()),
        ]
    )

    @override
    def block(self, seed: int, number: int, rate: Rate) -> pa.RecordBatch:
        seen, x, y, z = _observations(seed, number)
        return pa.record_batch([places(number) + 1, seen + 1, x, y, z], schema=self.schema)

    @override
    def scores(self, seed: int, number: int) -> Floats:
        _, x, y, z = _observations(seed, number)
        distance: Floats = np.sqrt((x - 1) * (x - 1) + y * y + z * z)
        return distance


@lru_cache(maxsize=2)
def _orbits(seed: int) -> Orbits:
    rng = generator(seed, _ORBITS, 0)
    axis = rng.choice([2.36, 2.62, 2.89, 3.12], OBJECTS, p=[0.28, 0.30, 0.12, 0.30])
    axis += 0.06 * rng.standard_normal(OBJECTS)
    kind = rng.random(OBJECTS)
    axis = np.where(kind < 0.02, rng.uniform(1.0, 1.8, OBJECTS), axis)
    axis = np.where(kind > 0.97, 5.2 + 0.05 * rng.standard_normal(OBJECTS), axis)
    return Orbits(
        axis,
        np.minimum(rng.rayleigh(0.1, OBJECTS), 0.4),
        rng.uniform(0, _TURN, OBJECTS),
        rng.uniform(0, _TURN, OBJECTS),
        rng.uniform(0, _TURN, OBJECTS),
        np.minimum(rng.rayleigh(0.12, OBJECTS), 0.6),
    )


def _observations(seed: int, number: int) -> tuple[Ints, Floats, Floats, Floats]:
    """Objects seen in a block, from 0, and their positions."""
    orbits = _orbits(seed)
    rng = generator(seed, _STREAM, number)
    years = places(number)[::_TRACKLET] / _A_YEAR
    choices = rng.integers(0, OBJECTS, (BLOCK // _TRACKLET, _CHOICES))
    longitude = orbits.node + orbits.perihelion + orbits.anomaly
    turned = longitude[choices] + _motion(orbits, choices) * years[:, None]
    away = np.abs((turned - _TURN * years[:, None] + np.pi) % _TURN - np.pi)
    nearest = choices[np.arange(len(choices)), np.argmin(away, axis=1)]
    when = years[:, None] + np.arange(_TRACKLET) * _TWENTY_MINUTES
    return np.repeat(nearest, _TRACKLET), *_position(orbits, nearest[:, None], when)


def _motion(orbits: Orbits, seen: Ints) -> Floats:
    """Radians a year, by Kepler's third law."""
    motion: Floats = _TURN * orbits.axis[seen] ** -1.5
    return motion


def _position(orbits: Orbits, seen: Ints, years: Floats) -> tuple[Floats, Floats, Floats]:
    e, node, tilt = orbits.eccentricity[seen], orbits.node[seen], orbits.inclination[seen]
    mean = orbits.anomaly[seen] + _motion(orbits, seen) * years
    true = mean + (2 * e - e**3 / 4) * np.sin(mean) + 1.25 * e * e * np.sin(2 * mean)
    radius = orbits.axis[seen] * (1 - e * e) / (1 + e * np.cos(true))
    angle = orbits.perihelion[seen] + true
    along, across = radius * np.cos(angle), radius * np.sin(angle)
    flat = across * np.cos(tilt)
    x = along * np.cos(node) - flat * np.sin(node)
    y = along * np.sin(node) + flat * np.cos(node)
    z = across * np.sin(tilt)
    return x.round(6).ravel(), y.round(6).ravel(), z.round(6).ravel()


PLANET = Dataset(
    name="planet",
    title="PLANET: observations of minor planets",
    description="Observed positions of minor planets, by distance from a given point.",
    score="sqrt((x - 1) * (x - 1) + y * y + z * z)",
    time=None,
    source=Planet(),
)
