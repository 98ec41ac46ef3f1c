"""SAP: self-adaptive partitions of the window, in its three forms."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import ClassVar

from typing_extensions import override

from skyband.engine.algorithm import Algorithm, best_of
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.errors import QueryError
from skyband.kernels.answers import Out, Ranked
from skyband.order import Ints
from skyband.topk.ring import fitted, numbers_in
from skyband.topk.sap.loop import advance
from skyband.topk.sap.state import DYNAMIC, ENHANCED, EQUAL, WHOLE, State, new_state, with_room


class Sap(Algorithm):
    """Maintains the k best of each partition of the window, and of the oldest partition what else
    may win (enhanced dynamic partitions).

    Options: ``partitions`` (how many units a window has; the paper's m), ``delay`` (form meaningful
    sets as late as possible), ``savl`` (form them as S-AVL, not as lists), ``amortise`` (form the
    next one step by step while the front partition expires: the longest step gets shorter).

    Invariants: (1) every list is in rank order; (2) partitions and the current unit cover the
    window without gaps; (3) a candidate's dominance counter never exceeds the truth, and is below
    k; (4) each finished partition that has not begun to expire is represented by its k best, less
    those with k dominators; (5) within each S-AVL stack scores and ages rise towards the top; (6)
    the first k of candidates and meaningful objects are the answer.

    Complexity: O(log k) amortised per arrival even at worst; O(k) per slide whose answer changes;
    space O(k sqrt(n / max(s, k))) plus 8 bytes per object of the window.

    Reference: Zhu et al., TKDE 29(6), 2017; https://doi.org/10.1109/TKDE.2017.2662236.

    Deviations: see the modules beside this one; the answer comes from a view of somewhat more than
    k objects, so that most slides touch nothing.
    """

    name = "sap"
    mode: ClassVar[int] = ENHANCED
    options = ("partitions", "delay", "savl", "amortise")
    counts_unranked = True
    keeps_window = True
    state: State

    @override
    def new_state(self) -> State:
        options = self.setting.options
        parts = options.get("partitions")
        if parts is not None and (not isinstance(parts, int) or parts < 1):
            raise QueryError(
                f"partitions is {parts!r}", "a whole number of at least 1", "leave it out"
            )
        for name in ("delay", "savl", "amortise"):
            if not isinstance(options.get(name, True), bool):
                raise QueryError(f"{name} is {options[name]!r}", "True or False", "leave it out")
        return new_state(self.setting, self.mode)

    @override
    def run(self, rows: Rows, steps: Steps, target: Out, step: int) -> int:
        return advance(self.state, rows.score, steps, target, step)

    @override
    def reserve(self, rows: Rows, steps: Steps) -> None:
        setting = self.setting
        most = setting.size + setting.slide if setting.counted else None
        raw = fitted(self.state.raw, rows.size, most)
        if raw is not self.state.raw:
            self.state = self.state._replace(raw=raw)

    @override
    def make_room(self, arriving: int) -> None:
        self.state = with_room(self.state)

    @override
    def kept(self) -> Ints:
        return numbers_in(self.state.raw)

    @property
    @override
    def work(self) -> Ints:
        return self.state.current.work

    def _stacks(self) -> list[list[tuple[float, int]]]:
        """Every S-AVL stack in use, bottom first."""
        savl, raw = self.state.savl, self.state.raw
        width = int(savl.pool[0].width)
        stacks = []
        for slot in range(4):
            for i in range(int(savl.slots[slot].stacks)):
                node = int(savl.top[slot * width + i])
                stack: list[int] = []
                while node >= 0:
                    run = savl.nodes[node]
                    stack += range(int(run.oldest), int(run.newest) + 1)
                    node = int(run.below)
                living = [seq for seq in stack[::-1] if seq >= raw.bounds[0]]
                stacks.append([(float(raw.score[seq & raw.mask[0]]), seq) for seq in living])
        return stacks

    def _partitions(self) -> list[tuple[int, int]]:
        """Where the finished partitions begin and end, the oldest first."""
        now, table = self.state.current.now[0], self.state.partitions
        rows = [table[index & (len(table) - 1)] for index in range(int(now.head), int(now.tail))]
        return [(int(row.begin), int(row.end)) for row in rows]

    @override
    def check_invariants(self, alive: Mapping[int, float]) -> None:
        state, k = self.state, self.setting.k
        now = state.current.now[0]
        for items in (state.best, state.front, state.part, state.current.leaders):
            pairs = _pairs(items)
            assert pairs == sorted(pairs, reverse=True), "1: a list is not in rank order"
        partitions = self._partitions()
        edges = [*partitions, (int(now.part_from), int(state.raw.bounds[1]))]
        assert all(a[1] == b[0] for a, b in pairwise(edges)), "2: a gap"
        assert edges[0][0] <= int(state.raw.bounds[0]), "2: the window is not covered"
        for (score, seq), known in zip(_pairs(state.best), state.dominators, strict=False):
            end = next(end for begin, end in partitions if begin <= seq < end)
            true = sum((s, q) > (score, seq) for q, s in alive.items() if q >= end)
            assert known <= true, "3: a dominance counter exceeds the truth"
            assert known < k, "3: a dominated candidate was kept"
        candidates = {seq for _, seq in _pairs(state.best)}
        for begin, end in partitions[0 if now.front_stage == WHOLE else 1 :]:
            inside = {seq: score for seq, score in alive.items() if begin <= seq < end}
            for seq in best_of(inside, k):
                beaten = sum((s, q) > (inside[seq], seq) for q, s in alive.items() if q >= end)
                assert seq in candidates or beaten >= k, "4: one of a partition's best is missing"
        window = self.setting.size if self.setting.counted else None
        for stack in self._stacks():
            for (low, newer), (high, older) in pairwise(stack):
                assert low <= high, "5: scores fall within a stack"
                same_pane = (
                    window is not None
                    and (newer + window) // self.setting.slide
                    == (older + window) // self.setting.slide
                )
                assert older < newer or same_pane or window is None, "5: ages fall within a stack"
        everything = {seq: score for score, seq in _pairs(state.best)}
        for items in (state.front, state.part, state.current.unit):
            everything |= {seq: score for score, seq in _pairs(items)}
        everything |= {seq: score for stack in self._stacks() for score, seq in stack}
        everything |= {seq: score for score, seq in _pairs(state.meaningful)}
        everything = {seq: score for seq, score in everything.items() if seq in alive}
        assert best_of(everything, k) == best_of(alive, k), "6: an answer was lost"


def _pairs(items: Ranked) -> list[tuple[float, int]]:
    """The objects of a list: scores and numbers."""
    size = int(items.size[0])
    return list(zip(items.score[:size].tolist(), items.seq[:size].tolist(), strict=True))


class SapDynamic(Sap):
    """SAP with dynamic partitions: units are merged while the rank test finds nothing special."""

    name = "sap-dynamic"
    mode = DYNAMIC


class SapEqual(Sap):
    """SAP with equal partitions, ``n / m*`` objects each."""

    name = "sap-equal"
    mode = EQUAL


__all__ = ["Sap", "SapDynamic", "SapEqual"]
