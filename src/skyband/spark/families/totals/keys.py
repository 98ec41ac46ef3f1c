"""Keys of any type as Arrow columns, and their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import DataError
from skyband.order import Ints
from skyband.spark.state.arrow_order import codes
from skyband.spark.state.candidates import Column

_NULL = -(1 << 63)


class KeyEncoder:
    """Maintains the number of each key that may still be reported; the engine knows no other.

    A key of one whole number is its own number. Others get the next number, and are kept as Arrow
    columns beside their numbers, which ascend.

    Complexity: O(known + new) per pane, all of it in Arrow. Space: O(keys that may be reported).
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.whole = len(schema) == 1 and pa.types.is_integer(schema.types[0])
        self._known = schema.empty_table()
        self._number = np.empty(0, np.int64)
        self._next = 0

    def __len__(self) -> int:
        return len(self._number)

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return int(self._known.nbytes + self._number.nbytes)

    def number(self, columns: list[Any]) -> Ints:
        """The number of each key."""
        if self.whole:
            return self._itself(columns[0])
        rows = len(columns[0])
        both = [
            pa.concat_arrays([*before.chunks, column])
            for before, column in zip(self._known.columns, columns, strict=True)
        ]
        known = len(self._number)
        code = codes(both, known + rows)[known:]
        fresh = code >= known
        # codes go by first appearance: those of new keys follow those of known ones
        firsts = np.flatnonzero(fresh)[np.unique(code[fresh], return_index=True)[1]]
        if len(firsts):
            new = [column.take(pa.array(firsts)) for column in columns]
            table = pa.Table.from_arrays(new, schema=self._schema)
            self._known = pa.concat_tables([self._known, table]).combine_chunks()
            given = np.arange(self._next, self._next + len(firsts), dtype=np.int64)
            self._number = np.concatenate([self._number, given])
            self._next += len(firsts)
        numbers: Ints = self._number[code]
        return numbers

    def _itself(self, column: Any) -> Ints:
        null = column.null_count > 0
        wide = column.cast(pa.int64())
        if pc.min(wide).as_py() == _NULL:
            raise DataError(f"a key is {_NULL}", "larger numbers: that one stands for NULL")
        filled = wide.fill_null(_NULL) if null else wide
        return np.array(filled.to_numpy(zero_copy_only=False))

    def columns(self, numbers: Ints) -> list[Column]:
        """The keys that have these numbers, a column per part."""
        if self.whole:
            return [[None if number == _NULL else number for number in numbers.tolist()]]
        places = pa.array(np.searchsorted(self._number, numbers))
        return [column.take(places).to_pylist() for column in self._known.columns]

    def keep(self, numbers: Ints) -> None:
        """Let go of all keys but these."""
        there = np.isin(self._number, numbers, assume_unique=True)
        self._known = self._known.filter(pa.array(there)).combine_chunks()
        self._number = self._number[there]
