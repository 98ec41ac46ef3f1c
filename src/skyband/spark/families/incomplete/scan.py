"""Rows that tasks read from files: of each object the largest value in a stream and pane.

The engine of a shard does the same with what it gets, see :func:`largest`: the rows of a pane live
equally long, so only the largest value counts, as of the newest time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from skyband.spark.axis import PaneGrid
from skyband.spark.columns import POSITION, SCORE
from skyband.spark.families.incomplete.values import STREAM, StreamBounds
from skyband.spark.scan.row_maker import Columns, RowMaker, ScannedRows
from skyband.spark.scan.values import without_nan

_PANE, _RANKED = "pane", "ranked"


@dataclass(frozen=True)
class LargestByTasks(RowMaker):
    """Reduces rows by key, object, stream and pane; ``ids`` are the columns that name objects.

    Rows that are not ranked are reduced apart from others: they count in no window, but as late.
    """

    bounds: StreamBounds
    clips: bool
    grid: PaneGrid
    ids: tuple[str, ...]

    hands_on: ClassVar[str] = "only the largest values of objects in a pane and stream"

    def checked(self, values: list[Any], columns: Columns, extra: dict[str, int]) -> list[Any]:
        """The value of each row within its bounds, NULL where the id is; the place of its stream.

        Counts values that were moved to their bounds, or refuses them.
        """
        (value,) = values
        places = self.bounds.places(columns[STREAM])
        nameless = reduce(pc.or_, (pc.is_null(columns[name]) for name in self.ids))
        moved, beyond = self.bounds.clipped(value, places)
        beyond = pc.and_not(beyond, nameless)
        count = pc.sum(beyond).as_py() or 0
        if count and not self.clips:
            at = pc.index(beyond, True).as_py()
            raise self.bounds.refuse(value[at].as_py(), places[at].as_py())
        extra["clipped"] = extra.get("clipped", 0) + count
        return [pc.if_else(nameless, pa.scalar(None, value.type), moved), places]

    def made(self, rows: ScannedRows) -> Iterator[Columns]:
        """Rows of the largest values, as of the newest time."""
        value, places = rows.values
        score = without_nan(value)
        same = {
            _PANE: pa.array(self.grid.pane(rows.positions)),
            _RANKED: pc.is_valid(score),
            **rows.columns,
            STREAM: places,
        }
        table = pa.table({**same, POSITION: pa.array(rows.positions), SCORE: score})
        groups = table.group_by(list(same), use_threads=False)
        largest = groups.aggregate([(POSITION, "max"), (SCORE, "max")])
        largest = largest.rename_columns([*same, POSITION, SCORE]).drop_columns([_PANE, _RANKED])
        for batch in largest.combine_chunks().to_batches():
            yield dict(zip(batch.schema.names, batch.columns, strict=True))
