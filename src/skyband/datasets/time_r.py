"""TIME-R: scores that rise and fall with the order of arrival."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
from typing_extensions import override

from skyband.datasets.arrivals import Rate
from skyband.datasets.blocks import BLOCK, places
from skyband.datasets.source import Dataset, Source
from skyband.order import Floats

HALF = 1_000_000  # rows of half a wave


class TimeR(Source):
    """Scores ``sin(pi * t / 10^6)`` of the arrival number t = 1, 2, 3, ...; the seed is ignored.

    Reference: Zhu et al., TKDE 29(6), 2017, section 6.1.

    Deviations: the wave is folded to its first quarter, so that scores that are equal by the
    formula are equal as numbers too, however large t is, and ties are real ties.
    """

    schema = pa.schema([("t", pa.int64()), ("score", pa.float64())])

    @override
    def block(self, seed: int, number: int, rate: Rate) -> pa.RecordBatch:
        return pa.record_batch([places(number) + 1, self.scores(seed, number)], schema=self.schema)

    @override
    def scores(self, seed: int, number: int) -> Floats:
        wave = _wave()
        first = (number * BLOCK + 1) % len(wave)
        head = wave[first : first + BLOCK]
        return np.concatenate([head, wave[: BLOCK - len(head)]])


@cache
def _wave() -> Floats:
    """One whole wave, from t = 0."""
    rise = np.sin(np.pi * np.arange(HALF // 2 + 1) / HALF)
    hill = np.concatenate([rise, rise[-2:0:-1]])
    return np.concatenate([hill, 0.0 - hill])  # 0.0 - 0.0 is 0.0, where -0.0 would not be


TIME_R = Dataset(
    name="time_r",
    title="TIME-R: scores tied to the order of arrival",
    description="Scores sin(pi * t / 10^6) of the arrival number t: long rises, long falls.",
    score="score",
    time=None,
    source=TimeR(),
)
