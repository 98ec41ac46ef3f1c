"""Which rows of a batch may still be among the k best of their key and pane, by any score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.order import Ints, as_good_as_kth
from skyband.query import RankBy
from skyband.spark.scan.values import read_only
from skyband.spark.state.arrow_order import codes

if TYPE_CHECKING:
    from skyband.kernels.group_best import Best

_ROOMY = 4  # rows of room per row of a batch: with more groups, choosing is not worth it
_REMEMBERED = 100_000  # thresholds of panes that a task remembers

Bars = dict[tuple[int, int], tuple[Any, int]]
"""The k-th best score and its position that a task has met, by score and number of pane."""


@dataclass(frozen=True)
class Ranking:
    """How many rows of a pane rank, and how ranks count."""

    k: int
    rank_by: RankBy = "row_number"


@dataclass(frozen=True)
class BestRows:
    """The rows that may be among the k best of a pane and key, and all that may tie with them.

    Panes lie in slides from ``offset`` on; rows from ``split`` on in a slide live longer, if that
    is above zero. ``sign`` is -1 where the oldest of equal scores rank first. ``newest`` demands
    the newest row of each pane and key as well, where rows complete windows.
    """

    rankings: tuple[Ranking, ...]  # by score
    offset: int
    slide: int
    split: int
    sign: int
    newest: bool = False

    def places(
        self, scores: Sequence[Any], positions: Ints, keys: Sequence[Any], bars: Bars
    ) -> Ints:
        """Places of rows, ascending; all of them have a position.

        ``bars`` are met by no row that is left out; they rise with every batch of the task.
        """
        groups = _Groups(self, positions, keys)
        parts = []
        for number, (ranking, score) in enumerate(zip(self.rankings, scores, strict=True)):
            values, ranked = _values(score)
            chosen = groups.best(number, ranking, values, ranked, bars)
            parts.append(chosen if ranked is None else ranked[chosen])
        if self.newest:
            parts.append(groups.newest())
        return parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))

    def cannot_win(self, highest: Sequence[int], oldest: int, newest: int, bars: Bars) -> bool:
        """Whether no row of a stretch of time may win, of whose scores the highest are given.

        Rows have no keys. One that scores as much as the k-th best may still win, as the newer.
        """
        if self.newest or any(ranking.rank_by != "row_number" for ranking in self.rankings):
            return False
        halves = 2 if self.split else 1
        first = (oldest - self.offset) // self.slide * halves
        last = ((newest - self.offset) // self.slide + 1) * halves
        if last - first > _REMEMBERED:
            return False
        return all(
            (number, pane) in bars and score < bars[number, pane][0]
            for number, score in enumerate(highest)
            for pane in range(first, last)
        )


def load_kernels() -> None:
    """Load the kernels, or compile them, before a batch waits for them: for doubles, and exact."""
    rows = BestRows((Ranking(1),), 0, 1, 0, 1)
    at = read_only(np.zeros(4, np.int64))
    for scores in (pa.array([1.0] * 4), pa.array([1] * 4)):
        for keys in ([], [pa.array([1] * 4)]):
            rows.places([scores], at, keys, {})


class _Groups:
    """The rows of a batch by pane and key."""

    def __init__(self, rows: BestRows, positions: Ints, keys: Sequence[Any]) -> None:
        self._rows, self._positions, self._keys = rows, positions, keys
        self._first = (int(positions.min()) - rows.offset) // rows.slide
        last = (int(positions.max()) - rows.offset) // rows.slide
        self._panes = (last - self._first + 1) * (2 if rows.split else 1)
        self._codes: Ints | None = None
        self._count = 0

    def best(
        self, number: int, ranking: Ranking, values: Any, ranked: Ints | None, bars: Bars
    ) -> Ints:
        """Places of what may win among the rows ``ranked``, or all; ``values`` are their scores."""
        from skyband.kernels.group_best import best_of, best_of_groups, places, room_for

        positions = self._positions if ranked is None else read_only(self._positions[ranked])
        room = _ROOMY * len(values) // room_for(ranking.k)
        if ranking.rank_by == "row_number" and not self._keys and self._panes <= max(room, 64):
            return self._best_of_panes(number, ranking.k, values, positions, bars)
        groups = self.codes if ranked is None else read_only(self.codes[ranked])
        if ranking.rank_by == "row_number" and self._count <= room:
            best = best_of(self._count, ranking.k, values)
            if best_of_groups(values, positions, groups, self._rows.sign, ranking.k, best) < 0:
                return places(best, ranking.k)
        elif ranking.rank_by == "row_number":  # nearly all rows would stay
            return np.flatnonzero(values == values)
        return _with_ties(ranking, values, groups)

    def _best_of_panes(self, number: int, k: int, values: Any, positions: Ints, bars: Bars) -> Ints:
        from skyband.kernels.group_best import Grid, best_of, best_of_panes, places

        rows = self._rows
        best = best_of(self._panes, k, values)
        first = self._first * (2 if rows.split else 1)
        for pane in range(self._panes):
            bar = bars.get((number, first + pane))
            if bar is not None:
                best.bar[pane], best.bar_position[pane] = bar
        begin = rows.offset + self._first * rows.slide
        grid = Grid(begin, rows.slide, rows.split, rows.sign)
        if best_of_panes(values, positions, grid, k, best) >= 0:
            return _with_ties(Ranking(k), values, self.codes_of(positions))
        chosen = places(best, k)
        _remember(bars, number, first, best)
        return chosen

    @property
    def codes(self) -> Ints:
        """A number for each row, equal where pane and key are."""
        if self._codes is None:
            self._codes = self.codes_of(self._positions)
            self._count = self._panes
            if self._keys:
                by_key = _key_codes(self._keys, len(self._positions))
                self._codes = by_key * self._panes + self._codes
                self._count *= int(by_key.max()) + 1
            # one row of long ago makes more panes than there are rows: only those with rows count
            if self._count > 4 * len(self._codes) + 1024:
                self._codes = np.unique(self._codes, return_inverse=True)[1]
                self._count = int(self._codes.max()) + 1
            read_only(self._codes)
        return self._codes

    def codes_of(self, positions: Ints) -> Ints:
        """The number of each position's pane, from the first on."""
        rows = self._rows
        inside = positions - (rows.offset + self._first * rows.slide)
        steps = inside // rows.slide
        if not rows.split:
            return steps
        longer = inside - steps * rows.slide >= rows.split
        return 2 * steps + longer

    def newest(self) -> Ints:
        """The newest row of each pane and key."""
        order = np.lexsort((self._positions, self.codes))
        last = np.flatnonzero(np.diff(self.codes[order], append=-1))
        return np.sort(order[last])


def _values(score: Any) -> tuple[Any, Ints | None]:
    """Scores as NumPy has them, and the places of those that are not NULL, None if all are.

    NULL is NaN, where there is one, and never ranked.
    """
    if not score.null_count or pa.types.is_floating(score.type):
        return read_only(score.to_numpy(zero_copy_only=False)), None
    ranked = np.flatnonzero(pc.is_valid(score).to_numpy(zero_copy_only=False))
    return read_only(score.drop_null().to_numpy()), ranked


def _key_codes(keys: Sequence[Any], rows: int) -> Ints:
    """Numbers that are equal only where all keys are; equal keys may have two, if files do so."""
    numbers = [_number_of(key) if pa.types.is_dictionary(key.type) else key for key in keys]
    if len(keys) == 1 and pa.types.is_dictionary(keys[0].type):
        alone: Ints = numbers[0].to_numpy().astype(np.int64)
        return alone
    return codes(numbers, rows)


def _number_of(key: Any) -> Any:
    """The number of each value in its dictionary, the next one for NULL."""
    return key.indices.fill_null(len(key.dictionary)) if key.null_count else key.indices


def _with_ties(ranking: Ranking, values: Any, groups: Ints) -> Ints:
    """The rows of each group that score at least as much as its k-th best row, or score."""
    numbers = np.flatnonzero(values == values)
    dense = ranking.rank_by == "dense_rank"
    return np.sort(numbers[as_good_as_kth(values[numbers], groups[numbers], ranking.k, dense)])


def _remember(bars: Bars, number: int, first: int, best: Best) -> None:
    """Note the thresholds of panes that have one, for later batches."""
    if len(bars) > _REMEMBERED:
        bars.clear()
    lowest = np.iinfo(np.int64).min
    for pane in np.flatnonzero(best.bar_position > lowest).tolist():
        bars[number, first + pane] = best.bar[pane], int(best.bar_position[pane])
