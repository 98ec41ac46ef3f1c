"""Spark's ``xxhash64`` of Arrow columns, so that tasks put keys into the shards that Spark would.

It is XXH64, seeded with 42 and then with the hash of the column before; NULL leaves that as it is.
Keys repeat, so each is hashed once. Workers import this module.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from xxhash import xxh64_intdigest

from skyband.order import Ints
from skyband.spark.state.arrow_order import codes

HASH_OF_NOTHING = 42
"""The hash of columns that are all NULL: the seed."""

_SIGN = 1 << 63

_INT, _LONG = struct.Struct("<i"), struct.Struct("<q")
_BYTES: dict[pa.DataType, Callable[[Any], bytes]] = {
    pa.bool_(): _INT.pack,
    pa.int8(): _INT.pack,
    pa.int16(): _INT.pack,
    pa.int32(): _INT.pack,
    pa.int64(): _LONG.pack,
    pa.string(): bytes,
    pa.binary(): bytes,
}
"""The bytes that Spark hashes of a value, by its type."""


def hashable(type: pa.DataType) -> bool:
    """Whether values of a type are hashed here as Spark hashes them."""
    return type in _BYTES


def xxhash64(columns: list[Any]) -> Ints:
    """The hash of each row, as a signed number."""
    rows = len(columns[0])
    code = codes(columns, rows)
    _, first = np.unique(code, return_index=True)
    places = pa.array(first)
    hashes = [HASH_OF_NOTHING] * len(first)
    for column in columns:
        to_bytes = _BYTES[column.type]
        keys = column.take(places)
        if keys.type == pa.string():
            keys = keys.cast(pa.binary())  # a text need not be sound to be hashed
        for at, value in enumerate(keys.to_pylist()):
            if value is not None:
                hashes[at] = xxh64_intdigest(to_bytes(value), hashes[at])
    by_code = np.empty(int(code.max()) + 1, np.int64)
    by_code[code[first]] = np.array([(each ^ _SIGN) - _SIGN for each in hashes], np.int64)
    signed: Ints = by_code[code]
    return signed
