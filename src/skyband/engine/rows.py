"""A batch of rows as columns: what monitors hand to algorithms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.order import Floats, Ints


class Rows(NamedTuple):
    """Columns of equal length, one entry per row.

    ``score``    what is ranked, added up or compared; NaN where a row is not ranked
    ``id``       what a row is reported by, None if rows are known by their arrival numbers
    ``time``     when it happened, None in count windows
    ``columns``  the family's own: attributes, stream numbers, counts; each with its own type
    """

    score: Floats
    id: Ints | None = None
    time: Ints | None = None
    columns: tuple[NDArray[Any], ...] = ()

    @property
    def size(self) -> int:
        """How many rows there are; ``len`` counts the fields of a tuple."""
        return len(self.score)

    def take(self, places: Any) -> Rows:
        """The rows at these places: numbers, a mask or a slice. A slice copies nothing."""
        return Rows(
            self.score[places],
            None if self.id is None else self.id[places],
            None if self.time is None else self.time[places],
            tuple(column[places] for column in self.columns),
        )

    def copied(self) -> Rows:
        """The same rows in memory of their own. O(rows)."""
        return Rows(
            self.score.copy(),
            None if self.id is None else self.id.copy(),
            None if self.time is None else self.time.copy(),
            tuple(column.copy() for column in self.columns),
        )

    @staticmethod
    def joined(parts: list[Rows]) -> Rows:
        """One batch of several, which have the same columns. O(rows)."""
        if len(parts) == 1:
            return parts[0]
        first = parts[0]
        return Rows(
            np.concatenate([part.score for part in parts]),
            None if first.id is None else np.concatenate([_known(part.id) for part in parts]),
            None if first.time is None else np.concatenate([_known(part.time) for part in parts]),
            tuple(
                np.concatenate(column) for column in zip(*(p.columns for p in parts), strict=True)
            ),
        )


def _known(column: Ints | None) -> Ints:
    assert column is not None, "rows of one stream have the same columns"
    return column
