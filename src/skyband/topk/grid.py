"""A grid over the window, searched from its best corner down.

Axis ``i`` of the grid is the ``i``-th *term* of the score, weight times attribute: better is larger
on every axis, whatever the signs of the weights. With a single axis the term is the score itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from skyband.kernels.answers import Ranked
from skyband.kernels.jit import entry, lean
from skyband.kernels.ranked import absorb, rank
from skyband.kernels.work import EVENTS, RESCANNED, RESCANS
from skyband.order import Floats, Ints
from skyband.topk.heap import replace_worst, sift_up
from skyband.topk.ring import Ring, fitted, numbers_in, ring, store

_PER_CELL = 16  # objects per cell that a new layout aims at
_MOST_CELLS = 1 << 16
_SAMPLE = 1024  # objects whose percentiles decide where an axis begins and ends
_FARTHEST = 1e307  # an axis ends here at the latest: its length must not overflow
_SHORTEST = 1e-290  # an axis below this length is one slice: its inverse must not overflow
_PATIENCE = 4  # wasted reads, in windows, that pay for a new layout
_EASY = 4  # reads per object of the answer that do not count as waste
_NO_LAYOUT = 1 << 62  # waste of a grid that was never laid out


class Grid(NamedTuple):
    """Every ranked object of the window in the list of its cell, newest first.

    A list ends where it meets an object older than the window, so nothing is done when objects
    expire. Terms beyond the ends of an axis fall into its first or last slice; ``top`` bounds what
    a slice holds whatever happens, and never falls along an axis.
    """

    raw: Ring
    term: Floats  # seq & mask, axis: the terms (empty with one axis)
    older: Ints  # seq & mask: the next older object of the same cell
    newest: Ints  # cell: its newest object; the last axis counts fastest
    latest: Ints  # axis, slice: its newest object (empty with one axis: slices are cells)
    top: Floats  # axis, slice: upper bound of its terms
    low: Floats  # axis: where it begins
    high: Floats  # axis: where it ends
    rate: Floats  # axis: slices per unit
    side: Ints  # axis: slices
    ceiling: Ints  # axis: no slice above this one holds anything
    weight: Floats  # axis: what its attribute is multiplied by
    waste: Ints  # one element: reads beyond need since the layout


class Arrivals(NamedTuple):
    """A batch: scores, and attributes by row and axis."""

    score: Floats
    attribute: Floats


class Scratch(NamedTuple):
    """Room for work that is over when a kernel returns."""

    fresh: Ranked  # objects gathered before they are merged into a list
    bound: Floats  # the frontier of a scan, a heap of cells: the best score each can hold, negated
    cell: Ints
    start: Ints  # axis: slice at which a scan starts
    at: Ints  # axis: slice that it visits


def grid(weights: Sequence[float] | None, capacity: int) -> Grid:
    """An empty grid of one cell with room for ``capacity`` objects; it wants a layout."""
    weight = np.array(weights or [1.0])
    axes, raw = len(weight), ring(capacity)
    many = axes > 1
    return Grid(
        raw=raw,
        term=np.zeros((len(raw.score) if many else 0, axes)),
        older=np.zeros(len(raw.score), np.int64),
        newest=np.full(1, -1, np.int64),
        latest=np.full((axes if many else 0, 1), -1, np.int64),
        top=np.full((axes, 1), -np.inf),
        low=np.zeros(axes),
        high=np.zeros(axes),
        rate=np.zeros(axes),
        side=np.ones(axes, np.int64),
        ceiling=np.zeros(axes, np.int64),
        weight=weight,
        waste=np.full(1, _NO_LAYOUT, np.int64),
    )


def scratch(items: Grid, limit: int) -> Scratch:
    """Room for scans of this grid that look for ``limit`` objects."""
    axes, room = len(items.side), min(max(limit, 64), 1 << 16)
    return Scratch(
        Ranked(np.empty(room), np.empty(room, np.int64), np.zeros(1, np.int64)),
        np.empty(len(items.newest)),
        np.empty(len(items.newest), np.int64),
        np.empty(axes, np.int64),
        np.empty(axes, np.int64),
    )


def with_room(items: Grid, need: int) -> Grid:
    """The grid with room for ``need`` objects at a time. Amortised O(1) per object."""
    if need <= len(items.raw.score):
        return items
    low, high = (int(bound) for bound in items.raw.bounds)
    raw = fitted(items.raw, need - (high - low))
    alive = np.arange(low, high)
    old, new = alive & items.raw.mask[0], alive & raw.mask[0]
    older = np.zeros(len(raw.score), np.int64)
    older[new] = items.older[old]
    term = items.term
    if len(term):
        term = np.zeros((len(raw.score), term.shape[1]))
        term[new] = items.term[old]
    return items._replace(raw=raw, older=older, term=term)


@lean
def insert(items: Grid, batch: Arrivals, start: int, stop: int) -> None:
    """Append objects ``start:stop`` of a batch; unranked ones hold their place. O(axes) each."""
    seq, axes = items.raw.bounds[1], len(items.side)
    store(items.raw, batch.score, start, stop)
    for at in range(start, stop):
        score = batch.score[at]
        if score == score:
            if axes > 1:
                slot = seq & items.raw.mask[0]
                for axis in range(axes):
                    term = float(batch.attribute[at, axis]) * float(items.weight[axis])
                    items.term[slot, axis] = term
            _link(items, score, seq)
        seq += 1


@lean
def scan(items: Grid, limit: int, best: Ranked, room: Scratch, work: Ints) -> None:
    """Make ``best``, which needs the room, the ``limit`` best objects of the window, ranked.

    Cells are visited in descending order of the best score they can hold, until none left can hold
    one of the best. A cell that can only equal the worst of them is still visited: of equal scores
    the newer wins. O(c log c + r log r) with c cells visited and r objects read.
    """
    extra, side, start, at = room.fresh, items.side, room.start, room.at
    low, mask = items.raw.bounds[0], items.raw.mask[0]
    limit = min(limit, items.raw.bounds[1] - low)
    best.size[0] = 0
    axes = len(side)
    room.cell[0] = _corner(items, start, at)
    room.bound[0] = -_bound(items.top, at)
    size = 1
    threshold = -np.inf
    read, visited = 0, 0
    while size > 0:
        bound, cell = -room.bound[0], room.cell[0]
        if best.size[0] == limit and bound < threshold:
            break
        size -= 1
        replace_worst(room.bound, room.cell, 0, size, room.bound[size], room.cell[size])
        visited += 1
        seq = items.newest[cell]
        while seq >= low:
            slot = seq & mask
            score = items.raw.score[slot]
            read += 1
            if score >= threshold:
                count = extra.size[0]
                extra.score[count] = score
                extra.seq[count] = seq
                extra.size[0] = count + 1
                if count + 1 == len(extra.score):
                    threshold = _settle(best, extra, limit)
            seq = items.older[slot]
        # on a single axis each cell goes behind the ones before; else wait until it matters
        if extra.size[0] > 0 and (axes == 1 or best.size[0] + extra.size[0] >= limit):
            threshold = _settle(best, extra, limit)
        rest, stride = cell, 1
        for axis in range(axes - 1, -1, -1):
            at[axis] = rest % side[axis]
            rest //= side[axis]
        # every cell has one parent: the cell that is better on the first axis it has come down
        for axis in range(axes - 1, -1, -1):
            if at[axis] > 0:
                at[axis] -= 1
                sift_up(room.bound, room.cell, 0, size, -_bound(items.top, at), cell - stride)
                size += 1
                at[axis] += 1
            if at[axis] != start[axis]:
                break
            stride *= side[axis]
    _settle(best, extra, limit)
    items.waste[0] += max(0, read - _EASY * limit)
    work[RESCANS] += 1
    work[RESCANNED] += read
    work[EVENTS] += visited


@lean
def _settle(best: Ranked, extra: Ranked, limit: int) -> float:
    """Merge the objects gathered in ``extra``; return the score below which no other can enter."""
    if extra.size[0] > 0:
        rank(extra)
        absorb(best, extra, limit)
        extra.size[0] = 0
    return best.score[limit - 1] if best.size[0] == limit else -np.inf


@lean
def _corner(items: Grid, start: Ints, at: Ints) -> int:
    """The best slice of each axis in which anything is alive, and their cell; lowers ceilings."""
    low, axes = items.raw.bounds[0], len(items.side)
    cell = 0
    for axis in range(axes):
        here = items.ceiling[axis]
        if axes == 1:
            while here > 0 and items.newest[here] < low:
                here -= 1
        else:
            while here > 0 and items.latest[axis, here] < low:
                here -= 1
        items.ceiling[axis] = here
        start[axis] = here
        at[axis] = here
        cell = cell * items.side[axis] + here
    return cell


@lean
def _bound(top: Floats, at: Ints) -> float:
    """The best score that a cell can hold.

    Summed in the order of the scores, rounding never puts it below one of them. Infinities of
    both signs have no sum: then the bound is infinite.
    """
    total = 0.0
    for axis in range(len(at)):
        total += float(top[axis, at[axis]])
    return total if total == total else np.inf


@lean
def _link(items: Grid, score: float, seq: int) -> None:
    """Put an object in its cell, whose newest it is."""
    slot, axes = seq & items.raw.mask[0], len(items.side)
    cell = 0
    for axis in range(axes):
        x = score if axes == 1 else items.term[slot, axis]
        here = _slice_of(items, axis, x)
        if x > items.top[axis, here]:
            _raise_top(items, axis, here, x)
        if here > items.ceiling[axis]:
            items.ceiling[axis] = here
        if axes > 1:
            items.latest[axis, here] = seq
        cell = cell * items.side[axis] + here
    items.older[slot] = items.newest[cell]
    items.newest[cell] = seq


@lean
def _slice_of(items: Grid, axis: int, x: float) -> int:
    """The slice of a term: never falls when the term rises."""
    if x <= items.low[axis]:
        return 0
    last = int(items.side[axis] - 1)
    if x >= items.high[axis]:
        return last
    return min(int((x - items.low[axis]) * items.rate[axis]), last)


@lean
def _raise_top(items: Grid, axis: int, here: int, x: float) -> None:
    """Raise the bound of a slice: of the last one, or of another after a rounding error."""
    while here < items.side[axis] and items.top[axis, here] < x:
        items.top[axis, here] = x
        here += 1


@entry
def wants_layout(items: Grid) -> bool:
    """Whether the window begins to slide, or scans have wasted more reads than a layout costs."""
    low, high = items.raw.bounds[0], items.raw.bounds[1]
    return bool(0 < low < high and items.waste[0] > _PATIENCE * (high - low))


def laid_out(items: Grid, work: Ints) -> Grid:
    """The objects of the window in a grid that fits them. O(window x axes)."""
    axes = len(items.side)
    slots = numbers_in(items.raw) & items.raw.mask[0]
    ranked = slots[~np.isnan(items.raw.score[slots])]
    terms = items.term[ranked] if axes > 1 else items.raw.score[ranked].reshape(-1, 1)
    if items.waste[0] < _NO_LAYOUT:
        work[RESCANNED] += len(slots)
    ends = np.array([_ends(terms[:, axis]) for axis in range(axes)])
    low, high = ends[:, 0].copy(), ends[:, 1].copy()
    wide = np.flatnonzero(high - low >= _SHORTEST)
    most = min(max(len(ranked) // _PER_CELL, 1), _MOST_CELLS)
    each = max(int(most ** (1 / max(len(wide), 1))), 2)
    side, rate = np.ones(axes, np.int64), np.zeros(axes)
    for axis in wide.tolist():
        if int(side.prod()) * each <= most:
            side[axis] = each
            rate[axis] = each / (high[axis] - low[axis])
    slices = int(side.max())
    top = np.full((axes, slices), -np.inf)
    for axis in np.flatnonzero(side > 1).tolist():
        share = np.arange(1, each + 1) / each
        top[axis] = np.maximum.accumulate(low[axis] * (1 - share) + high[axis] * share)
    fitted = items._replace(
        newest=np.full(int(side.prod()), -1, np.int64),
        latest=np.full((len(items.latest), slices), -1, np.int64),
        top=top,
        low=low,
        high=high,
        rate=rate,
        side=side,
        ceiling=np.zeros(axes, np.int64),
        waste=np.zeros(1, np.int64),
    )
    _link_all(fitted)
    return fitted


@entry
def _link_all(items: Grid) -> None:
    for seq in range(items.raw.bounds[0], items.raw.bounds[1]):
        score = items.raw.score[seq & items.raw.mask[0]]
        if score == score:
            _link(items, score, seq)


def _ends(terms: Floats) -> tuple[float, float]:
    """Where an axis should begin and end: at the extremes, or before them if those are far out.

    Terms beyond the 1st or 99th percentile by more than its distance from the median count as far
    out: an axis that reached to them would have all other objects in a handful of slices.
    """
    finite = terms[np.abs(terms) <= _FARTHEST]
    if not len(finite):
        return 0.0, 0.0
    least, most = float(finite.min()), float(finite.max())
    ordered = np.sort(finite[:: -(-len(finite) // _SAMPLE)])
    outer = len(ordered) // 100
    middle = float(ordered[len(ordered) // 2])
    low = max(least, 2 * float(ordered[outer]) - middle)
    high = min(most, 2 * float(ordered[-1 - outer]) - middle)
    return (low, high) if high - low >= _SHORTEST else (least, most)


def window_of(items: Grid) -> Ints:
    """Ascending sequence numbers of the objects in the window."""
    return numbers_in(items.raw)


def check_grid(items: Grid, alive: Mapping[int, float]) -> None:
    """Assert that the cells hold the objects alive, each once, none above its cell's bound."""
    first, mask = int(items.raw.bounds[0]), int(items.raw.mask[0])
    scores: dict[int, float] = {}
    for cell, newest in enumerate(items.newest.tolist()):
        at = np.array(np.unravel_index(cell, items.side.tolist()), np.int64)
        tops = [float(items.top[axis, here]) for axis, here in enumerate(at)]
        bound, seq = sum(tops[1:], tops[0]), newest
        while seq >= first:
            score, older = float(items.raw.score[seq & mask]), int(items.older[seq & mask])
            assert seq not in scores, "an object is in two cells"
            assert older < seq, "a cell is not newest first"
            assert not score > bound, "an object is above the bound of its cell"
            assert all(at <= items.ceiling), "an object is above the ceiling"
            scores[seq] = score
            seq = older
    assert scores == dict(alive), "the grid is not the window"
    for axis, side in enumerate(items.side.tolist()):
        top = items.top[axis, :side]
        assert all(top[:-1] <= top[1:]), "the bounds fall along an axis"
