"""Ids of any types as whole numbers, which the local engine knows objects by, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pyspark.sql.types import DataType, IntegerType, LongType, StructField

from skyband.order import Ints
from skyband.spark.state.candidates import Column
from skyband.spark.state.processor import array_field

_LARGEST = (1 << 63) - 1


class IdEncoder:
    """Maintains the number of each id that may still be reported.

    An id that is one whole number stands for itself, and nothing is kept. Others are known by a
    hash; should two ids have the same one, the later gets the next that is free. So an object has
    the same number all the time, but for those rare cases, though it may be forgotten meanwhile.

    Complexity: O(1) per row. Space: O(ids that may still be reported).
    """

    def __init__(self, whole: bool, width: int) -> None:
        self.whole = whole
        self.width = width
        self._ids: dict[int, tuple[Any, ...]] = {}  # by number
        self._moved: dict[tuple[Any, ...], int] = {}  # ids whose hash was taken

    def __len__(self) -> int:
        return len(self._ids)

    def encode(self, ids: list[Column], hashes: Column) -> Ints:
        """The numbers of ids, a column per part; hashes only if they are no whole numbers."""
        if self.whole:
            return np.array(ids[0], np.int64)
        numbers = []
        for hashed, *parts in zip(hashes, *ids, strict=True):
            id = tuple(parts)
            number = self._moved.get(id, hashed) if self._moved else hashed
            taken = self._ids.setdefault(number, id) != id
            numbers.append(self._elsewhere(number, id) if taken else number)
        return np.array(numbers, np.int64)

    def _elsewhere(self, number: int, id: tuple[Any, ...]) -> int:
        while number in self._ids:
            number = number + 1 if number < _LARGEST else -_LARGEST
        self._ids[number], self._moved[id] = id, number
        return number

    def decode(self, numbers: Ints) -> list[Column]:
        """The ids that have these numbers, a column per part."""
        if self.whole:
            return [numbers.tolist()]
        rows = [self._ids[number] for number in numbers.tolist()]
        return [[row[part] for row in rows] for part in range(self.width)]

    def retain(self, numbers: Ints) -> None:
        """Forget all ids but those with these numbers."""
        if self.whole:
            return
        self._ids = {number: self._ids[number] for number in numbers.tolist()}
        self._moved = {id: at for id, at in self._moved.items() if at in self._ids}

    @staticmethod
    def fields(types: tuple[DataType, ...]) -> list[StructField]:
        """The fields of a state that hold ids which are no whole numbers."""
        return [
            array_field("numbers", LongType(), False),
            array_field("own", IntegerType(), False),  # whether a number is the id's own hash
            *(array_field(f"id_{i}", type, False) for i, type in enumerate(types)),
        ]

    def save(self) -> dict[str, Any]:
        """What a state holds, by the names of its fields."""
        if self.whole:
            return {}
        moved = set(self._moved.values())
        parts = self.decode(np.array(list(self._ids), np.int64))
        return {
            "numbers": list(self._ids),
            "own": [int(number not in moved) for number in self._ids],
            **{f"id_{i}": part for i, part in enumerate(parts)},
        }

    def restore(self, fields: Mapping[str, Any]) -> None:
        """Take back what :meth:`save` gave."""
        if self.whole:
            return
        numbers = fields["numbers"]
        ids = list(zip(*(fields[f"id_{i}"] for i in range(self.width)), strict=True))
        self._ids = dict(zip(numbers, ids, strict=True))
        rows = zip(ids, numbers, fields["own"], strict=True)
        self._moved = {id: number for id, number, unmoved in rows if not unmoved}
