"""What pane totals promise, asserted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from skyband.engine.ids import Ids
from skyband.totals.key_ranking import BAR, BELOW, OUT, RANKED, SIZE
from skyband.totals.loop import total_of
from skyband.totals.slots import KEY, SEEN, TOTAL
from skyband.totals.state import (
    EXTREMES,
    KIND,
    LARGEST,
    LIMBS,
    LOWEST,
    MEANS,
    NEXT,
    OLDEST,
    ROWS,
    SIGN,
    SUMS,
    WIDTH,
    State,
)


def check(state: State, directory: Ids, alive: Mapping[int, float]) -> None:
    """Assert the invariants of :class:`PaneTotals` after an answer, given the rows alive."""
    numbers, entries, kind = state.numbers, state.entries, int(state.numbers[KIND])
    width = int(numbers[WIDTH])
    living = np.arange(numbers[OLDEST], numbers[NEXT], dtype=np.int64) & entries.mask[0]
    sums = entries.sums.reshape(-1, width)
    rows: Counter[int] = Counter()
    exact: dict[int, Fraction] = {}
    highest: dict[int, float] = {}
    for seq, value in alive.items():
        key = int(directory.id[directory.places(np.array([seq]))[0]])
        rows[key] += 1
        if np.isfinite(value):
            exact[key] = exact.get(key, Fraction(0)) + Fraction(value)
        signed = value * int(state.numbers[SIGN])
        highest[key] = max(highest.get(key, signed), signed)
    counted: Counter[int] = Counter()
    cells = state.slots.rows()
    for at in living:
        counted[int(cells[entries.slot[at], KEY])] += int(sums[at, ROWS])
    assert counted == rows, "1: entries are not the window's rows"
    unit = Fraction(2) ** (32 * int(numbers[LOWEST]) - 1074)
    for slot in range(len(cells)):
        key = int(cells[slot, KEY])
        assert int(cells[slot, TOTAL + ROWS]) == rows[key], f"2: rows of {key}"
        if kind in (SUMS, MEANS):
            limbs = cells[slot, TOTAL + LIMBS :].tolist()
            found = unit * sum(limb << (32 * at) for at, limb in enumerate(limbs))
            assert found == exact.get(key, 0), f"2: sum of {key}"
        if kind == EXTREMES and rows[key]:
            first = int(cells[slot, LARGEST])
            assert first >= numbers[OLDEST], f"2: maximum of {key} has expired"
            assert entries.value[first & entries.mask[0]] == highest[key], f"2: max of {key}"
    held = state.standings
    size, used = int(held.numbers[SIZE]), len(cells)
    order = [(total_of(state, slot), int(cells[slot, SEEN])) for slot in range(used)]
    for at, slot in enumerate(held.heap[:size]):
        assert held.place[slot] == at, "3: a slot does not know its place"
        assert at == 0 or order[slot] < order[held.heap[(at - 1) // 2]], "3: not a heap"
    bar = (float(held.bar[0]), int(held.numbers[BAR]))
    for slot in range(used):
        assert held.place[slot] == OUT or rows[int(cells[slot, KEY])], "3: a key is gone"
        above = held.place[slot] != OUT and order[slot] >= bar
        assert above == (held.place[slot] > BELOW), "3: a key on the wrong side of the bar"
    assert int((held.place != OUT).sum()) == held.numbers[RANKED], "3: keys are miscounted"
