"""What entered, left or moved between two windows of a query."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.engine.snapshot import Saved
from skyband.order import Ints, Scores, shared_ranks
from skyband.query import RankBy

Columns = tuple[NDArray[Any], ...]
"""Score, the number that an object is known by, its place in the stream, its id; what is carried
beside them."""

_NAMES = ("score", "seq", "place", "id")


class Changed(NamedTuple):
    """Windows as changes: the rows of window i are ``offsets[i]:offsets[i + 1]``."""

    offsets: Ints
    columns: Columns
    ranks: Ints
    previous: Ints


class Changes:
    """Maintains the ranking that each query reported last, and tells what became of it.

    ``by_place`` breaks ties between equal scores by place before number, where numbers name
    objects and say nothing of their age. ``rank_by`` and ``oldest_first`` are as the query says.
    Objects carry ``carried`` further columns.

    Complexity: O(k log k) per window.
    """

    def __init__(
        self,
        by_place: bool = False,
        rank_by: RankBy = "row_number",
        oldest_first: bool = False,
        carried: int = 0,
    ) -> None:
        self._by_place = by_place
        self._rank_by = rank_by
        self._oldest_first = oldest_first
        none = np.empty(0, np.int64)
        self._nothing: Columns = (np.empty(0), none, none, none, *([np.empty(0)] * carried))
        self._names = (*_NAMES, *(f"carried{at}" for at in range(carried)))
        self.reported: dict[int, Columns] = {}

    def forget(self, query: int) -> None:
        """A query is gone."""
        self.reported.pop(query, None)

    def saved(self) -> Saved:
        """What was reported, as named arrays."""
        return {}, {
            f"{query}.{name}": column
            for query, columns in sorted(self.reported.items())
            for name, column in zip(self._names, columns, strict=True)
        }

    def restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what :meth:`saved` gave."""
        del header
        for query in sorted({int(name.split(".")[0]) for name in arrays}):
            self.reported[query] = tuple(arrays[f"{query}.{name}"] for name in self._names)

    def compare(self, query: int, now: Columns) -> tuple[Columns, Ints, Ints]:
        """Rows to report, their ranks (0: left) and previous ranks (0: entered)."""
        before = self.reported.get(query, self._nothing)
        if len(now[0]):
            self.reported[query] = tuple(column.copy() for column in now)
        else:
            self.forget(query)
        _, stayed_now, stayed_before = np.intersect1d(
            now[1], before[1], assume_unique=True, return_indices=True
        )
        previous = np.zeros(len(now[0]), np.int64)
        rank, rank_before = self._ranks(now[0]), self._ranks(before[0])
        previous[stayed_now] = rank_before[stayed_before]
        left_mask = np.ones(len(before[0]), np.bool_)
        left_mask[stayed_before] = False
        changed, left = np.flatnonzero(previous != rank), np.flatnonzero(left_mask)
        columns: list[NDArray[Any]] = [
            np.concatenate([new[changed], old[left]]) for new, old in zip(now, before, strict=True)
        ]
        ranks = np.concatenate([rank[changed], np.zeros(len(left), np.int64)])
        previous_ranks = np.concatenate([previous[changed], rank_before[left]])
        # as one ranking, with each row that left where it would stand; ~ turns int64 round
        ties = columns[1:3] if self._by_place else columns[1:2]
        if not self._oldest_first:
            ties = [~column for column in ties]
        order = np.lexsort((*ties, -columns[0]))
        return tuple(column[order] for column in columns), ranks[order], previous_ranks[order]

    def _ranks(self, score: Scores) -> Ints:
        """The ranks of a whole ranking, best first."""
        if self._rank_by == "row_number":
            return np.arange(1, len(score) + 1, dtype=np.int64)
        return shared_ranks(score, np.array([0, len(score)]), self._rank_by == "dense_rank")

    def of_windows(self, queries: list[int], offsets: Ints, columns: Columns) -> Changed:
        """What became of the rankings of many windows, one after the other."""
        none = np.empty(0, np.int64)
        parts, ranks, previous = [self._nothing], [none], [none]
        for query, (low, high) in zip(queries, pairwise(offsets.tolist()), strict=True):
            now = tuple(column[low:high] for column in columns)
            rows, rank, previous_rank = self.compare(query, now)
            parts.append(rows)
            ranks.append(rank)
            previous.append(previous_rank)
        joined = tuple(map(np.concatenate, zip(*parts, strict=True)))
        return Changed(
            np.cumsum([len(rank) for rank in ranks]),
            joined,
            np.concatenate(ranks),
            np.concatenate(previous),
        )
