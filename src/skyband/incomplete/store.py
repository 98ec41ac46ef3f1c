"""What the algorithms that keep rows by object have in common."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from skyband.engine.algorithm import Algorithm, Setting
from skyband.errors import QueryError
from skyband.incomplete.combine import ADD, LARGEST, LEAST, MAX, ONCE, SUM, Rule, rule
from skyband.incomplete.objects import BROKEN, FIRST, LAST, NONE, OBJECTS, Store
from skyband.incomplete.planner import MOST
from skyband.incomplete.query import TopKIncomplete
from skyband.order import Ints

SMALL = 256  # rows for which there is room at first


def rule_of(query: TopKIncomplete) -> Rule:
    """How a query makes scores, in numbers."""
    combine = query.combine
    how = {"min": LEAST, "max": LARGEST}.get(combine, SUM) if isinstance(combine, str) else SUM
    repeats = {"none": ONCE, "max": MAX}.get(str(query.repeats), ADD)
    return rule(how, repeats, query.most, query.weights, query.low, query.high)


class StoreAlgorithm(Algorithm):
    """Maintains rows by object, in a store; the state has fields ``held`` and ``work``."""

    attributes = True

    def __init__(self, setting: Setting, query: TopKIncomplete) -> None:
        self.query = query
        if callable(query.combine):
            raise QueryError(
                f"a function as combine for {self.name}",
                "'sum', 'min', 'max' or weights",
                "use recompute",
            )
        if setting.k > MOST:
            raise QueryError(
                f"k is {setting.k:,} for {self.name}", f"{MOST:,} at most", "use recompute"
            )
        super().__init__(setting)

    def kept(self) -> Ints:
        """Objects are reported by their newest rows."""
        held: Store = self.state.held
        newest = held.objects.newest[: int(held.numbers[OBJECTS])]
        found: Ints = np.sort(held.rows.seq[newest[newest != NONE]])
        return found

    @property
    @override
    def work(self) -> Ints:
        return self.state.work

    def counters(self) -> dict[str, float]:
        """Work counters, and how often an object was seen to come more often than promised."""
        broken = int(self.state.held.numbers[BROKEN])
        return {**super().counters(), "broken_promises": broken}

    def held_rows(self) -> dict[int, tuple[int, int, float]]:
        """The id, stream number and value of each row that is kept, by its number."""
        held: Store = self.state.held
        rows, which = held.rows, slice(int(held.numbers[FIRST]), int(held.numbers[LAST]))
        ids = held.objects.id[rows.owner[which]].tolist()
        kept = zip(ids, rows.stream[which].tolist(), rows.value[which].tolist(), strict=True)
        return dict(zip(rows.seq[which].tolist(), kept, strict=True))

    def last_window(self, seq: int) -> int:
        """The last count window that holds a row."""
        return (seq + self.setting.size) // self.setting.slide
