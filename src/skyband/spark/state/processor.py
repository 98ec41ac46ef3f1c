"""The one stateful processor: closed panes of a key in, ranked windows out.

What is kept of a key differs by family, and is described by a :class:`StateSpec`: named fields, how
a pane looks, and a :class:`KeyState` that runs. The processor itself reads and writes the state,
and holds one timer per key, beyond the watermark, for the next window.

The rule that keeps answers exact whatever a micro-batch holds: sort the panes; before each, answer
every window that ends before it; then insert and prune; then answer all windows that the watermark
has passed. Every :class:`KeyState` keeps to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from skyband.errors import SnapshotError
from skyband.spark.axis import EVERYTHING, Axis, PaneGrid, WatermarkProgress
from skyband.spark.state.batch import Piece, rows_of
from skyband.spark.state.worker_memory import leave_out_imports

if TYPE_CHECKING:
    from skyband.spark.state.candidates import Answer
    from skyband.spark.state.packed import PackedSpec

T = TypeVar("T")

STATE_VERSION = 1
NO_TIMER = -(1 << 62)


class PaneStore:
    """Bytes by pane number in Spark's state store: each is written once, and removed once."""

    def __init__(self, handle: StatefulProcessorHandle, name: str, column: str) -> None:
        key = StructType([StructField("pane", LongType(), False)])
        value = StructType([StructField(column, BinaryType(), False)])
        self._panes = handle.getMapState(name, key, value)

    def __getitem__(self, pane: int) -> bytes:
        value: Any = self._panes.getValue((pane,))
        return bytes(value[0])

    def __setitem__(self, pane: int, data: bytes) -> None:
        self._panes.updateValue((pane,), (data,))

    def __delitem__(self, pane: int) -> None:
        self._panes.removeKey((pane,))


class KeyState(ABC):
    """What is kept of one key while a micro-batch of it is answered."""

    @abstractmethod
    def run(self, panes: list[Any], progress: WatermarkProgress) -> Iterator[tuple[Any, ...]]:
        """Take in closed panes, in any order; answers in the layout of the spec's ``output``."""

    @property
    @abstractmethod
    def alarm(self) -> int | None:
        """The watermark at which there is something to do; None: not before panes come."""

    @property
    def finished(self) -> bool:
        """Whether nothing is left to be kept."""
        return self.alarm is None

    @abstractmethod
    def save(self) -> dict[str, Any]:
        """The fields of the state, by name."""

    def remove(self) -> None:
        """Remove what is kept outside of the state's fields."""
        return

    def fork(self) -> KeyState:
        """A copy that may run ahead and be thrown away: it writes nothing that lasts."""
        spec = getattr(self, "spec", None)  # plain values, which nobody changes
        return deepcopy(self, {id(spec): spec})


@dataclass(frozen=True)
class StateSpec(ABC):
    """What a worker has to know of a query to keep its state; plain values only.

    ``groups`` are the columns that tell keys apart; they come first in a pane.
    """

    groups: tuple[str, ...]
    axis: Axis
    grid: PaneGrid

    name: ClassVar[str] = "candidates"  # of the state in a checkpoint
    arrow: ClassVar[bool] = False  # whether a batch comes as Arrow's arrays, not as lists

    @property
    def pane_store(self) -> tuple[str, str] | None:
        """The name of the store for panes, and of its column, if there is one."""
        return None

    @property
    def batch_order(self) -> tuple[str, ...]:
        """How a batch sorts the panes of a key."""
        return ()

    @property
    def tasks(self) -> int | None:
        """How many tasks share a batch; None: as many as Spark's own setting says."""
        return None

    @property
    @abstractmethod
    def fields(self) -> tuple[StructField, ...]:
        """What is kept of a key, besides version and timer."""

    @property
    @abstractmethod
    def output(self) -> tuple[StructField, ...]:
        """The columns of an answer, without the key."""

    @abstractmethod
    def pane(self, values: tuple[Any, ...]) -> Any:
        """A pane of the columns behind its key."""

    @abstractmethod
    def open(
        self, key: Any, fields: Mapping[str, Any] | None, store: PaneStore | None = None
    ) -> KeyState:
        """A key from its fields, or one of which nothing is known."""

    def answer_all(self, pieces: Iterator[Piece]) -> Iterator[tuple[Any, ...]]:
        """Answer a whole key of a batch, whose panes come in pieces."""
        panes = [self.pane(row) for row in rows_of(pieces)]
        return self.open(None, None).run(panes, EVERYTHING)

    def progress(self, watermark: int) -> WatermarkProgress:
        """How far a watermark is."""
        return self.axis.progress(watermark, self.grid)

    def packed(self) -> PackedSpec | None:
        """The same state for panes and answers in blocks of bytes, if it can be kept so."""
        return None

    def weight(self, row: tuple[Any, ...]) -> int:
        """How many ranked rows an output row holds, without its key."""
        return len(row[2])

    # what windows that are still open need, see `updates.py`

    def pane_of_rows(self, number: int, rows: list[Any], newest: int) -> Any:
        """A pane of rows that were reduced in tasks, as its blocks are read.

        ``newest`` is the position of its newest row.
        """
        raise NotImplementedError

    def ahead(self, newest_pane: int, current: bool) -> WatermarkProgress:
        """How far to run ahead to answer the ``current`` window, or all that have begun."""
        grid = self.grid
        last = grid.step(newest_pane) if current else grid.last_begun(newest_pane)
        return WatermarkProgress(last, False)

    def each_window(self, row: tuple[Any, ...]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """The windows of an output row, each by a name, as an output row of its own."""
        yield str(row[0]), row

    def empty_window(self, name: str) -> tuple[Any, ...] | None:
        """An output row of a window that ranks nothing any more, by its name.

        None where rankings so far never get shorter.
        """
        return None

    def is_current(self, row: tuple[Any, ...], newest_pane: int) -> bool:
        """Whether an output row is of the window that the newest row's slide completes."""
        return bool(row[0] == self.grid.step(newest_pane))

    @property
    def layout(self) -> StructType:
        """All fields of the state."""
        version = StructField("version", IntegerType(), False)
        return StructType([version, StructField("timer", LongType(), False), *self.fields])


class WindowProcessor(StatefulProcessor):
    """Keeps the state of each key in Spark's state store, and answers its windows."""

    def __init__(self, spec: StateSpec, width: int) -> None:
        self._spec = spec
        self._width = width  # of a key
        self._layout = spec.layout
        keys = (f"key_{i}" for i in range(width))
        self._row = Row(*keys, *(field.name for field in spec.output))

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        spec = self._spec
        self._handle = handle
        self._state = handle.getValueState(spec.name, self._layout)
        self._store = PaneStore(handle, *spec.pane_store) if spec.pane_store else None

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[Row], timerValues: Any
    ) -> Iterator[Row]:
        """Take in the panes that closed, and answer what they complete."""
        panes = [self._spec.pane(tuple(row)[self._width :]) for row in rows]
        yield from self._run(key, panes, timerValues.getCurrentWatermarkInMs(), None)

    def handleExpiredTimer(  # noqa: N802
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        """Answer the windows of a key that nothing arrived for."""
        fired = expiredTimerInfo.getExpiryTimeInMs()
        yield from self._run(key, [], timerValues.getCurrentWatermarkInMs(), fired)

    def _run(self, key: Any, panes: list[Any], watermark: int, fired: int | None) -> Iterator[Row]:
        value = self._state.get()
        if value is None and not panes:
            return
        fields = None if value is None else dict(zip(self._layout.names, value, strict=True))
        if fields is not None:
            check_version(fields["version"])
        state = self._spec.open(key, fields, self._store)
        for row in state.run(panes, self._spec.progress(watermark)):
            yield self._row(*key, *row)
        alarm = NO_TIMER if state.alarm is None else state.alarm
        self._move_timer(NO_TIMER if fields is None else fields["timer"], alarm, fired)
        if state.finished:
            state.remove()
            self._state.clear()
            return
        saved = {"version": STATE_VERSION, "timer": alarm, **state.save()}
        self._state.update(tuple(saved[name] for name in self._layout.names))

    def _move_timer(self, timer: int, alarm: int, fired: int | None) -> None:
        """Hold one timer, at ``alarm``, instead of ``timer``; Spark removes the one that fired."""
        if alarm == timer:
            return
        if timer not in (NO_TIMER, fired):
            self._handle.deleteTimer(timer)
        if alarm != NO_TIMER:
            self._handle.registerTimer(alarm)

    def close(self) -> None:
        """Spare the worker, which lives on, what Spark does between tasks."""
        leave_out_imports()


def check_version(version: int) -> None:
    """Refuse a state that another release wrote."""
    if version != STATE_VERSION:
        raise SnapshotError(
            f"the checkpoint holds state of version {version}",
            f"version {STATE_VERSION}",
            "finish this stream with the release that began it, or start a new checkpoint",
        )


def array_field(name: str, type: DataType, nulls: bool = True) -> StructField:
    """A field that holds a column of rows."""
    return StructField(name, ArrayType(type, nulls), False)


def column_fields(types: tuple[DataType, ...], prefix: str = "kept") -> list[StructField]:
    """Fields that hold the carried columns of rows."""
    return [array_field(f"{prefix}_{i}", type) for i, type in enumerate(types)]


def saved_columns(fields: Mapping[str, Any], width: int, prefix: str = "kept") -> list[list[Any]]:
    """The carried columns of rows, from the fields of a state."""
    return [list(fields[f"{prefix}_{i}"]) for i in range(width)]


def named_columns(columns: list[list[Any]], prefix: str = "kept") -> dict[str, Any]:
    """Carried columns as fields of a state."""
    return {f"{prefix}_{i}": column for i, column in enumerate(columns)}


def answer_fields(
    types: tuple[DataType, ...],
    changes: bool,
    score: DataType | None = None,
    shared: bool = False,
) -> tuple[StructField, ...]:
    """The columns of an answer, without the key: one row per window, one array per column.

    A ``score`` is a double unless its type is given. Ranks that are ``shared`` are part of it.
    """
    ranks = StructField("ranks", ArrayType(IntegerType(), False))
    previous = StructField("previous", ArrayType(IntegerType(), False))
    return (
        StructField("window", LongType()),
        StructField("candidates", LongType()),
        StructField("scores", ArrayType(score or DoubleType(), False)),
        *([ranks] if changes or shared else []),
        *([previous] if changes else []),
        *(StructField(f"kept_{i}", ArrayType(type)) for i, type in enumerate(types)),
    )


def answer_rows(
    answers: Iterator[Answer], candidates: Callable[[], int], changes: bool, shared: bool = False
) -> Iterator[tuple[Any, ...]]:
    """Answers in the layout of :func:`answer_fields`.

    The last one tells how many candidates were left after it: their sum over the keys is the size
    of the state.
    """
    for answer, is_last in and_last(answers):
        ranks = (answer.rank, answer.previous) if changes else (answer.rank,) if shared else ()
        left = candidates() if is_last else None
        revision = () if answer.revision is None else (answer.revision, answer.final)
        yield (answer.window, left, answer.score, *ranks, *answer.columns, *revision)


def and_last(items: Iterable[T]) -> Iterator[tuple[T, bool]]:
    """Each item, and whether it is the last one, once that is known."""
    end: Any = object()
    for item, after in pairwise(chain(items, [end])):
        yield item, after is end
