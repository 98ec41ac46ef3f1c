"""What queries for objects of many rows share: numbers for objects, and what tells them apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skyband.cli import ranking
from skyband.cli.cells import Cells, object_cells
from skyband.cli.leaderboard import Leaderboard
from skyband.cli.reading import Column, Source

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.order import Ints


@dataclass(frozen=True)
class Question(ranking.Question):
    """A query for objects, checked: the columns that tell them apart, and the rows that matter.

    ``score`` is the SQL of the values; rows for which ``where`` is not true are left out.
    """

    apart: tuple[Column, ...] = ()
    where: str = "true"

    @property
    def numbers(self) -> dict[str, str]:
        """What scores are made of: columns and their SQL."""
        return {"value": self.score}

    @property
    def objects(self) -> bool:
        """Yes."""
        return True

    def rows(self, source: Source) -> Iterator[pa.RecordBatch]:
        """The rows of a file, with the numbers of their objects."""
        return source.rows(self.numbers, self.time, self.keys, list(self.apart), self.where)

    def pushed(self, batch: pa.RecordBatch) -> Any:
        """The numbers of a batch, as Arrow has them."""
        return batch.select(list(self.numbers))

    def board(self) -> Leaderboard:
        """What takes the answers."""
        return Leaderboard(ranking.timed(self.query.window), objects=True)

    def cells(self, source: Source, objects: Ints) -> Cells:
        """The keys of objects, and what tells them apart."""
        return object_cells(source, objects, [*self.keys, *self.apart], self.where)
