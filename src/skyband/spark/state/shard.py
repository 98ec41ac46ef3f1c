"""A shard: closed panes into the local engine of a family, the best objects of its windows out.

Inside of a shard times are synthetic: the rows of a pane are numbered by (time, id), so that the
engine, which knows objects by numbers, breaks ties as if it knew their ids. Of a window only its
shape is left: how many slides it spans, and whether it begins within one.

All shards see the same watermark, so each answers a window in the micro-batch in which the
watermark passes its end: with panes, or when its timer fires. So their rankings can be merged
without any state, see :mod:`skyband.spark.state.shards`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StructField,
)

from skyband.engine.results import Ranked
from skyband.order import Ints
from skyband.spark.axis import FOREVER, PaneLifetimes, WatermarkProgress
from skyband.spark.columns import POSITION, indexed
from skyband.spark.state.batch import Piece, cut_columns, few_windows
from skyband.spark.state.candidates import Answer
from skyband.spark.state.engine import ranked_windows
from skyband.spark.state.id_encoder import IdEncoder
from skyband.spark.state.previous import LastRanking, pair_fields
from skyband.spark.state.processor import (
    KeyState,
    PaneStore,
    StateSpec,
    answer_fields,
    answer_rows,
    array_field,
)
from skyband.windows import (
    AllTimeWindow,
    CumulativeWindow,
    TimeWindow,
    Window,
    all_time,
    cumulative,
    over_ticks,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.engine.monitor import BaseMonitor

SLIDE = 1 << 28
"""The slide of the engine: a pane has room for half as many rows."""

HASH = "_sky_hash"
"""The hash of an object's id."""

_PUSHED_ROWS = 500_000  # taken in or ranked, that one push should not exceed by much
_FAR = 1 << 30  # windows from which on time begins anew whenever nothing is alive
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_NONE = np.empty(0, np.int64)


class ShardEngine(Protocol):
    """The local engine of a family for one query; plain values only, for workers get it.

    The query's window is that of :func:`synthetic_times`.
    """

    @property
    def k(self) -> int:
        """Objects per window."""

    @property
    def changes(self) -> bool:
        """Whether changes are reported, not whole rankings."""

    @property
    def shares_ranks(self) -> bool:
        """Whether objects of equal score share a rank."""

    def new(self) -> BaseMonitor[Any]:
        """A monitor that has seen nothing."""

    def restore(self, data: bytes) -> BaseMonitor[Any]:
        """A monitor from its snapshot."""

    def push(
        self,
        monitor: BaseMonitor[Any],
        ids: Ints,
        times: Ints,
        columns: list[NDArray[Any]],
        watermark: int,
    ) -> Ranked:
        """Hand rows to a monitor, and what was collected besides ids and times of them."""


def synthetic_times(size: int, slide: int, kind: type[Window] = TimeWindow) -> TimeWindow:
    """A window of synthetic times that holds the same panes as one of this size, slide and kind.

    >>> print(synthetic_times(25, 10).size / SLIDE, synthetic_times(30, 10).size / SLIDE)
    2.5 3.0
    """
    if issubclass(kind, AllTimeWindow):
        return all_time(every=SLIDE)
    if issubclass(kind, CumulativeWindow):
        return cumulative(size // slide * SLIDE, every=SLIDE)
    rest = SLIDE // 2 if size % slide else 0
    return over_ticks(size // slide * SLIDE + rest, SLIDE)


class ShardPane(NamedTuple):
    """The rows of a closed pane that can be ranked, by time, then id, then whatever else.

    ``ids`` holds a column per part of the id, ``hashes`` a hash of each id unless ids are whole
    numbers, ``columns`` what the engine wants besides. A column is a list or an array.
    """

    number: int
    position: Any
    hashes: Any
    ids: list[Any]
    columns: list[Any]

    def times(self, base: int) -> Ints:
        """The synthetic times of the rows, if window ``base`` ends at zero."""
        begin = ((self.number >> 1) - 1 - base) * SLIDE + (self.number & 1) * (SLIDE // 2)
        return begin + np.arange(len(self.position), dtype=np.int64)


@dataclass
class Shard:
    """Maintains the engine of one shard, the ids of its objects, and the true times of its rows.

    Window numbers are true ones; ``base`` is the window that ends at the engine's time zero, and
    ``last`` the last window that has anything to report. Answers carry the columns of the id and,
    if rankings of shards are to be ``merged``, the time of each object's newest row.

    Invariants: panes come in ascending order, none of a window that was answered.
    """

    engine: ShardEngine
    lifetimes: PaneLifetimes
    monitor: BaseMonitor[Any]
    ids: IdEncoder
    merged: bool
    base: int = -FOREVER
    last: int = -FOREVER
    synthetic: Ints = field(default_factory=_NONE.copy)  # times of rows, ascending
    position: Ints = field(default_factory=_NONE.copy)  # and the true ones
    _objects: int = 0
    _answered: int = -FOREVER  # the last window that was

    @property
    def next_window(self) -> int | None:
        """The next window to answer; None if nothing is left until a pane arrives."""
        return self._answered + 1 if self.last > self._answered else None

    @property
    def objects(self) -> int:
        """Objects that may still be answers."""
        return 0 if self.next_window is None else self._objects

    def run(self, panes: Iterable[ShardPane], progress: WatermarkProgress) -> Iterator[Answer]:
        """Take in closed panes, in ascending order, and answer what the watermark has passed.

        Once the stream has ended, nothing is left.
        """
        closed, ended, _ = progress
        upto = self._last_due(None, progress)
        waiting: list[ShardPane] = []
        for pane in panes:
            if not len(pane.position):
                continue
            before = self.lifetimes.step(pane.number) - 1
            upto = self._last_due(pane.number, progress)
            base = self.lifetimes.alike(before)
            if self.base == -FOREVER:
                self.base = base
            if waiting and self._worth(waiting, before):
                yield from self._push(waiting, before)
                waiting = []
            if not waiting and base - self.base > _FAR and self.last <= before:
                yield from self._push([], before)
                self._begin_anew(base)
            waiting.append(pane)
        if upto > -FOREVER:
            yield from self._push(waiting, upto)
        self._answered = closed
        if ended:
            self.last = min(self.last, closed)

    def _last_due(self, newest: int | None, progress: WatermarkProgress) -> int:
        """The last window to answer if this is the newest pane that comes now; None: no pane does.

        Windows of all time end with the rows: those of earlier panes were answered when they came.
        """
        closed, ended, _ = progress
        if not ended:
            return closed
        if newest is None:
            return closed if self.last < FOREVER else -FOREVER
        return min(closed, self.lifetimes.last_at_end(newest))

    def require_few_windows(self, panes: list[int], progress: WatermarkProgress) -> None:
        """Refuse ascending panes that complete more windows than can be answered.

        Of the rows that are there only the last window is known: it tells their newest pane.
        """
        upto = self._last_due(panes[-1] if panes else None, progress)
        answered, due, lifetimes = self.monitor.answered, -FOREVER, self.lifetimes
        if answered is not None:
            span = lifetimes.size // lifetimes.slide
            due = self.base + answered + 1
            step = min(self.last - int(self.engine.changes) - span + 1, due)
            panes = [2 * step, *panes]
        lifetimes.require_few_windows(panes, due, upto)

    def _begin_anew(self, base: int) -> None:
        """Nothing is alive: let synthetic times begin at zero again."""
        self.monitor, self.base = self.engine.new(), base
        self.synthetic = self.position = _NONE

    def _worth(self, waiting: list[ShardPane], before: int) -> bool:
        """Whether panes and the windows until the next one are enough to be handed over."""
        windows = before - self.lifetimes.step(waiting[0].number)
        rows = sum(len(pane.position) for pane in waiting)
        return rows + windows * self.engine.k > _PUSHED_ROWS or before - self.base > _FAR

    def _push(self, panes: list[ShardPane], until: int) -> Iterator[Answer]:
        """Hand panes to the engine, and answer the windows up to this one."""
        if self.base == -FOREVER:
            return
        times = [pane.times(self.base) for pane in panes]
        numbers = [self.ids.encode(pane.ids, pane.hashes) for pane in panes]
        if self.merged:
            positions = (np.array(pane.position, np.int64) for pane in panes)
            self.synthetic = np.concatenate([self.synthetic, *times])
            self.position = np.concatenate([self.position, *positions])
        if panes:
            self.last = self.lifetimes.last(panes[-1].number) + int(self.engine.changes)
        until = min(until, self.last)  # beyond it, nothing is left
        columns = zip(*(pane.columns for pane in panes), strict=True)
        ranked = self.engine.push(
            self.monitor,
            np.concatenate([_NONE, *numbers]),
            np.concatenate([_NONE, *times]),
            [np.concatenate(parts) for parts in columns],
            (until - self.base) * SLIDE,
        )
        if self.monitor.dropped.total:
            raise AssertionError(f"rows of a pane were dropped: {self.monitor.dropped}")
        yield from self._answers(ranked)
        self._forget()

    def _answers(self, ranked: Ranked) -> Iterator[Answer]:
        """Windows with the ids of their objects."""
        columns = self.ids.decode(ranked.id)
        if self.merged:
            assert ranked.time is not None
            columns.append(self.position[np.searchsorted(self.synthetic, ranked.time)].tolist())
        score = ranked.score.tolist()
        for window, low, high, ranks in ranked_windows(ranked, self.monitor.query):
            some = [column[low:high] for column in columns]
            yield Answer(window + self.base, score[low:high], some, *ranks)

    def _forget(self) -> None:
        """Let go of ids and times that can no longer be reported."""
        self.monitor.forget()
        number, time = self.monitor.reportable()
        numbers = np.unique(number)
        self._objects = len(numbers)
        self.ids.retain(numbers)
        if self.merged:
            reportable = np.isin(self.synthetic, time)
            self.synthetic = self.synthetic[reportable]
            self.position = self.position[reportable]


@dataclass(frozen=True)
class ShardSpec(StateSpec):
    """Keeps the engine of each shard.

    ``types`` are those of the parts of an id, ``columns`` what the engine wants of a row besides
    its id and its time; ``merged`` says that there are several shards. Windows before
    ``first_full_window`` are not answered. Rankings that are merged to tell changes are ``paired``
    with those of the window before.
    """

    engine: ShardEngine
    types: tuple[DataType, ...]
    columns: tuple[str, ...]
    merged: bool
    first_full_window: int = -FOREVER
    paired: bool = False

    arrow: ClassVar[bool] = True

    @property
    def whole(self) -> bool:
        """Whether an id is one whole number, which the engine takes as it is."""
        return len(self.types) == 1 and isinstance(self.types[0], _WHOLE)

    @property
    def row_order(self) -> list[str]:
        """How the rows of a pane are sorted: by time, by id, then by the engine's columns."""
        return [POSITION, *indexed("kept", len(self.types)), *self.columns]

    @property
    def batch_order(self) -> tuple[str, ...]:
        """How a batch sorts the rows of a shard."""
        return ("pane", *self.row_order)

    @property
    def fields(self) -> tuple[StructField, ...]:
        """The engine as bytes, ids and times as arrays."""
        times = [array_field("made", LongType(), False), array_field("at", LongType(), False)]
        return (
            StructField("base", LongType(), False),
            StructField("last", LongType(), False),
            StructField("engine", BinaryType(), False),
            *(times if self.merged else []),
            *([] if self.whole else IdEncoder.fields(self.types)),
            *(LastRanking.fields(self._answer_types) if self.paired else []),
        )

    @property
    def output(self) -> tuple[StructField, ...]:
        """The columns of an answer, without key and shard; the last is the time, if merged."""
        fields = answer_fields(self._answer_types, self.engine.changes, shared=self.shares_ranks)
        return (*fields, *pair_fields(self._answer_types)) if self.paired else fields

    @property
    def shares_ranks(self) -> bool:
        """Whether answers say ranks that objects share; those of several shards are ranked anew."""
        return self.engine.shares_ranks and not self.merged

    @property
    def _answer_types(self) -> tuple[DataType, ...]:
        return (*self.types, LongType()) if self.merged else self.types

    def pane(self, values: tuple[Any, ...]) -> ShardPane:
        """A pane of its label, number, times, hashes, ids, columns."""
        _, number, *arrays = values
        return self._pane(number, arrays)

    def _pane(self, number: int, arrays: list[Any]) -> ShardPane:
        position, *rest = arrays
        hashes = [] if self.whole else rest.pop(0)
        ids, rest = rest[: len(self.types)], rest[len(self.types) :]
        return ShardPane(number, position, hashes, ids, rest[: len(self.columns)])

    @property
    def row_names(self) -> list[str]:
        """What a pane has arrays of: times, hashes, ids, the engine's columns."""
        _, *order = self.row_order
        return [POSITION, *([] if self.whole else [HASH]), *order]

    def pane_of_rows(self, number: int, rows: list[pa.RecordBatch], newest: int) -> ShardPane:
        """A pane of rows in their order."""
        return self._pane_of_parts(number, [part.select(self.row_names).columns for part in rows])

    def open(
        self, key: Any, fields: Mapping[str, Any] | None, store: PaneStore | None = None
    ) -> ShardState:
        """A shard from its fields, or one of which nothing is known."""
        ids = IdEncoder(self.whole, len(self.types))
        before = LastRanking(len(self._answer_types))
        if fields is None:
            shard = Shard(self.engine, self.grid, self.engine.new(), ids, self.merged)
            return ShardState(self, shard, before)
        monitor = self.engine.restore(zlib.decompress(bytes(fields["engine"])))
        shard = Shard(
            self.engine, self.grid, monitor, ids, self.merged, fields["base"], fields["last"]
        )
        if self.merged:
            shard.synthetic = np.array(fields["made"], np.int64)
            shard.position = np.array(fields["at"], np.int64)
        ids.restore(fields)
        if self.paired:
            before.restore(fields)
        return ShardState(self, shard, before)

    def answer_all(self, pieces: Iterator[Piece]) -> Iterator[tuple[Any, ...]]:
        """Answer all rows of a shard of a batch, which come sorted, pane after pane.

        A row has the number of its pane, what a pane of a stream has arrays of and, if windows
        count rows, the last window that is complete. A task holds the rows of a few panes at a
        time.
        """
        first = next(pieces)
        closed = first.columns[-1][0].as_py() if self.axis.counts_rows else FOREVER
        panes = self._panes(few_windows(chain([first], pieces), self.grid, closed))
        return self.open(None, None).answer(panes, WatermarkProgress(closed, True))

    def _panes(self, pieces: Iterator[Piece]) -> Iterator[ShardPane]:
        """The panes of sorted rows, as arrays."""
        parts = (
            part for piece in pieces for part in cut_columns(piece.columns[:1], piece.columns[1:])
        )
        for (number,), same in groupby(parts, key=lambda part: part.key):
            yield self._pane_of_parts(number, [part.columns for part in same])

    def _pane_of_parts(self, number: int, parts: list[list[pa.Array]]) -> ShardPane:
        """A pane of Arrow's arrays, which came in parts."""
        import pyarrow as pa

        arrays = [pa.concat_arrays(column) for column in zip(*parts, strict=True)]
        _, position, hashes, ids, columns = self._pane(number, arrays)
        return ShardPane(
            number,
            position.to_numpy(),
            [] if self.whole else hashes.to_pylist(),
            [part.to_numpy() if self.whole else part.to_pylist() for part in ids],
            [column.to_numpy() for column in columns],
        )


@dataclass
class ShardState(KeyState):
    """One shard, and what it ranked last."""

    spec: ShardSpec
    shard: Shard
    before: LastRanking

    def run(self, panes: list[ShardPane], progress: WatermarkProgress) -> Iterator[tuple[Any, ...]]:
        """Take in closed panes, and answer what the watermark has passed."""
        panes = sorted(panes, key=lambda pane: pane.number)
        numbers = [pane.number for pane in panes if len(pane.position)]
        self.shard.require_few_windows(numbers, progress)
        return self.answer(panes, progress)

    def answer(
        self, panes: Iterable[ShardPane], progress: WatermarkProgress
    ) -> Iterator[tuple[Any, ...]]:
        """Take in panes in ascending order, and answer what the watermark has passed."""
        first = self.spec.first_full_window
        answers: Iterator[Answer] = (
            answer for answer in self.shard.run(panes, progress) if answer.window >= first
        )
        if self.spec.paired:
            answers = self.before.paired(answers, progress.closed)
        changes, shared = self.spec.engine.changes, self.spec.shares_ranks
        return answer_rows(answers, lambda: self.shard.objects, changes, shared)

    @property
    def alarm(self) -> int | None:
        """When the next window ends."""
        window = self.shard.next_window
        window = self.before.next_window if window is None else window
        return None if window is None else self.spec.axis.alarm(self.spec.grid.window_end(window))

    def save(self) -> dict[str, Any]:
        """The engine, ids and times of what may still be reported."""
        shard = self.shard
        times = {"made": shard.synthetic.tolist(), "at": shard.position.tolist()}
        return {
            "base": shard.base,
            "last": shard.last,
            "engine": zlib.compress(shard.monitor.snapshot(), 1),
            **(times if shard.merged else {}),
            **shard.ids.save(),
            **(self.before.save() if self.spec.paired else {}),
        }
