"""A grid over the window, searched from its best corner down.

Axis ``i`` of the grid is the ``i``-th *term* of the score, weight times attribute: better is larger
on every axis, whatever the signs of the weights. With a single axis the term is the score itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from skyband.kernels.heap import replace_worst, sift_up
from skyband.kernels.jit import jit
from skyband.kernels.ranked import Ranked, absorb, rank
from skyband.kernels.ring import Ring, held, ring, store, stretched
from skyband.kernels.work import EVENTS, RESCANNED, RESCANS
from skyband.order import Floats, Ints

_PER_CELL = 8  # objects per cell that a new grid aims at
_MOST_CELLS = 1 << 16
_SAMPLE = 1024  # objects whose quantiles decide where an axis begins and ends
_FARTHEST = 1e307  # an axis ends here at the latest: its length must not overflow
_SHORTEST = 1e-290  # an axis below this length is one slice: its inverse must not overflow
_PATIENCE = 4  # wasted reads, in windows, until the grid is laid out anew
_EASY = 4  # reads per object asked for that are not called waste


class Grid(NamedTuple):
    """Every ranked object of the window in the list of its cell, newest first.

    A list ends where it meets an object older than the window, so nothing is done when objects
    expire. Terms beyond the ends of an axis fall into its first or last slice; ``top`` bounds what
    a slice holds whatever happens, and rises along an axis.
    """

    raw: Ring
    term: Floats  # seq & mask, axis: the terms (empty with one axis)
    older: Ints  # seq & mask: the next older object of the same cell
    newest: Ints  # cell: its newest object; cells count the last axis fastest
    latest: Ints  # axis, slice: its newest object (empty with one axis, whose slices are cells)
    top: Floats  # axis, slice: upper bound of its terms
    low: Floats  # axis: where it begins
    high: Floats  # axis: where it ends
    rate: Floats  # axis: slices per unit
    side: Ints  # axis: slices
    ceiling: Ints  # axis: no slice above this one holds anything
    weight: Floats  # axis: what an attribute is multiplied by
    waste: Ints  # one element: reads beyond need since the layout


def grid(weights: Sequence[float] | None, capacity: int) -> Grid:
    """An empty grid of one cell with room for ``capacity`` objects."""
    weight = np.array(weights or [1.0])
    axes, raw = len(weight), ring(capacity)
    slots = len(raw.score)
    many = axes > 1
    return Grid(
        raw,
        np.zeros((slots if many else 0, axes)),
        np.zeros(slots, np.int64),
        np.full(1, -1, np.int64),
        np.full((axes if many else 0, 1), -1, np.int64),
        np.full((axes, 1), -np.inf),
        np.zeros(axes),
        np.zeros(axes),
        np.zeros(axes),
        np.ones(axes, np.int64),
        np.zeros(axes, np.int64),
        weight,
        np.zeros(1, np.int64),
    )


def with_room(items: Grid, need: int) -> Grid:
    """The grid with room for ``need`` objects at a time. Amortised O(1) per object."""
    low, high = (int(bound) for bound in items.raw.bounds)
    raw = stretched(items.raw, need - (high - low))
    if raw is items.raw:
        return items
    alive = np.arange(low, high)
    old, new = alive & items.raw.mask[0], alive & raw.mask[0]
    older = np.zeros(len(raw.score), np.int64)
    older[new] = items.older[old]
    term = items.term
    if len(term):
        term = np.zeros((len(raw.score), term.shape[1]))
        term[new] = items.term[old]
    return items._replace(raw=raw, older=older, term=term)


@jit
def insert(items: Grid, scores: Floats, attributes: Floats, start: int, stop: int) -> None:
    """Append objects ``start:stop`` of a batch; unranked ones hold their place. O(axes) each."""
    seq = items.raw.bounds[1]
    store(items.raw, scores, start, stop)
    axes = len(items.side)
    for at in range(start, stop):
        if scores[at] == scores[at]:
            if axes == 1:
                _link_on_line(items, scores[at], seq)
            else:
                slot = seq & items.raw.mask[0]
                for axis in range(axes):
                    term = float(attributes[at, axis]) * float(items.weight[axis])
                    items.term[slot, axis] = term
                _link(items, seq)
        seq += 1


@jit
def scan(items: Grid, limit: int, best: Ranked, work: Ints) -> None:
    """Make ``best``, which needs the room, the ``limit`` best objects of the window, ranked.

    Cells are visited in descending order of the best score they can hold, until none left can hold
    one of the best. A cell that can only equal the worst of them is still visited: of equal scores
    the newer wins. O(c log c + r) with c cells visited and r objects read.
    """
    low = items.raw.bounds[0]
    limit = min(limit, items.raw.bounds[1] - low)
    best.size[0] = 0
    extra = buffer(limit)
    axes, side, top = len(items.side), items.side, items.top
    score, older, mask = items.raw.score, items.older, items.raw.mask[0]
    start = _corner(items)
    at = start.copy()
    cell = 0
    for axis in range(axes):
        cell = cell * side[axis] + start[axis]
    # the frontier, a heap of cells with the best bound at its root
    bounds, names, size = np.empty(64 + axes), np.empty(64 + axes, np.int64), 1
    bounds[0], names[0] = -_bound(top, at), cell
    threshold = -np.inf
    read, visited = 0, 0
    while size > 0:
        bound, cell = -bounds[0], names[0]
        if best.size[0] == limit and bound < threshold:
            break
        size -= 1
        replace_worst(bounds, names, 0, size, bounds[size], names[size])
        visited += 1
        seq = items.newest[cell]
        while seq >= low:
            slot = seq & mask
            read += 1
            if score[slot] >= threshold:
                count = extra.size[0]
                extra.score[count] = score[slot]
                extra.seq[count] = seq
                extra.size[0] = count + 1
                if count + 1 == len(extra.score):
                    threshold = _settle(best, extra, limit)
                    if threshold == bound and seq < best.seq[limit - 1]:
                        break  # the rest of the cell can at best be equal, and is older
            seq = older[slot]
        # on a single axis each cell goes behind the ones before; else wait until it matters
        if extra.size[0] > 0 and (axes == 1 or best.size[0] + extra.size[0] >= limit):
            threshold = _settle(best, extra, limit)
        rest, stride = cell, 1
        for axis in range(axes - 1, -1, -1):
            at[axis] = rest % side[axis]
            rest //= side[axis]
        if size + axes > len(bounds):
            bounds, names = _doubled(bounds, names)
        # every cell has one parent: the cell that is better on the first axis it has come down
        for axis in range(axes - 1, -1, -1):
            if at[axis] > 0:
                at[axis] -= 1
                sift_up(bounds, names, 0, size, -_bound(top, at), cell - stride)
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


@jit
def buffer(limit: int) -> Ranked:
    """Room in which to gather objects before they are merged into a list of ``limit``."""
    room = min(max(limit, 64), 1 << 16)
    return Ranked(np.empty(room), np.empty(room, np.int64), np.zeros(1, np.int64))


@jit
def _settle(best: Ranked, extra: Ranked, limit: int) -> float:
    """Merge what was gathered; return the score below which nothing can enter any more."""
    if extra.size[0] > 0:
        rank(extra)
        absorb(best, extra, limit)
        extra.size[0] = 0
    return best.score[limit - 1] if best.size[0] == limit else -np.inf


@jit
def _slice_of(x: float, low: float, high: float, rate: float, side: int) -> int:
    """The slice of a term: never falls when the term rises."""
    if x <= low:
        return 0
    if x >= high:
        return side - 1
    return min(int((x - low) * rate), side - 1)


@jit
def _link_on_line(items: Grid, score: float, seq: int) -> None:
    cell = _slice_of(score, items.low[0], items.high[0], items.rate[0], items.side[0])
    if score > items.top[0, cell]:
        _raise_top(items, 0, cell, score)
    if cell > items.ceiling[0]:
        items.ceiling[0] = cell
    items.older[seq & items.raw.mask[0]] = items.newest[cell]
    items.newest[cell] = seq


@jit
def _link(items: Grid, seq: int) -> None:
    slot = seq & items.raw.mask[0]
    cell = 0
    for axis in range(len(items.side)):
        x = items.term[slot, axis]
        side = items.side[axis]
        here = _slice_of(x, items.low[axis], items.high[axis], items.rate[axis], side)
        if x > items.top[axis, here]:
            _raise_top(items, axis, here, x)
        if here > items.ceiling[axis]:
            items.ceiling[axis] = here
        items.latest[axis, here] = seq
        cell = cell * side + here
    items.older[slot] = items.newest[cell]
    items.newest[cell] = seq


@jit
def _raise_top(items: Grid, axis: int, here: int, x: float) -> None:
    """Raise the bound of a slice: of the last one, or of another after a rounding error."""
    while here < items.side[axis] and items.top[axis, here] < x:
        items.top[axis, here] = x
        here += 1


@jit
def _bound(top: Floats, at: Ints) -> float:
    """The best score that a cell can hold.

    Summed in the order of the scores, rounding never puts it below one of them. Infinities of
    both signs have no sum: then the bound is infinite.
    """
    total = 0.0
    for axis in range(len(at)):
        total += float(top[axis, at[axis]])
    return total if total == total else np.inf


@jit
def _corner(items: Grid) -> Ints:
    """The best slice of each axis in which anything is alive; lowers the ceilings."""
    low = items.raw.bounds[0]
    for axis in range(len(items.side)):
        here = items.ceiling[axis]
        if len(items.side) == 1:
            while here > 0 and items.newest[here] < low:
                here -= 1
        else:
            while here > 0 and items.latest[axis, here] < low:
                here -= 1
        items.ceiling[axis] = here
    return items.ceiling.copy()


@jit
def _doubled(bounds: Floats, names: Ints) -> tuple[Floats, Ints]:
    return np.concatenate((bounds, bounds)), np.concatenate((names, names))


@jit
def wasteful(items: Grid) -> bool:
    """Whether scans have read so much in vain that a new layout would have been paid for."""
    population = items.raw.bounds[1] - items.raw.bounds[0]
    return bool(items.waste[0] > _PATIENCE * population)


@jit
def laid_out(items: Grid, work: Ints) -> Grid:
    """The objects of the window in a grid that fits them. O(window x axes)."""
    axes = len(items.side)
    low, high, rate = np.zeros(axes), np.zeros(axes), np.zeros(axes)
    side = np.ones(axes, np.int64)
    wide = 0
    for axis in range(axes):
        low[axis], high[axis] = _ends(items, axis)
        if high[axis] - low[axis] >= _SHORTEST:
            wide += 1
    population = items.raw.bounds[1] - items.raw.bounds[0]
    work[RESCANNED] += population
    most = min(max(population // _PER_CELL, 1), _MOST_CELLS)
    each = max(int(most ** (1.0 / max(wide, 1))), 2)
    cells = 1
    for axis in range(axes):
        length = high[axis] - low[axis]
        if length >= _SHORTEST and cells * each <= most:
            side[axis] = each
            rate[axis] = each / length
            cells *= each
    slices = side.max()
    top = np.full((axes, slices), -np.inf)
    for axis in range(axes):
        for here in range(side[axis] - 1):
            share = (here + 1) / side[axis]
            edge = low[axis] * (1.0 - share) + high[axis] * share
            top[axis, here] = edge if here == 0 else max(edge, top[axis, here - 1])
        if side[axis] > 1:
            top[axis, side[axis] - 1] = max(high[axis], top[axis, side[axis] - 2])
    fitted = Grid(
        items.raw,
        items.term,
        items.older,
        np.full(cells, -1, np.int64),
        np.full((len(items.latest), slices), -1, np.int64),
        top,
        low,
        high,
        rate,
        side,
        np.zeros(axes, np.int64),
        items.weight,
        np.zeros(1, np.int64),
    )
    mask = items.raw.mask[0]
    for seq in range(items.raw.bounds[0], items.raw.bounds[1]):
        score = items.raw.score[seq & mask]
        if score == score:
            if axes == 1:
                _link_on_line(fitted, score, seq)
            else:
                _link(fitted, seq)
    return fitted


@jit
def _ends(items: Grid, axis: int) -> tuple[float, float]:
    """Where an axis should begin and end: at the extremes, or before them if those are far out.

    What lies beyond the 1st or 99th percentile by more than their distance from the median counts
    as far out; it would leave everybody else in a handful of slices.
    """
    first, stop = items.raw.bounds[0], items.raw.bounds[1]
    stride = max(-(-(stop - first) // _SAMPLE), 1)
    sample = np.empty(_SAMPLE)
    found = 0
    least, most = np.inf, -np.inf
    for seq in range(first, stop):
        slot = seq & items.raw.mask[0]
        score = items.raw.score[slot]
        if score == score:
            x = score if len(items.side) == 1 else items.term[slot, axis]
            if abs(x) <= _FARTHEST:
                least, most = min(least, x), max(most, x)
                if found % stride == 0:
                    sample[found // stride] = x
                found += 1
    if found == 0:
        return 0.0, 0.0
    taken = (found - 1) // stride + 1
    ordered = np.sort(sample[:taken])
    outer = taken // 100
    middle = ordered[taken // 2]
    low = max(least, 2.0 * ordered[outer] - middle)
    high = min(most, 2.0 * ordered[taken - 1 - outer] - middle)
    if high - low >= _SHORTEST:
        return low, high
    return least, most


def window_of(items: Grid) -> Ints:
    """Ascending sequence numbers of the objects in the window."""
    return held(items.raw)


def check_grid(items: Grid, alive: Mapping[int, float]) -> None:
    """Assert that the cells hold the objects alive, each once, none above its cell's bound."""
    first, mask = int(items.raw.bounds[0]), int(items.raw.mask[0])
    found: dict[int, float] = {}
    for cell, newest in enumerate(items.newest.tolist()):
        at = np.array(np.unravel_index(cell, items.side.tolist()), np.int64)
        tops = [float(items.top[axis, here]) for axis, here in enumerate(at)]
        bound, seq = sum(tops[1:], tops[0]), newest
        while seq >= first:
            score, older = float(items.raw.score[seq & mask]), int(items.older[seq & mask])
            assert seq not in found, "an object is in two cells"
            assert older < seq, "a cell is not newest first"
            assert not score > bound, "an object is above the bound of its cell"
            assert all(at <= items.ceiling), "an object is above the ceiling"
            found[seq] = score
            seq = older
    assert found == dict(alive), "the grid is not the window"
    for axis, side in enumerate(items.side.tolist()):
        assert all(np.diff(items.top[axis, :side]) >= 0), "the bounds fall along an axis"
