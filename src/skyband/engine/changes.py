"""What entered, left or moved between two windows of a query."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.order import Floats, Ints

Columns = tuple[Floats, Ints, Ints, Ints]  # score, arrival number, place, id

_NAMES = ("score", "seq", "at", "id")


class Changed(NamedTuple):
    """Windows as changes: the rows of window i are ``offsets[i]:offsets[i + 1]``."""

    offsets: Ints
    columns: Columns
    ranks: Ints
    previous: Ints


class Changes:
    """Maintains the ranking that each query reported last, and tells what became of it.

    Complexity: O(k log k) per window.
    """

    def __init__(self) -> None:
        none = np.empty(0, np.int64)
        self._nothing: Columns = (np.empty(0), none, none, none)
        self.reported: dict[int, Columns] = {}

    def forget(self, query: int) -> None:
        """A query is gone."""
        self.reported.pop(query, None)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What was reported, as named arrays."""
        return {
            f"reported.{query}.{name}": column
            for query, columns in sorted(self.reported.items())
            for name, column in zip(_NAMES, columns, strict=True)
        }

    def adopt(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what :meth:`arrays` gave, from among others."""
        queries = {int(name.split(".")[1]) for name in arrays if name.startswith("reported.")}
        for query in sorted(queries):
            columns = [arrays[f"reported.{query}.{name}"] for name in _NAMES]
            self.reported[query] = tuple(columns)  # type: ignore[assignment]

    def told(self, query: int, now: Columns) -> tuple[Columns, Ints, Ints]:
        """Rows to report, their ranks (0: left) and previous ranks (0: entered)."""
        before = self.reported.get(query, self._nothing)
        if len(now[0]):
            self.reported[query] = tuple(column.copy() for column in now)  # type: ignore[assignment]
        else:
            self.forget(query)
        _, mine, theirs = np.intersect1d(now[1], before[1], assume_unique=True, return_indices=True)
        previous = np.zeros(len(now[0]), np.int64)
        previous[mine] = theirs + 1
        rank = np.arange(1, len(now[0]) + 1, dtype=np.int64)
        gone = np.ones(len(before[0]), np.bool_)
        gone[theirs] = False
        stays, left = np.flatnonzero(previous != rank), np.flatnonzero(gone)
        columns = [
            np.concatenate([ours[stays], others[left]])
            for ours, others in zip(now, before, strict=True)
        ]
        ranks = np.concatenate([rank[stays], np.zeros(len(left), np.int64)])
        was = np.concatenate([previous[stays], left + 1])
        # as one ranking, with each row that left where it would stand
        order = np.lexsort((~columns[1], -columns[0]))  # ~ also turns the least number round
        score, seq, at, id = (column[order] for column in columns)
        return (score, seq, at, id), ranks[order], was[order]

    def of_windows(self, queries: list[int], offsets: Ints, columns: Columns) -> Changed:
        """What became of the rankings of many windows, one after the other."""
        none = np.empty(0, np.int64)
        parts, ranks, previous = [self._nothing], [none], [none]
        for query, (low, high) in zip(queries, pairwise(offsets.tolist()), strict=True):
            score, seq, at, id = columns
            now = (score[low:high], seq[low:high], at[low:high], id[low:high])
            told, rank, was = self.told(query, now)
            parts.append(told)
            ranks.append(rank)
            previous.append(was)
        joined: Any = tuple(np.concatenate(column) for column in zip(*parts, strict=True))
        return Changed(
            np.cumsum([len(rank) for rank in ranks]),
            joined,
            np.concatenate(ranks),
            np.concatenate(previous),
        )
