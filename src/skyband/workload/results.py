"""Ranked windows of many queries, as columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.engine.results import Ranked, RankedWindow
from skyband.errors import QueryError
from skyband.order import Bools, Ints

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes

    from skyband.engine.ranking_plot import Names, What


@dataclass(frozen=True)
class RankedByQuery:
    """The windows that one push answered, by their ends, and of equal ends by query.

    Rankings so far, of windows that are not final, stand behind those that are.

    ``query`` holds, for each window of ``ranked``, the place of its query in ``names``. Iterate for
    one (name, window) at a time.
    """

    names: tuple[str, ...]
    query: Ints
    ranked: Ranked

    def __len__(self) -> int:
        return len(self.query)

    def __iter__(self) -> Iterator[tuple[str, RankedWindow]]:
        for query, window in zip(self.query.tolist(), self.ranked, strict=True):
            yield self.names[query], window

    def _repr_html_(self) -> str:
        """The newest windows as a table, for notebooks."""
        from skyband.engine.ranking_html import ranked_html

        return ranked_html(self.ranked, [self.names[query] for query in self.query.tolist()])

    @property
    def rows(self) -> int:
        """Rows over all windows."""
        return self.ranked.rows

    def of(self, name: str) -> list[RankedWindow]:
        """The windows of one query."""
        return [window for query, window in self if query == name]

    def only(self, which: Bools) -> RankedByQuery:
        """Some of the windows, by a mask."""
        return RankedByQuery(self.names, self.query[which], self.ranked.only(which))

    def plot(
        self,
        query: str,
        what: What = "ranks",
        *,
        ax: Axes | None = None,
        leaders: int = 10,
        names: Names | None = None,
    ) -> Axes:
        """Draw how the ranking of one query moved: see :meth:`skyband.Ranked.plot`."""
        if query not in self.names:
            known = ", ".join(map(repr, self.names[:5])) + (", ..." if len(self.names) > 5 else "")
            raise QueryError(
                f"query is {query!r}", f"one of {known}", f"write plot({self.names[0]!r})"
            )
        ranked = self.only(self.query == self.names.index(query)).ranked
        return ranked.plot(what, ax=ax, leaders=leaders, names=names)

    def to_arrow(self) -> pa.Table:
        """One row per ranked object: the query's name, then the columns of its windows."""
        import pyarrow as pa

        table = self.ranked.to_arrow()
        query = np.repeat(self.query, np.diff(self.ranked.offsets)).astype(np.int32)
        names = pa.DictionaryArray.from_arrays(pa.array(query), pa.array(list(self.names)))
        return table.add_column(0, "query", names.cast(pa.string()))


def in_order(parts: list[RankedByQuery], names: tuple[str, ...], empty: Ranked) -> RankedByQuery:
    """Several results as one, by ends; ``empty`` is the answer if none of them has a window.

    If it has ranks, all have: those of some queries are shared.
    """
    parts = [part for part in parts if len(part)]
    if not parts:
        return RankedByQuery(names, np.empty(0, np.int64), empty)
    if empty.ranks is not None:
        parts = [
            replace(part, ranked=replace(part.ranked, ranks=part.ranked.rank)) for part in parts
        ]
    if len(parts) == 1:
        return parts[0]
    query = np.concatenate([part.query for part in parts])
    end = np.concatenate([part.ranked.window_end for part in parts])
    start = np.concatenate([part.ranked.window_start for part in parts])
    sizes = np.concatenate([np.diff(part.ranked.offsets) for part in parts])
    rows: Ints | slice = slice(None)
    if not bool(np.all((np.diff(end) > 0) | ((np.diff(end) == 0) & (np.diff(query) >= 0)))):
        order = np.lexsort((query, end))
        begins = (np.cumsum(sizes) - sizes)[order]
        query, start, end, sizes = query[order], start[order], end[order], sizes[order]
        ahead = np.cumsum(sizes) - sizes
        rows = np.repeat(begins - ahead, sizes) + np.arange(int(sizes.sum()), dtype=np.int64)

    def column(name: str) -> Any:
        values = [getattr(part.ranked, name) for part in parts]
        return None if values[0] is None else np.concatenate(values)[rows]

    offsets = np.concatenate([[0], np.cumsum(sizes)])
    columns = {name: column(name) for name in ("score", "id", "time", "ranks", "previous_rank")}
    ranked = Ranked(start, end, offsets, timed=parts[0].ranked.timed, **columns)
    return RankedByQuery(names, query, ranked)
