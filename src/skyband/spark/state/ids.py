"""Numbers for ids: the local engine knows objects by whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.order import Ints
from skyband.spark.state.candidates import Column

_LARGEST = (1 << 63) - 1


class Numbers:
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

    def number(self, ids: list[Column], hashes: Column) -> Ints:
        """The numbers of ids, a column per part; hashes only if they are no whole numbers."""
        if self.whole:
            return np.array(ids[0], np.int64)
        found = []
        for hashed, *parts in zip(hashes, *ids, strict=True):
            id = tuple(parts)
            number = self._moved.get(id, hashed) if self._moved else hashed
            taken = self._ids.setdefault(number, id) != id
            found.append(self._elsewhere(number, id) if taken else number)
        return np.array(found, np.int64)

    def _elsewhere(self, number: int, id: tuple[Any, ...]) -> int:
        while number in self._ids:
            number = number + 1 if number < _LARGEST else -_LARGEST
        self._ids[number], self._moved[id] = id, number
        return number

    def ids(self, numbers: Ints) -> list[Column]:
        """The ids that have these numbers, a column per part."""
        if self.whole:
            return [numbers.tolist()]
        rows = [self._ids[number] for number in numbers.tolist()]
        return [[row[part] for row in rows] for part in range(self.width)]

    def forget(self, kept: Ints) -> None:
        """Let go of all ids but those with these numbers."""
        if self.whole:
            return
        self._ids = {number: self._ids[number] for number in kept.tolist()}
        self._moved = {id: at for id, at in self._moved.items() if at in self._ids}

    def columns(self) -> list[Column]:
        """What a state holds: numbers, whether each is the id's own hash, a column per part."""
        if self.whole:
            return []
        numbers = np.array(list(self._ids), np.int64)
        moved = set(self._moved.values())
        own = [int(number not in moved) for number in self._ids]
        return [numbers.tolist(), own, *self.ids(numbers)]

    def adopt(self, columns: list[Column]) -> None:
        """Take back what :meth:`columns` gave."""
        if self.whole:
            return
        numbers, own, *parts = columns
        ids = list(zip(*parts, strict=True))
        self._ids = dict(zip(numbers, ids, strict=True))
        told = zip(ids, numbers, own, strict=True)
        self._moved = {id: number for id, number, alone in told if not alone}
