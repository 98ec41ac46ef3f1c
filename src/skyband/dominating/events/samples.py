"""AHBA's samples: the scores of some points of a cell stand for those of the others."""

from __future__ import annotations

from skyband.dominating.bounds import least, most
from skyband.dominating.cells import dominates_cell
from skyband.dominating.events.state import (
    ERROR,
    NEAR,
    SAMPLE_ROOM,
    SAMPLING,
    K,
    Samples,
    State,
    draw,
)
from skyband.dominating.exact_scores import track, untrack
from skyband.dominating.point_window import NONE, WIDTH, exact_score, seq_of, slot_of
from skyband.kernels.jit import lean


@lean
def estimate(state: State, slot: int) -> int:
    """What a point scores at most, as the sample of its cell has it; NONE if there is no sample.

    The mean of the sample and its error, by the bound of Hoeffding, or the largest score of the
    sample, if that is more: scores in wide cells differ a lot from their mean.
    """
    samples, cell = state.samples, state.grid.cell[slot]
    size = samples.size[cell]
    if size <= 0:
        return NONE
    width, limits = state.held.numbers[WIDTH], state.limits
    error = state.numbers[ERROR] * (most(limits, cell) - least(limits, cell, width)) // 1000
    return max(samples.total[cell] // size + 1 + error, samples.largest[cell])


@lean
def add_up(state: State) -> None:
    """Bring the sums by cell up to date. O(samples)."""
    samples = state.samples
    for at in range(samples.listed[0]):
        samples.total[samples.listed[1 + at]] = 0
        samples.largest[samples.listed[1 + at]] = 0
    for at in range(samples.items.size[0]):
        cell = state.grid.cell[slot_of(state.held, samples.items.seq[at])]
        samples.total[cell] += samples.items.score[at]
        samples.largest[cell] = max(samples.largest[cell], samples.items.score[at])


@lean
def join(state: State, seq: int, slot: int) -> None:
    """Take a point into the sample of its cell, if there is one and room in it."""
    samples, cell = state.samples, state.grid.cell[slot]
    if samples.size[cell] == NONE or samples.size[cell] >= state.numbers[SAMPLING]:
        return
    _add(state, seq, slot)


@lean
def _add(state: State, seq: int, slot: int) -> None:
    samples, cell = state.samples, state.grid.cell[slot]
    if samples.items.size[0] >= state.numbers[SAMPLE_ROOM] or samples.place[slot] != NONE:
        return
    score = exact_score(state.held, slot, state.work)
    samples.place[slot] = track(samples.items, state.held, seq, score)
    samples.size[cell] += 1
    samples.total[cell] += score
    samples.largest[cell] = max(samples.largest[cell], score)


@lean
def part(state: State, slot: int) -> None:
    """Take a point out of its sample."""
    samples, cell = state.samples, state.grid.cell[slot]
    place = samples.place[slot]
    moved = untrack(samples.items, place, state.held.numbers[WIDTH])
    if moved != NONE:
        samples.place[slot_of(state.held, moved)] = place
    samples.place[slot] = NONE
    if samples.size[cell] != NONE:
        samples.size[cell] -= 1


@lean
def choose_samples(state: State) -> None:
    """Choose the cells to sample: those that may hold answers and that no such cell dominates.

    Bounds must be up to date, and the k best complete. Samples of other cells are dropped, and
    those that are short are filled at random.
    """
    samples, grid, numbers = state.samples, state.grid, state.numbers
    width, side = state.held.numbers[WIDTH], grid.side[0]
    threshold = int(state.best.score[numbers[K] - 1]) - numbers[NEAR] // 2
    samples.size[:] = NONE
    listed = 0
    for cell in range(len(grid.first)):
        if grid.held[cell] == 0 or most(state.limits, cell) <= threshold:
            continue
        dominated = False
        for at in range(listed):
            if dominates_cell(samples.listed[1 + at], cell, side, width):
                dominated = True
                break
        if not dominated and 1 + listed < len(samples.listed):
            samples.listed[1 + listed] = cell
            samples.size[cell] = 0
            listed += 1
    samples.listed[0] = listed
    _keep_listed(samples, state)
    for at in range(listed):
        _fill(state, samples.listed[1 + at])
    add_up(state)


@lean
def _keep_listed(samples: Samples, state: State) -> None:
    """Drop the samples of other cells, and count those that stay."""
    at = samples.items.size[0] - 1
    while at >= 0:
        slot = slot_of(state.held, samples.items.seq[at])
        cell = state.grid.cell[slot]
        if samples.size[cell] == NONE:
            part(state, slot)
        else:
            samples.size[cell] += 1
        at -= 1


@lean
def _fill(state: State, cell: int) -> None:
    """Fill the sample of a cell at random, each of its other points being equally likely."""
    samples, grid, held = state.samples, state.grid, state.held
    others = grid.held[cell] - samples.size[cell]
    missing = min(state.numbers[SAMPLING] - samples.size[cell], others)
    slot = grid.first[cell]
    while slot != NONE and missing > 0:
        if samples.place[slot] == NONE:
            if draw(state, others) < missing:
                _add(state, seq_of(held, slot), slot)
                missing -= 1
            others -= 1
        slot = grid.after[slot]
