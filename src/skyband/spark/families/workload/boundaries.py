"""Where the windows of a workload start and end, and the panes in between.

A query's windows end at ``offset + j * slide`` and start at ``offset - size + j * slide``: two
progressions. The panes of a workload lie between neighbouring positions of all progressions of all
queries. A row's *label* is the first end of any window after it: what it completes can be answered
then, and no earlier. A job that goes on with other queries begins a new *era* of panes.

Rows are placed in SQL. The same in Python stands beside it, and a property test holds that both
agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import Any, NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skyband.spark.columns import LABEL
from skyband.windows import Window

PANE = "_sky_pane"
LATE = 0
"""Where a stream's watermark begins: what is labelled so is late."""

_MOST = 64  # progressions that are worth an expression for each row
_DENSE = 2  # times as many panes that are cheaper than several progressions
_CELLS = 10_000  # of the grid, over which panes are counted


class Progression(NamedTuple):
    """The positions ``phase + j * slide``; the phase is in [0, slide)."""

    slide: int
    phase: int

    @classmethod
    def through(cls, position: int, slide: int) -> Progression:
        """The progression that a position is on."""
        return cls(slide, position % slide)

    def holds(self, other: Progression) -> bool:
        """Whether all positions of another progression are among these."""
        return other.slide % self.slide == 0 and (other.phase - self.phase) % self.slide == 0

    def floor(self, position: int) -> int:
        """The last of these positions at or before one."""
        return position - (position - self.phase) % self.slide

    def floor_sql(self, position: Column) -> Column:
        """The same in SQL."""
        inside = F.pmod(position - F.lit(self.phase), F.lit(self.slide))
        return (position - inside).cast("bigint")


@dataclass(frozen=True)
class Boundaries:
    """The ends of windows, and all positions at which some window starts or ends.

    Both are the fewest progressions that say so, or the coarsest grid that holds all of them, where
    that is cheaper or there would be too many.
    """

    ends: tuple[Progression, ...]
    every: tuple[Progression, ...]

    @classmethod
    def of(cls, windows: Iterable[Window]) -> Boundaries:
        """The boundaries of some windows."""
        windows = list(windows)
        ends = _fewest(Progression.through(w.end_offset, w.slide) for w in windows)
        starts = (Progression.through(w.end_offset - w.size, w.slide) for w in windows)
        every = _fewest([*ends, *starts])
        grid = _grid(windows)
        few = 1 < len(every) <= _MOST
        if len(every) > _MOST or (few and _panes(every, _CELLS * grid.slide) * _DENSE >= _CELLS):
            return cls((grid,), (grid,))
        return cls(ends, every)

    @property
    def step(self) -> int:
        """The most that a label lies after its row."""
        return min(progression.slide for progression in self.ends)

    def label(self, position: int) -> int:
        """The first end of any window after a position."""
        return min(p.floor(position) + p.slide for p in self.ends)

    def label_sql(self, position: Column) -> Column:
        """The same in SQL."""
        return _one_of([p.floor_sql(position) + F.lit(p.slide) for p in self.ends], F.least)

    def pane(self, position: int) -> int:
        """The last boundary at or before a position."""
        return max(p.floor(position) for p in self.every)

    def pane_sql(self, position: Column) -> Column:
        """The same in SQL."""
        return _one_of([p.floor_sql(position) for p in self.every], F.greatest)


class Era(NamedTuple):
    """Boundaries from a position on (None: from ever); that position is a boundary itself."""

    start: int | None
    boundaries: Boundaries

    def plain(self) -> list[Any]:
        """As values that JSON knows."""
        both = (self.boundaries.ends, self.boundaries.every)
        return [self.start, *([list(p) for p in progressions] for progressions in both)]

    @classmethod
    def of(cls, plain: Sequence[Any]) -> Era:
        """What :meth:`plain` gave."""
        start, *both = plain
        ends, every = (tuple(Progression(*pair) for pair in pairs) for pairs in both)
        return cls(start, Boundaries(ends, every))

    def place(self, position: int, end: int | None) -> tuple[int, int]:
        """The label and the pane of a position; ``end`` is where the next era starts."""
        label, pane = self.boundaries.label(position), self.boundaries.pane(position)
        return (
            label if end is None else min(label, end),
            pane if self.start is None else max(pane, self.start),
        )

    def place_sql(self, position: Column, end: int | None) -> tuple[Column, Column]:
        """The same in SQL."""
        label, pane = self.boundaries.label_sql(position), self.boundaries.pane_sql(position)
        return (
            label if end is None else F.least(label, _bigint(end)),
            pane if self.start is None else F.greatest(pane, _bigint(self.start)),
        )


def label_and_pane(eras: Sequence[Era], position: int) -> tuple[int, int]:
    """The label and the pane of a position.

    Rows of one era never share a pane with those of another, so what an earlier run counted stays
    as it is. Rows from before the first era are late: they get a label that surely is.
    """
    first = eras[0].start
    if first is not None and position < first:
        return LATE, LATE
    for era, following in pairwise(eras):
        if following.start is not None and position < following.start:
            return era.place(position, following.start)
    return eras[-1].place(position, None)


def label_and_pane_sql(eras: Sequence[Era], position: Column) -> tuple[Column, Column]:
    """The same in SQL."""
    label, pane = eras[-1].place_sql(position, None)
    for era, following in reversed(list(pairwise(eras))):
        earlier = position < F.lit(following.start)
        era_label, era_pane = era.place_sql(position, following.start)
        label = F.when(earlier, era_label).otherwise(label)
        pane = F.when(earlier, era_pane).otherwise(pane)
    first = eras[0].start
    if first is None:
        return label, pane
    late = position < F.lit(first)
    return (
        F.when(late, _bigint(LATE)).otherwise(label),
        F.when(late, _bigint(LATE)).otherwise(pane),
    )


def placed_in_panes(rows: DataFrame, eras: Sequence[Era], position: str) -> DataFrame:
    """Add each row's label and pane, as numbers."""
    label, pane = label_and_pane_sql(eras, F.col(position))
    return rows.withColumn(LABEL, label).withColumn(PANE, pane)


def step_of(eras: Sequence[Era]) -> int:
    """The most that a label lies after its row, in any era."""
    return max(era.boundaries.step for era in eras)


def finest_grid(eras: Sequence[Era]) -> Progression:
    """The coarsest progression that holds the boundaries of all panes of all eras."""
    every = [progression for era in eras for progression in era.boundaries.every]
    first = every[0].phase
    apart = [progression.phase - first for progression in every]
    apart += [era.start - first for era in eras if era.start is not None]
    return Progression.through(first, gcd(*(each.slide for each in every), *apart))


def _bigint(value: int) -> Column:
    return F.lit(value).cast("bigint")


def _one_of(columns: list[Column], choose: Callable[..., Column]) -> Column:
    return columns[0] if len(columns) == 1 else choose(*columns)


def _fewest(progressions: Iterable[Progression]) -> tuple[Progression, ...]:
    """Without those whose positions are all among another's."""
    fewest: list[Progression] = []
    for progression in sorted(set(progressions)):
        if not any(other.holds(progression) for other in fewest):
            fewest.append(progression)
    return tuple(fewest)


def _grid(windows: Sequence[Window]) -> Progression:
    """The coarsest progression that holds all boundaries."""
    first = windows[0].end_offset
    lengths = (part for w in windows for part in (w.slide, w.size, w.end_offset - first))
    return Progression.through(first, gcd(*lengths))


def _panes(progressions: Sequence[Progression], span: int) -> int:
    """Panes between these boundaries, over a span."""
    positions = [np.arange(p.phase, span, p.slide) for p in progressions]
    return len(np.unique(np.concatenate(positions)))
