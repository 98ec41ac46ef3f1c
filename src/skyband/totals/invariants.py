"""The invariants of pane totals, asserted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from skyband.engine.whole_numbers import numbers_of
from skyband.totals.key_ranking import BELOW, LOWEST, OUT, RANK, ROW_NUMBER
from skyband.totals.loop import total_of
from skyband.totals.state import (
    EXTREMES,
    FIRSTS,
    LARGEST,
    LASTS,
    LIMB,
    MEANS,
    PANE_SUM,
    ROWS,
    SEEN,
    SUMS,
    TOTAL,
    State,
    alive_entries,
    sum_width,
    total_width,
)


def check(state: State, alive: Mapping[int, float], keys: Mapping[int, int]) -> None:
    """Assert the invariants of :class:`PaneTotals` after an answer.

    ``alive`` are the values of the window's rows by sequence number, no two of equal times;
    ``keys`` are their keys.
    """
    now, entries, ranking = state.now[0], state.entries, state.ranking
    aggregate, used, mask = int(now.aggregate), int(now.used), len(entries.slot) - 1
    width = sum_width(aggregate, int(now.limbs))
    rows: Counter[int] = Counter()
    exact: dict[int, Fraction] = {}
    highest: dict[int, float] = {}
    newest: dict[int, int] = {}
    ends: dict[int, float] = {}
    for seq, value in sorted(alive.items(), reverse=aggregate == FIRSTS):
        key = keys[seq]
        rows[key] += 1
        newest[key] = max(newest.get(key, seq), seq)
        ends[key] = value
        if aggregate in (SUMS, MEANS) and abs(value) != float("inf"):
            number = int(numbers_of(np.array([value]))[0]) if now.whole else value
            exact[key] = exact.get(key, Fraction(0)) + Fraction(number)
        signed = value * int(now.sign)
        highest[key] = max(highest.get(key, signed), signed)
    sums = entries.sums.reshape(-1, width)
    counted: Counter[int] = Counter()
    for at in alive_entries(state):
        counted[int(state.slots.key[entries.slot[at]])] += int(sums[at, ROWS])
    assert counted == rows, "1: entries are not the window's rows"
    totals = state.totals.reshape(-1, total_width(aggregate, int(now.limbs)))
    pane = state.pane.sums.reshape(-1, PANE_SUM + width)
    assert now.opened == 0, "1: the pane of an answer is open"
    assert not pane[:, PANE_SUM:].any(), "1: a closed pane has left something"
    unit = Fraction(2) ** (int(now.origin) - 1074)
    for slot in range(used):
        key = int(state.slots.key[slot])
        assert int(totals[slot, TOTAL + ROWS]) == rows[key], f"2: rows of {key}"
        if rows[key]:
            assert int(pane[slot, SEEN]) == newest[key], f"2: newest row of {key}"
        if aggregate in (SUMS, MEANS):
            limbs = totals[slot, TOTAL + LIMB :].tolist()
            assert all(0 <= limb < 1 << 62 for limb in limbs[:-1]), f"2: limbs of {key}"
            total = unit * sum(limb << (62 * at) for at, limb in enumerate(limbs))
            assert total == exact.get(key, 0), f"2: sum of {key}"
        if aggregate == EXTREMES and rows[key]:
            largest = int(totals[slot, LARGEST])
            assert largest >= now.oldest, f"2: maximum of {key} has expired"
            assert entries.value[largest & mask] == highest[key], f"2: max of {key}"
        if aggregate in (FIRSTS, LASTS) and rows[key]:
            end = entries.value[int(totals[slot, LARGEST]) & mask]
            assert np.array_equal([end], [ends[key]], equal_nan=True), f"2: end of {key}"
            assert np.isnan(end) == (ranking.place[slot] == OUT), f"3: {key} without a value"
    turn = int(now.turn)
    order = [(total_of(state, slot), turn * int(pane[slot, SEEN])) for slot in range(used)]
    for at, slot in enumerate(ranking.heap[: now.above]):
        assert ranking.place[slot] == at, "3: a slot does not know its place"
        assert at == 0 or order[slot] < order[ranking.heap[(at - 1) // 2]], "3: not a heap"
    threshold = (float(now.threshold), int(now.threshold_seq))
    for slot in range(used):
        place = ranking.place[slot]
        assert place == OUT or rows[int(state.slots.key[slot])], "3: a key is gone"
        above = place != OUT and order[slot] >= threshold
        assert above == (place > BELOW), "3: a key on the wrong side of the threshold"
    assert int((ranking.place != OUT).sum()) == now.ranked, "3: keys are miscounted"
    assert now.above >= min(now.k, now.ranked), "4: too few keys above the threshold"
    if now.rank_by != ROW_NUMBER:
        assert now.threshold_seq == LOWEST, "4: a threshold parts equal totals"
        above = {order[slot][0] for slot in ranking.heap[: now.above]}
        enough = now.rank_by == RANK or len(above) >= now.k or now.above == now.ranked
        assert enough, "4: too few totals above the threshold"
