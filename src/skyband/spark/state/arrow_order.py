"""Rows as Arrow columns of any type: which of them are equal, and their order as Spark's."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.order import Ints
from skyband.spark.state.batch import sortable


def flat(columns: list[Any]) -> list[Any]:
    """The same columns, of which structs are taken apart."""
    plain: list[Any] = []
    for column in columns:
        if pa.types.is_struct(column.type):
            plain += [pc.is_valid(column), *flat(column.flatten())]
        else:
            plain.append(column)
    return plain


def codes(columns: list[Any], rows: int) -> Ints:
    """Numbers from 0 on, by first appearance, that are equal where all columns are."""
    combined = np.zeros(rows, np.int64)
    for at, column in enumerate(flat(columns)):
        indices = column.dictionary_encode(null_encoding="encode").indices
        code = indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if at == 0:
            combined = code
        else:  # two numbers below 2**31 make one that is dense again
            both = pa.array((combined << 31) + code).dictionary_encode().indices
            combined = both.to_numpy(zero_copy_only=False).astype(np.int64)
    return combined


def in_order(at: Ints, columns: list[Any]) -> Ints:
    """Places by time, then by key, as Spark orders keys: NULL lowest, NaN highest."""
    order = np.argsort(at, kind="stable")
    same = np.diff(at[order]) == 0
    if not same.any():
        return order
    tied = np.flatnonzero(np.concatenate([same, [False]]) | np.concatenate([[False], same]))
    rows = order[tied]
    parts = [column.take(pa.array(rows)) for column in columns]
    order[tied] = rows[sorted_places([pa.array(at[rows]), *parts], [False] * (1 + len(parts)))]
    return order


def sorted_places(columns: list[Any], falling: list[bool]) -> Ints:
    """Places of rows in the order of columns, as Spark orders them: NULL lowest, NaN highest."""
    order_by: dict[str, Any] = {}
    directions: list[tuple[str, str]] = []
    for column, falls in zip(columns, falling, strict=True):
        for part in flat([column]):
            valid = [pc.is_valid(part)] if part.null_count else []
            for key in [*valid, _sortable(part)]:
                name = str(len(order_by))
                order_by[name] = key
                directions.append((name, "descending" if falls else "ascending"))
    by: Any = directions
    places: Ints = pc.sort_indices(pa.table(order_by), sort_keys=by).to_numpy().astype(np.int64)
    return places


def _sortable(column: Any) -> Any:
    """A column that Arrow sorts as Spark does: floats and lists become whole numbers."""
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        values = [sortable(value) for value in column.to_pylist()]
        places = np.zeros(len(values), np.int64)
        order = sorted(range(len(values)), key=values.__getitem__)
        for before, after in pairwise(order):
            places[after] = places[before] + (values[before] != values[after])
        return pa.array(places)
    if not pa.types.is_floating(column.type):
        return column
    null = pc.is_null(column).to_numpy(zero_copy_only=False)
    value = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    bits = np.where(np.isnan(value), np.inf, value).view(np.int64)
    place = np.where(bits < 0, bits ^ np.int64((1 << 63) - 1), bits) + np.isnan(value)
    return pa.array(place, mask=null)
