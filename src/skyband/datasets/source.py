"""A data set: its name, its score expression, and the source of its rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from skyband.datasets.arrivals import RATES, Rate
from skyband.datasets.blocks import cut_batches, cut_scores
from skyband.errors import QueryError
from skyband.order import Floats

Direction = Literal["min", "max"]


class Source(ABC):
    """Makes any block of a stream from a seed and the block's number, with no memory of others."""

    schema: pa.Schema
    rated: ClassVar[bool] = False  # whether arrivals follow a rate that can be made bursty

    def length(self) -> int | None:
        """Return the number of rows, None for an endless stream.

        Raises :class:`DataError` if the rows cannot be read.
        """
        return None

    @abstractmethod
    def block(self, seed: int, number: int, rate: Rate) -> pa.RecordBatch:
        """Return all columns of a block."""

    @abstractmethod
    def scores(self, seed: int, number: int) -> Floats:
        """Return the scores of a block at an even rate, NaN where a row has none.

        Cheaper than :meth:`block`: the other columns are not made where they are not needed.
        """


@dataclass(frozen=True)
class Dataset:
    """A named stream that can be read again and again, in chunks of any size.

    ``score`` is the score as an SQL expression over ``columns`` that DuckDB and Spark both know;
    ``time`` names the timestamp column by which the rows are sorted, None if there is none (such
    streams are read with count windows). ``dimensions`` names the attributes by which points
    of the stream dominate others, and which direction is better; it is empty for streams that only
    have scores. ``seen`` names the columns of object, stream and value of incomplete streams.

    Invariants: (1) a row depends on seed, rate and its place alone, not on ``chunk``, nor on
    ``rows``; (2) times never go back; (3) ``scores`` are what ``score`` gives over ``chunks`` at an
    even rate, NULL as NaN.

    Complexity: O(1) a row; space O(chunk), whatever the number of rows.

    Deviations: the numbers come from NumPy's generators, whose distributions may change between
    NumPy releases; within one release the same seed gives the same rows.

    >>> from skyband.datasets import dataset
    >>> stream = dataset("time_u")
    >>> stream.columns
    ('t', 'score')
    >>> [batch.num_rows for batch in stream.chunks(250_000, seed=7, chunk=100_000)]
    [100000, 100000, 50000]
    """

    name: str
    title: str
    description: str
    score: str
    time: str | None
    source: Source = field(repr=False, compare=False)
    dimensions: tuple[tuple[str, Direction], ...] = ()
    seen: tuple[str, str, str] | None = None
    columns: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.source.schema.names))

    @property
    def schema(self) -> pa.Schema:
        """The columns with their Arrow types."""
        return self.source.schema

    def chunks(
        self, rows: int, seed: int = 0, chunk: int = 1_000_000, rate: Rate = "even"
    ) -> Iterator[pa.RecordBatch]:
        """The first ``rows`` rows, all columns, in batches of ``chunk`` rows.

        ``rate="bursty"`` makes arrivals come in bursts and lulls; it needs a data set whose
        arrivals are generated. Raises :class:`QueryError` for arguments that make no sense and
        :class:`DataError` for real data that is not installed, both before the first batch.
        """
        rows = self._check(rows, seed, chunk)
        if rate not in RATES:
            raise QueryError(f"rate is {rate!r}", "'even' or 'bursty'", "leave rate out")
        if rate != "even" and not self.source.rated:
            raise QueryError(
                f"rate is {rate!r} for {self.name}",
                "a data set with generated arrival times",
                "leave rate out, or use stock, trip, gmti, network, cameras, flows or worldcup",
            )
        return cut_batches(lambda number: self.source.block(seed, number, rate), rows, chunk)

    def scores(self, rows: int, seed: int = 0, chunk: int = 1_000_000) -> Iterator[Floats]:
        """The scores of the first ``rows`` rows, in arrays of ``chunk``; raises as ``chunks``."""
        rows = self._check(rows, seed, chunk)
        return cut_scores(lambda number: self.source.scores(seed, number), rows, chunk)

    def points(self, rows: int, seed: int = 0, chunk: int = 1_000_000) -> Iterator[Floats]:
        """The dimensions of the first ``rows`` rows, a column each, as matrices of ``chunk`` rows.

        Raises as ``chunks``, and for a data set without dimensions.
        """
        if not self.dimensions:
            raise QueryError(
                f"points of {self.name}", "a data set with dimensions", "use ant, homes or network"
            )
        return map(self._matrix, self.chunks(rows, seed, chunk))

    def _matrix(self, batch: pa.RecordBatch) -> Floats:
        columns = [batch.column(name).to_numpy() for name, _ in self.dimensions]
        return np.stack(columns, axis=1, dtype=np.float64)

    def _check(self, rows: int, seed: int, chunk: int) -> int:
        _whole(rows, "rows", 0, "write rows=1_000_000")
        _whole(seed, "seed", 0, "write seed=0")
        _whole(chunk, "chunk", 1, "write chunk=1_000_000")
        length = self.source.length()
        return int(rows) if length is None else min(int(rows), length)


def _whole(value: Any, what: str, least: int, fix: str) -> None:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))
    if not whole or value < least:
        raise QueryError(f"{what} is {value!r}", f"a whole number of at least {least}", fix)
