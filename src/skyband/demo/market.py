"""Two queries over a stream of trades on the local engine, and their answers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.datasets.stock import SECTORS
from skyband.demo.display import SHOWN, SLIDE, WINDOW, K, Trade
from skyband.durations import microseconds
from skyband.engine.plan import Plan
from skyband.kernels.work import CANDIDATES, MEANINGFUL, SLIDES
from skyband.order import Floats, Ints
from skyband.query import TopK
from skyband.topk.monitor import Monitor
from skyband.windows import last

LENGTH, STEP = microseconds(WINDOW), microseconds(SLIDE)
TOP = TopK(K, last(time=WINDOW, slide=SLIDE))
BEST = TopK(1, last(time=WINDOW, slide=SLIDE))

_SECOND = 1_000_000


class TradePane(NamedTuple):
    """The trades of one slide of time, up to ``end``; ``first`` is the first one's row number."""

    end: int
    first: int
    times: Ints
    values: Floats
    batch: pa.RecordBatch

    def trade(self, at: int) -> Trade:
        """One of its rows."""
        shown = {name: self.batch.column(name)[at].as_py() for name in SHOWN}
        when, value = int(self.times[at]), float(self.values[at])
        return Trade(row=self.first + at, time=when, value=value, **shown)


def panes(batches: Iterable[pa.RecordBatch]) -> Iterator[TradePane]:
    """Cut trades, which come in time order, at the ends of windows.

    Stretches without trades are left out, and so is the last pane of a stream that ends.
    """
    first = 0
    rest: list[pa.RecordBatch] = []  # trades of a pane whose end has not been seen
    for batch in batches:
        (rows,) = pa.Table.from_batches([*rest, batch]).combine_chunks().to_batches()
        times, values = _numbers(rows, "ts"), _numbers(rows, "price") * _numbers(rows, "volume")
        cuts = [0, *(np.flatnonzero(np.diff(times // STEP)) + 1).tolist()]
        for low, high in itertools.pairwise(cuts):
            end = (int(times[low]) // STEP + 1) * STEP
            pane = rows.slice(low, high - low)
            yield TradePane(end, first + low, times[low:high], values[low:high], pane)
        first += cuts[-1]
        rest = [rows.slice(cuts[-1])]


def _numbers(batch: pa.RecordBatch, name: str) -> Any:
    """A column as an array of our own; Arrow's way to NumPy imports pandas, if it is there."""
    column = batch.column(name)
    return np.array(np.from_dlpack(column.cast(pa.int64()) if name == "ts" else column))


class LocalBoard:
    """One query over some of the trades; maintains what is known of those it may still report.

    Invariant: ``reportable`` has the k best trades of each pane of the window, by their arrival
    number in the monitor: no other trade can ever be an answer, whatever the algorithm.

    Complexity: O(1) per trade; space O(k) per pane.
    """

    def __init__(self, query: TopK) -> None:
        self.monitor = Monitor(query)
        self.reportable: dict[int, Trade] = {}
        self.candidates = 0  # that the algorithm kept at the last window
        self.spent = 0.0  # seconds inside the engine
        self._arrived = 0

    def push(self, pane: TradePane, places: Ints) -> dict[int, list[Trade]]:
        """Take in the pane's trades at these places; return answers by the end of their window."""
        values, times = pane.values[places], pane.times[places]
        for at in _best(values, self.monitor.query.k).tolist():
            self.reportable[self._arrived + at] = pane.trade(int(places[at]))
        self._arrived += len(places)
        before = self._work()
        began = time.perf_counter()
        ranked = self.monitor.push(values, times=times, watermark=pane.end)
        self.spent += time.perf_counter() - began
        candidates, slides = self._work() - before
        if slides:
            self.candidates = round(candidates / slides)
        answers = {
            window.end: [self.reportable[number] for number in window.id.tolist()]
            for window in ranked
        }
        alive = pane.end + STEP - LENGTH  # where the next window begins
        self.reportable = {
            number: trade for number, trade in self.reportable.items() if trade.time >= alive
        }
        return answers

    def _work(self) -> Ints:
        """Candidates summed over the windows so far, and the number of those windows."""
        work = self.monitor.algorithm.work
        return np.array([work[CANDIDATES] + work[MEANINGFUL], work[SLIDES]])


def _best(values: Floats, k: int) -> Ints:
    """Where the k best are, and all that equal the last of them."""
    if len(values) <= k:
        return np.arange(len(values))
    return np.flatnonzero(values >= np.partition(values, -k)[-k])


@dataclass(frozen=True)
class Scene:
    """A window's answers, and how the stream and the engine are doing.

    ``rates`` are trades a second, slide by slide of the window; ``candidates`` are those for the
    leaderboard, and for all sectors together.
    """

    end: int
    leaders: list[Trade]
    sectors: list[Trade]
    read: int
    rates: list[float]
    in_window: int
    candidates: tuple[int, int]
    answered: int
    plan: Plan

    @property
    def share(self) -> float:
        """The candidates as a share of the window, in percent."""
        return 100 * sum(self.candidates) / max(self.in_window, 1)

    def candidate_words(self) -> str:
        """How much of the window can still be an answer, in words."""
        top, best = self.candidates
        share = f"{self.share:.2g} % of the window's {self.in_window:,} trades"
        return f"{top}, and {best} for the sectors: {share}"


class Market:
    """Two queries over one stream: the biggest trades of all, and the biggest by sector."""

    def __init__(self) -> None:
        self.top = LocalBoard(TOP)
        self.best = [LocalBoard(BEST) for _ in SECTORS]
        self.read = 0
        self._answered = 0
        self._sizes: dict[int, int] = {}  # trades of each pane of the window, by its end

    @property
    def spent(self) -> float:
        """Seconds inside the engine, for both queries."""
        return sum(board.spent for board in (self.top, *self.best))

    def push(self, pane: TradePane) -> Iterator[Scene]:
        """Take in a pane and give the windows that it completes."""
        self.read += len(pane.times)
        self._sizes[pane.end] = len(pane.times)
        answered = self.top.push(pane, np.arange(len(pane.times)))
        sector = np.from_dlpack(pc.index_in(pane.batch.column("sector"), pa.array(SECTORS)))
        each = [
            board.push(pane, np.flatnonzero(sector == number))
            for number, board in enumerate(self.best)
        ]
        candidates = (self.top.candidates, sum(board.candidates for board in self.best))
        for end, leaders in answered.items():
            ends = range(end - LENGTH + STEP, end + STEP, STEP)
            sizes = [self._sizes.get(one, 0) for one in ends]
            self._answered += 1
            yield Scene(
                end=end,
                leaders=leaders,
                sectors=[trade for answers in each for trade in answers.get(end, [])],
                read=self.read,
                rates=[size * _SECOND / STEP for size in sizes],
                in_window=sum(sizes),
                candidates=candidates,
                answered=self._answered,
                plan=self.top.monitor.plan,
            )
        self._sizes = {end: size for end, size in self._sizes.items() if end > pane.end - LENGTH}
