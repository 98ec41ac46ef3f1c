"""From what people push (NumPy, Arrow, lists) to plain columns, with what was left out counted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skyband.engine.whole_numbers import codes_of
from skyband.errors import DataError
from skyband.order import Bools, Floats, Ints

if TYPE_CHECKING:
    import pyarrow as pa

_FARTHEST = 1 << 60  # of times from zero
_SURE_DIGITS = 15  # of decimals that are all different as float64
_EXACT = 1 << 53  # whole numbers up to here are float64 numbers


@dataclass
class Dropped:
    """Rows that were not ranked, by reason."""

    null_score: int = 0
    nan_score: int = 0
    null_time: int = 0
    late: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.null_score + self.nan_score + self.null_time + self.late

    def __str__(self) -> str:
        parts = [
            f"{count:,} {reason}"
            for count, reason in (
                (self.null_score, "with a NULL score"),
                (self.nan_score, "with a NaN score"),
                (self.null_time, "with a NULL time"),
                (self.late, "late"),
            )
            if count
        ]
        return ", ".join(parts) or "none"


def score_column(values: Any, what: str = "scores") -> tuple[Floats, Bools | None]:
    """A column of scores as float64 with NULL as NaN, and where it is NULL (None: nowhere)."""
    if type(values) is np.ndarray and values.dtype == np.float64 and values.ndim == 1:
        flags = values.flags  # kernels are compiled for contiguous, writable arrays only
        if flags.c_contiguous and flags.writeable:
            return values, None
    array, null = _plain(values, what)
    if array.dtype == np.bool_ or not np.issubdtype(array.dtype, np.number):
        raise DataError(
            f"{what} are of type {array.dtype}", "numbers", "rank by a numeric column or expression"
        )
    if np.issubdtype(array.dtype, np.complexfloating):
        raise DataError(f"{what} are complex", "real numbers", "rank by their magnitude")
    wide = np.issubdtype(array.dtype, np.integer) and array.dtype.itemsize == 8 and len(array)
    if wide and max(int(array.max()), -int(array.min())) > _EXACT:
        raise DataError(
            f"{what} hold whole numbers beyond 2**53",
            "numbers that float64 tells apart",
            "ask the query with numbers='int64', or convert them to floats to accept ties",
        )
    column = array.astype(np.float64, copy=False)
    if null is not None:
        column = np.where(null, np.nan, column)
    # kernels are compiled for contiguous, writable arrays only: others are copied
    column = np.require(column, requirements=["C", "W"])
    return column, null


def number_column(values: Any, numbers: str, what: str = "scores") -> tuple[Floats, Bools | None]:
    """The same; whole numbers, if they are to be exact, as their codes."""
    if numbers == "float64":
        return score_column(values, what)
    array, null = _plain(values, what)
    return codes_of(array, null, what), null


def array_or_column(batch: pa.RecordBatch, name: str) -> Any:
    """A column as an array of our own; the Arrow column itself if there are NULLs.

    Kernels are compiled for arrays that may be written to, which Arrow's may not; and Arrow's way
    to NumPy imports pandas, if it is there, which takes longer than most queries.
    """
    column = batch.column(name)
    return column if column.null_count else np.array(np.from_dlpack(column))


def id_column(values: Any, rows: int) -> Ints:
    """A column of ids as int64."""
    if type(values) is np.ndarray and values.dtype == np.int64 and values.shape == (rows,):
        return values
    array, null = _plain(values, "ids")
    if len(array) != rows:
        raise DataError(f"{len(array)} ids for {rows} rows", "one id per row", "push equal lengths")
    if null is not None and null.any():
        raise DataError(f"{int(null.sum())} ids are NULL", "an id for each row", "leave ids out")
    if not rows:
        return np.empty(0, np.int64)
    if not np.issubdtype(array.dtype, np.integer) or int(array.max()) >= 1 << 63:
        raise DataError(
            f"ids are of type {array.dtype}",
            "whole numbers below 2**63",
            "push row numbers as ids and look other keys up by them",
        )
    return array.astype(np.int64, copy=False)


def arrival_numbers(key: Ints, before: tuple[int, int] | None) -> Ints:
    """Each row's arrival number within its key; rows come key by key.

    ``before`` holds the key and the number of the row before the first, if there is one.

    >>> arrival_numbers(np.array([3, 3, 5, 5, 5]), before=(3, 0)).tolist()
    [1, 2, 0, 1, 2]
    """
    begins = np.flatnonzero(np.diff(key, prepend=key[:1] - 1))
    ahead = np.zeros(len(begins), dtype=np.int64)
    if len(key) and before is not None and before[0] == key[0]:
        ahead[0] = before[1] + 1
    counts = np.diff(np.append(begins, len(key)))
    return np.arange(len(key), dtype=np.int64) - np.repeat(begins - ahead, counts)


def time_column(values: Any, rows: int, unit: str) -> tuple[Ints, Bools | None]:
    """A column of times as int64 in the window's unit, and where it is NULL (None: nowhere)."""
    array, null = _plain(values, "times")
    if len(array) != rows:
        raise DataError(
            f"{len(array)} times for {rows} rows", "one time per row", "push equal lengths"
        )
    if not rows:
        return np.empty(0, np.int64), None
    if np.issubdtype(array.dtype, np.datetime64):
        if unit == "tick":
            raise DataError(
                "times are timestamps but the window is in ticks",
                "a window such as last(time='1 hour')",
                "give window and slide as durations",
            )
        missing = np.isnat(array)
        if missing.any():
            null = missing if null is None else null | missing
        return _within_reach(array.astype("datetime64[us]").astype(np.int64), null), null
    if not np.issubdtype(array.dtype, np.integer):
        raise DataError(
            f"times are of type {array.dtype}",
            "timestamps or whole numbers",
            "convert them first; whole numbers are microseconds, or ticks of a tick window",
        )
    return _within_reach(array.astype(np.int64, copy=False), null), null


def _within_reach(times: Ints, null: Bools | None) -> Ints:
    """The times, NULL as 0; refuses what window arithmetic could not carry."""
    if null is not None:
        times = np.where(null, 0, times)
    if len(times) and (times.max() > _FARTHEST or times.min() < -_FARTHEST):
        raise DataError(
            "a time beyond 2**60",
            "times closer to zero",
            "check the unit (microseconds, or ticks of a tick window), or subtract a common start",
        )
    return times


def moment(value: Any, unit: str) -> int:
    """A single time, such as a watermark, in the window's unit."""
    from datetime import datetime

    if isinstance(value, datetime):
        if value.tzinfo is None:
            value = value.replace(tzinfo=UTC)
        since = value - datetime(1970, 1, 1, tzinfo=UTC)
        micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        return int(time_column(np.array([micros], "datetime64[us]"), 1, unit)[0][0])
    column, null = time_column(np.atleast_1d(np.asarray(value)), 1, unit)
    if null is not None:
        raise DataError(f"a watermark of {value!r}", "a time", "leave it out to wait")
    return int(column[0])


def weighted(attributes: Any, weights: tuple[float, ...]) -> tuple[Floats, Floats, Bools | None]:
    """Attribute columns as a matrix, the scores they give, and which rows hold a NULL.

    Terms are added from left to right, so that every engine gives the same score to the last bit.
    """
    columns = attributes
    if not hasattr(attributes, "__len__"):
        raise DataError(
            f"attributes are {attributes!r}", "one column per weight", "push a matrix or a table"
        )
    if hasattr(attributes, "columns") and hasattr(attributes, "schema"):  # an Arrow table
        columns = list(attributes.columns)
    elif isinstance(attributes, np.ndarray):
        columns = list(attributes.T) if attributes.ndim == 2 else [attributes]
    if len(columns) != len(weights):
        raise DataError(
            f"{len(columns)} attribute columns for {len(weights)} weights",
            "one column per weight",
            "push attributes of shape (rows, weights)",
        )
    parts: list[Floats] = []
    null: Bools | None = None
    for at, column in enumerate(columns):
        part, missing = score_column(column, f"attributes[{at}]")
        if parts and len(part) != len(parts[0]):
            raise DataError(
                f"attribute columns have {len(parts[0])} and {len(part)} rows",
                "equal lengths",
                "push columns of one table",
            )
        parts.append(part)
        if missing is not None:
            null = missing if null is None else null | missing
    with np.errstate(invalid="ignore", over="ignore"):  # 0 * inf is NaN: not ranked, but counted
        scores = parts[0] * weights[0]
        for part, weight in zip(parts[1:], weights[1:], strict=True):
            scores = scores + part * weight
    return np.ascontiguousarray(np.stack(parts, axis=1)), scores, null


def _decimals(values: Any, what: str) -> Any:
    """Arrow's decimals as float64; refuses those of so many digits that some would be equal."""
    import pyarrow as pa
    from pyarrow import compute

    if values.type.precision > _SURE_DIGITS and len(values) > values.null_count:
        size = compute.max(compute.abs(values)).as_py()
        if size.scaleb(values.type.scale) >= 10**_SURE_DIGITS:
            raise DataError(
                f"{what} hold decimals of more than {_SURE_DIGITS} digits",
                "numbers that float64 tells apart",
                "push them as whole numbers, in units of their last digit, to a query with "
                "numbers='int64'",
            )
    return values.cast(pa.float64())


def _plain(values: Any, what: str) -> tuple[NDArray[Any], Bools | None]:
    """A one-dimensional NumPy array, and where Arrow said NULL."""
    null: Bools | None = None
    if isinstance(values, np.ma.MaskedArray):
        return values.filled(0), np.ma.getmaskarray(values)
    if hasattr(values, "combine_chunks"):
        values = values.combine_chunks()
    if hasattr(values, "is_null"):
        import pyarrow as pa

        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays(values.chunks) if values.num_chunks else values
        if pa.types.is_decimal(values.type):
            values = _decimals(values, what)
        if values.null_count:
            null = np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
            if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
                values = values.fill_null(0)
        if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
            values = np.from_dlpack(values)  # to_numpy would import pandas
        else:
            values = values.to_numpy(zero_copy_only=False)
    array = np.asarray(values)
    if array.ndim != 1:
        raise DataError(
            f"{what} have {array.ndim} dimensions", "a flat column", "push one value per row"
        )
    return array, null
