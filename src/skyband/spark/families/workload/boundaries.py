"""Where the windows of a workload start and end, and the panes in between.

A query's windows end at ``offset + j * slide`` and start at ``offset - size + j * slide``: two
progressions. The panes of a workload lie between neighbouring places of all progressions of all
queries. A row's *label* is the first end of any window after it: what it completes can be answered
then, and no earlier. A job that goes on with other queries begins a new *era* of panes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from skyband.windows import Window

LATE = 0
"""Where a stream's watermark begins: what is labelled so is late."""

_MOST = 64  # progressions that are worth an expression for each row
_DENSE = 2  # times as many panes that are cheaper than several progressions
_CELLS = 10_000  # of the grid, over which panes are counted


class Progression(NamedTuple):
    """The places ``phase + j * slide``; the phase is in [0, slide)."""

    slide: int
    phase: int

    def holds(self, other: Progression) -> bool:
        """Whether all places of another progression are among these."""
        return other.slide % self.slide == 0 and (other.phase - self.phase) % self.slide == 0


@dataclass(frozen=True)
class Boundaries:
    """The ends of windows, and all places at which some window starts or ends.

    Both are the fewest progressions that say so, or the coarsest grid that holds all of them, where
    that is cheaper or there would be too many.
    """

    ends: tuple[Progression, ...]
    all: tuple[Progression, ...]

    @classmethod
    def of(cls, windows: Iterable[Window]) -> Boundaries:
        """The boundaries of some windows."""
        windows = list(windows)
        ends = _fewest(_progression(w.slide, _offset(w)) for w in windows)
        starts = (_progression(w.slide, _offset(w) - w.size) for w in windows)
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

    def label(self, at: int) -> int:
        """The first end of any window after a place."""
        return min(at - (at - p.phase) % p.slide + p.slide for p in self.ends)

    def pane(self, at: int) -> int:
        """The last boundary at or before a place."""
        return max(at - (at - p.phase) % p.slide for p in self.all)


class Era(NamedTuple):
    """Boundaries from a place on (None: from ever); that place is a boundary itself."""

    begins: int | None
    boundaries: Boundaries

    def plain(self) -> list[Any]:
        """As values that JSON knows."""
        ends, every = ([list(p) for p in ps] for ps in (self.boundaries.ends, self.boundaries.all))
        return [self.begins, ends, every]

    @classmethod
    def of(cls, plain: Sequence[Any]) -> Era:
        """What :meth:`plain` gave."""
        begins, ends, every = plain
        found = [tuple(Progression(*pair) for pair in pairs) for pairs in (ends, every)]
        return cls(begins, Boundaries(*found))


def bounds_of(eras: Sequence[Era], at: int) -> tuple[int, int]:
    """The label and the pane of a place.

    Rows of one era never share a pane with those of another, so what an earlier run counted stays
    as it is. Rows from before the first era are late: they get a label that surely is.
    """
    before = eras[0].begins
    if before is not None and at < before:
        return LATE, LATE
    which = max(i for i, era in enumerate(eras) if era.begins is None or era.begins <= at)
    era = eras[which]
    label, pane = era.boundaries.label(at), era.boundaries.pane(at)
    if era.begins is not None:
        pane = max(pane, era.begins)
    if which + 1 < len(eras):
        label = min(label, eras[which + 1].begins or label)
    return label, pane


def step_of(eras: Sequence[Era]) -> int:
    """The most that a label lies after its row, in any era."""
    return max(era.boundaries.step for era in eras)


def _offset(window: Window) -> int:
    return int(getattr(window, "offset", 0))


def _progression(slide: int, place: int) -> Progression:
    return Progression(slide, place % slide)


def _fewest(found: Iterable[Progression]) -> tuple[Progression, ...]:
    """Without those whose places are all among another's."""
    kept: list[Progression] = []
    for one in sorted(set(found)):
        if not any(other.holds(one) for other in kept):
            kept.append(one)
    return tuple(kept)


def _grid(windows: Sequence[Window]) -> Progression:
    """The coarsest progression that holds all boundaries."""
    first = _offset(windows[0])
    lengths = (part for w in windows for part in (w.slide, w.size, _offset(w) - first))
    slide = gcd(*lengths)
    return _progression(slide, first)


def _panes(progressions: Sequence[Progression], span: int) -> int:
    """Panes between these boundaries, over a span."""
    places = [np.arange(p.phase, span, p.slide) for p in progressions]
    return len(np.unique(np.concatenate(places)))
