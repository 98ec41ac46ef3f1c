"""What the algorithms that keep rows by object have in common."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from skyband.engine.algorithm import Algorithm
from skyband.engine.plan import Setting
from skyband.errors import QueryError
from skyband.incomplete.combine import ADD, FORM, LARGEST, LEAST, MAX, ONCE, SUM, Rule
from skyband.incomplete.objects import NONE, Store, empty_store
from skyband.incomplete.planner import MOST
from skyband.incomplete.query import TopKIncomplete
from skyband.kernels.records import record
from skyband.order import Ints

SMALL = 256  # rows for which there is room at first


def rule_of(query: TopKIncomplete) -> Rule:
    """How a query makes scores, as kernels take it."""
    combine = query.combine
    how = {"min": LEAST, "max": LARGEST}.get(combine, SUM) if isinstance(combine, str) else SUM
    repeats = {"none": ONCE, "max": MAX}.get(str(query.repeats), ADD)
    width = len(query.streams)
    form = record(FORM, combine=how, repeats=repeats, most=query.most, streams=width)
    return Rule(query.weights, query.low, query.high, form)


class StoreAlgorithm(Algorithm):
    """Maintains rows by object, in a store; the state has fields ``store`` and ``work``."""

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

    def new_store(self) -> Store:
        """An empty store."""
        return empty_store(rule_of(self.query), self.setting.k, self.setting.span, SMALL)

    @override
    def kept(self) -> Ints:
        # objects are reported by their newest rows
        store: Store = self.state.store
        newest = store.objects.newest[: int(store.now[0].objects)]
        seqs: Ints = np.sort(store.rows.seq[newest[newest != NONE]])
        return seqs

    @property
    @override
    def work(self) -> Ints:
        return self.state.work

    @override
    def counters(self) -> dict[str, float]:
        # broken promises: how often an object came more often than the query says
        broken = int(self.state.store.now[0].broken)
        return {**super().counters(), "broken_promises": broken}

    def stored_rows(self) -> dict[int, tuple[int, int, float]]:
        """The id, stream number and value of each row that is kept, by its number."""
        store: Store = self.state.store
        rows, now = store.rows, store.now[0]
        part = slice(int(now.first), int(now.end))
        ids = store.objects.id[rows.owner[part]].tolist()
        kept = zip(ids, rows.stream[part].tolist(), rows.value[part].tolist(), strict=True)
        return dict(zip(rows.seq[part].tolist(), kept, strict=True))

    def last_window(self, seq: int) -> int:
        """The last count window that holds a row."""
        return (seq + self.setting.size) // self.setting.slide
