"""One shard without Spark: closed panes into the local engine, its windows out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skyband.engine.results import Ranked
from skyband.order import Ints
from skyband.spark.state.candidates import FOREVER, Answer, Column, Lives
from skyband.spark.state.ids import Numbers
from skyband.spark.state.shard_engine import SLIDE, Engine, begin

if TYPE_CHECKING:
    from skyband.engine.monitor import BaseMonitor

_TOGETHER = 1_000_000  # rows, taken in or ranked, that one push should not exceed by much
_FAR = 1 << 30  # windows from which on time begins anew whenever nothing is alive


class ShardPane(NamedTuple):
    """The rows of a closed pane that can be ranked, by time, then id, then whatever else.

    ``ids`` holds a column per part of the id, ``hashes`` a hash of each id unless ids are whole
    numbers, ``columns`` what the engine wants besides. A column is a list or an array.
    """

    number: int
    at: Any
    hashes: Column
    ids: list[Any]
    columns: list[Any]


@dataclass
class Shard:
    """Maintains the engine of one shard, the ids of its objects, and the true times of its rows.

    Window numbers are true ones; ``base`` is the window that ends at the engine's time zero, and
    ``last`` the last window that has anything to tell. Answers carry the columns of the id and,
    if rankings of shards are to be ``merged``, the time of each object's newest row.

    Invariants: panes come in ascending order, none of a window that was answered.
    """

    engine: Engine
    lives: Lives
    monitor: BaseMonitor[Any]
    numbers: Numbers
    merged: bool
    base: int = -FOREVER
    last: int = -FOREVER
    made: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # made up times, ascending
    at: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # and the true ones
    _held: int = 0
    _done: int = -FOREVER

    @property
    def idle(self) -> bool:
        """Whether nothing is left to answer until a pane arrives."""
        return self.last <= self._done

    @property
    def held(self) -> int:
        """Objects that may still be answers."""
        return 0 if self.idle else self._held

    def run(self, panes: list[ShardPane], closed: int) -> Iterator[Answer]:
        """Take in closed panes, in any order, and answer the windows up to ``closed``."""
        waiting: list[ShardPane] = []
        for pane in sorted(panes, key=lambda pane: pane.number):
            if not len(pane.at):
                continue
            before = self.lives.step(pane.number) - 1
            if self.base == -FOREVER:
                self.base = before
            if waiting and self._worth(waiting, before):
                yield from self._push(waiting, before)
                waiting = []
            if not waiting and before - self.base > _FAR and self.last <= before:
                yield from self._push([], before)
                self._begin_anew(before)
            waiting.append(pane)
        yield from self._push(waiting, closed)
        self._done = closed
        self._forget()

    def _begin_anew(self, base: int) -> None:
        """Nothing is alive: made up times begin at zero again."""
        self.monitor, self.base = self.engine.new(), base
        self.made = self.at = np.empty(0, np.int64)

    def _worth(self, waiting: list[ShardPane], before: int) -> bool:
        """Whether panes and the windows until the next one are enough to be handed over."""
        windows = before - self.lives.step(waiting[0].number)
        rows = sum(len(pane.at) for pane in waiting)
        return rows + windows * self.engine.k > _TOGETHER or before - self.base > _FAR

    def _push(self, panes: list[ShardPane], until: int) -> Iterator[Answer]:
        """Hand panes to the engine, and answer the windows up to this one."""
        if self.base == -FOREVER:
            return
        times = [
            begin(pane.number, self.base) + np.arange(len(pane.at), dtype=np.int64)
            for pane in panes
        ]
        numbers = [self.numbers.number(pane.ids, pane.hashes) for pane in panes]
        if self.merged:
            self.made = np.concatenate([self.made, *times])
            self.at = np.concatenate([self.at, *(np.array(pane.at, np.int64) for pane in panes)])
        if panes:
            self.last = self.lives.last(panes[-1].number) + int(self.engine.changes)
        until = min(until, self.last)  # beyond it, nothing is left
        none = np.empty(0, np.int64)
        columns = zip(*(pane.columns for pane in panes), strict=True)
        ranked = self.engine.push(
            self.monitor,
            np.concatenate([none, *numbers]),
            np.concatenate([none, *times]),
            [np.concatenate(parts) for parts in columns],
            (until - self.base) * SLIDE,
        )
        if self.monitor.dropped.total:
            raise AssertionError(f"rows of a pane were dropped: {self.monitor.dropped}")
        yield from self._answers(ranked)

    def _answers(self, ranked: Ranked) -> Iterator[Answer]:
        """Windows with the ids of their objects."""
        kept = self.numbers.ids(ranked.id)
        if self.merged:
            assert ranked.time is not None
            kept.append(self.at[np.searchsorted(self.made, ranked.time)].tolist())
        score, rank, window = ranked.score.tolist(), None, ranked.window_end // SLIDE + self.base
        if self.engine.changes:
            assert ranked.previous_rank is not None
            rank, previous = ranked.rank.tolist(), ranked.previous_rank.tolist()
        cuts = ranked.offsets.tolist()
        for i, number in enumerate(window.tolist()):
            low, high = cuts[i], cuts[i + 1]
            if low == high:
                continue
            columns = [column[low:high] for column in kept]
            if rank is None:
                yield Answer(number, score[low:high], columns)
            else:
                yield Answer(number, score[low:high], columns, rank[low:high], previous[low:high])

    def _forget(self) -> None:
        """Let go of ids and times that can no longer be reported."""
        if self.base == -FOREVER:
            return
        self.monitor.forget()
        number, time = self.monitor.reportable()
        numbers = np.unique(number)
        self._held = len(numbers)
        self.numbers.forget(numbers)
        if self.merged:
            there = np.isin(self.made, time)
            self.made, self.at = self.made[there], self.at[there]
