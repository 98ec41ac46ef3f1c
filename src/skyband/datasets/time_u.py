"""TIME-U: uniform scores that have nothing to do with the order of arrival."""

from __future__ import annotations

import pyarrow as pa
from typing_extensions import override

from skyband.datasets.arrivals import Rate
from skyband.datasets.blocks import BLOCK, generator, places
from skyband.datasets.source import Dataset, Source
from skyband.order import Floats

_STREAM = 1


class TimeU(Source):
    """Independent uniform scores in [0, 1).

    Reference: Zhu et al., TKDE 29(6), 2017, section 6.1.

    Deviations: the paper asks only that scores and order be independent; uniform is our choice,
    as in the literature it compares with.
    """

    schema = pa.schema([("t", pa.int64()), ("score", pa.float64())])

    @override
    def block(self, seed: int, number: int, rate: Rate) -> pa.RecordBatch:
        return pa.record_batch([places(number) + 1, self.scores(seed, number)], schema=self.schema)

    @override
    def scores(self, seed: int, number: int) -> Floats:
        return generator(seed, _STREAM, number).random(BLOCK)


TIME_U = Dataset(
    name="time_u",
    title="TIME-U: uniform scores",
    description="Uniform scores in [0, 1), independent of the order of arrival.",
    score="score",
    time=None,
    source=TimeU(),
)
