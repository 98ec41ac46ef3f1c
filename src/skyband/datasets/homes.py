"""HOMES: real estate, whose attributes rise together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from typing_extensions import override

from skyband.datasets.arrivals import Rate
from skyband.datasets.blocks import BLOCK, generator, places
from skyband.datasets.source import Dataset, Source
from skyband.order import Floats, Ints

_STREAM = 11


class _Listed(NamedTuple):
    """A block of homes, as numbers."""

    price: Ints
    area: Ints
    lot: Ints
    bedrooms: Ints
    bathrooms: Floats


class Homes(Source):
    """Homes for sale in no particular order: price, floor area, lot, bedrooms and bathrooms.

    All attributes rise with the floor area, on average. Numbers of rooms take few values, so many
    homes are equal in them.

    Reference: Kontaki et al., TKDE 2012, section 9 (ZIL, five correlated attributes).

    Deviations: drawn, not the listings of a web site. More is better in all five,
    the price included: with ``price`` to be minimised they would not be correlated.
    """

    schema = pa.schema(
        [
            ("listing", pa.int64()),
            ("price", pa.int64()),
            ("area", pa.int64()),
            ("lot", pa.int64()),
            ("bedrooms", pa.int64()),
            ("bathrooms", pa.float64()),
        ]
    )

    @override
    def block(self, seed: int, number: int, rate: Rate) -> pa.RecordBatch:
        return pa.record_batch([places(number) + 1, *_homes(seed, number)], schema=self.schema)

    @override
    def scores(self, seed: int, number: int) -> Floats:
        homes = _homes(seed, number)
        per_foot: Floats = homes.price / homes.area
        return per_foot


def _homes(seed: int, number: int) -> _Listed:
    rng = generator(seed, _STREAM, number)

    def noise(spread: float) -> Floats:
        drawn: Floats = spread * rng.standard_normal(BLOCK)
        return drawn

    large = rng.standard_normal(BLOCK)
    area = np.rint(1_650 * np.exp(0.42 * large + noise(0.08))).clip(250, 20_000)
    lot = np.rint(6_500 * np.exp(0.45 * large + noise(0.55))).clip(600, 900_000)
    bedrooms = np.rint(1.1 + area / 850 + noise(0.6)).clip(1, 12)
    bathrooms = np.rint(2 * (0.4 + area / 1_100 + noise(0.35))).clip(2, 20) / 2
    price = 230_000 * (area / 1_650) ** 0.95 * (lot / 6_500) ** 0.15 * np.exp(noise(0.35))
    price = np.rint(price / 100) * 100
    columns = [values.astype(np.int64) for values in (price, area, lot, bedrooms)]
    return _Listed(columns[0], columns[1], columns[2], columns[3], bathrooms)


HOMES = Dataset(
    name="homes",
    title="HOMES: real estate",
    description="Homes for sale: price, floor area, lot, bedrooms, bathrooms, all correlated.",
    score="price / area",
    time=None,
    source=Homes(),
    dimensions=(
        ("price", "max"),
        ("area", "max"),
        ("lot", "max"),
        ("bedrooms", "max"),
        ("bathrooms", "max"),
    ),
)
