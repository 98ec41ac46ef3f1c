"""Panes and answers of a key as one block of bytes each: what Spark hands over row by row is dear.

Spark's stateful processors take their rows, and hand back theirs, value by value in Python. With
many keys that, and arrays of a few candidates per pane, cost several times what ranking does. So
tasks put the panes of each key together as a block of Arrow's columns; the key's candidates take in
all of it in one kernel, and their answers are a block, too, which tasks take apart again. What is
kept of a key is what :mod:`skyband.spark.state.candidates` keeps, field by field.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from skyband.order import Ints
from skyband.spark.axis import WatermarkProgress
from skyband.spark.columns import indexed
from skyband.spark.state.batch import handed_over, tables
from skyband.spark.state.candidates import Candidates, CandidateSpec, CandidateState
from skyband.spark.state.processor import (
    KeyState,
    PaneStore,
    StateSpec,
    array_field,
    column_fields,
)
from skyband.spark.state.row_blocks import arrow_bytes

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.kernels.pane_candidates import Rows

BLOCK = "block"
_BYTES_AT_ONCE = 8 << 20  # of panes, in a task that packs them
_ROWS_AT_ONCE = 1 << 18  # ranked rows that a kernel has room for
_KERNEL = "skyband.kernels.pane_candidates"
_WORTH_LOADING = 10_000  # rows in panes of a worker, from which on its kernel is worth loading


@dataclass(frozen=True)
class PackedSpec(StateSpec):
    """Keeps the candidates of each key as ``plain`` does; its panes and answers come in blocks."""

    plain: CandidateSpec

    @classmethod
    def of(cls, plain: CandidateSpec) -> PackedSpec:
        """The same state, packed."""
        return cls(plain.groups, plain.axis, plain.grid, plain)

    @property
    def fields(self) -> tuple[StructField, ...]:
        """What is kept does not depend on how it comes."""
        return self.plain.fields

    @property
    def output(self) -> tuple[StructField, ...]:
        """A block of answers."""
        return (StructField(BLOCK, BinaryType()),)

    def pane(self, values: tuple[Any, ...]) -> bytes:
        """A block of panes."""
        return bytes(values[-1])

    def open(
        self, key: Any, fields: Mapping[str, Any] | None, store: PaneStore | None = None
    ) -> PackedState:
        """The candidates of a key."""
        return PackedState(self, fields)

    @cached_property
    def panes(self) -> pa.Schema:
        """The layout of panes in a block."""
        from pyspark.sql.pandas.types import to_arrow_schema

        plain = self.plain
        complete = [StructField("reached", LongType())] if self.axis.counts_rows else []
        scores = array_field("scores", plain.score)
        pane = StructField("pane", LongType())
        return to_arrow_schema(StructType([pane, scores, *column_fields(plain.types), *complete]))

    @cached_property
    def answers(self) -> pa.Schema:
        """The layout of answers in a block."""
        from pyspark.sql.pandas.types import to_arrow_schema

        return to_arrow_schema(StructType(list(self.plain.output)))

    def pack(self, panes: DataFrame) -> DataFrame:
        """The panes of each key, in blocks of a task's."""
        names = [*self.groups, *self.panes.names]
        keys = [panes.schema[name] for name in self.groups]  # a state keeps what may be NULL
        schema = StructType([*keys, StructField(BLOCK, BinaryType())])
        return panes.select(*names).mapInArrow(self._packed, schema)

    def _packed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blocks of a task's panes."""
        for panes in tables(batches, _BYTES_AT_ONCE, "nbytes"):
            yield self._blocks(panes)

    def _blocks(self, table: pa.Table) -> pa.RecordBatch:
        """The panes of each key as a block."""
        import pyarrow as pa

        from skyband.spark.state.arrow_order import codes

        (rows,) = table.combine_chunks().to_batches()
        width = len(self.groups)
        code = codes(rows.columns[:width], rows.num_rows)
        order = np.argsort(code, kind="stable")
        rows = rows.take(pa.array(order))
        cuts = np.searchsorted(code[order], np.arange(int(code.max()) + 2)).tolist()
        panes = rows.select(self.panes.names)
        blocks = [arrow_bytes(panes.slice(low, high - low)) for low, high in pairwise(cuts)]
        firsts = pa.array(cuts[:-1])
        keys = [column.take(firsts) for column in rows.columns[:width]]
        return pa.RecordBatch.from_arrays(
            [*keys, pa.array(blocks, pa.binary())], [*self.groups, BLOCK]
        )

    def unpack(self, blocks: DataFrame, schema: StructType) -> DataFrame:
        """Answers behind their keys, one window a row."""
        return blocks.mapInArrow(partial(self._unpacked, schema), schema)

    def _unpacked(
        self, schema: StructType, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        def one(keys: list[Any], parts: list[pa.RecordBatch]) -> pa.RecordBatch:
            (answers,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
            place = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])
            repeated = [key.take(pa.array(place)) for key in keys]
            return pa.RecordBatch.from_arrays([*repeated, *answers.columns], schema.names)

        width = len(self.groups)
        for batch in batches:
            first, ranked = 0, 0
            parts: list[pa.RecordBatch] = []
            for block in batch.column(width):
                parts.append(pa.ipc.read_record_batch(block.as_buffer(), self.answers))
                ranked += parts[-1].num_rows * self.plain.k
                if ranked >= _ROWS_AT_ONCE:
                    yield one([key[first:] for key in batch.columns[:width]], parts)
                    first, ranked, parts = first + len(parts), 0, []
            if parts:
                yield one([key[first:] for key in batch.columns[:width]], parts)


class _Work(NamedTuple):
    """What a kernel is to do with some panes: ``windows`` from ``first`` to ``last``, at most."""

    saved: Candidates
    order: Ints  # of the panes that count
    number: Ints  # of each pane
    length: Ints  # rows of each pane
    complete: int  # the last window that rows complete
    upto: int  # the last window that is answered
    windows: int
    first: int
    last: int
    fits: bool  # whether the kernel has room for all


class PackedState(KeyState):
    """The candidates of one key, in columns; or, where a kernel is not worth it, as plain ones."""

    _rows_met = 0  # by this worker, in panes

    def __init__(self, spec: PackedSpec, fields: Mapping[str, Any] | None) -> None:
        self.spec = spec
        self._fields = fields
        self._saved: dict[str, Any] = {}
        self._due: int | None = None  # None: nothing is kept

    def run(self, panes: list[bytes], progress: WatermarkProgress) -> Iterator[tuple[Any, ...]]:
        """Take in blocks of panes, and answer what the watermark has passed, in blocks."""
        import pyarrow as pa

        layout = self.spec.panes
        batches = [pa.ipc.read_record_batch(pa.py_buffer(data), layout) for data in panes]
        rows = sum(len(batch.column("scores").flatten()) for batch in batches)
        PackedState._rows_met += rows
        answers: Iterator[pa.RecordBatch]
        if rows and (PackedState._rows_met >= _WORTH_LOADING or _KERNEL in sys.modules):
            (table,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
            answers = self._in_columns(table, progress)
        else:
            answers = self._plainly(batches, progress)
        before: pa.RecordBatch | None = None
        for block in filter(len, answers):
            if before is not None:
                yield (_block_of(before, None),)
            before = block
        if before is not None:
            yield (_block_of(before, len(self._saved["score"])),)

    def _plainly(
        self, batches: list[pa.RecordBatch], progress: WatermarkProgress
    ) -> Iterator[pa.RecordBatch]:
        """Answer window by window, without a kernel."""
        plain = self.spec.plain
        state = plain.open(None, self._fields)
        rows = (zip(*(column.to_pylist() for column in b.columns), strict=True) for b in batches)
        panes = [plain.pane((None, *row)) for part in rows for row in part]
        layout = StructType(list(plain.output))
        yield from handed_over(state.run(panes, progress), layout, plain.weight)
        self._keep(state)

    def _in_columns(
        self, panes: pa.RecordBatch, progress: WatermarkProgress
    ) -> Iterator[pa.RecordBatch]:
        """Answer by the kernel: half of the windows after the other, if it has no room for all."""
        import pyarrow as pa

        work = self._work(panes, progress)
        if work is None or (not work.fits and work.first >= work.last):
            yield from self._plainly([panes], progress)
        elif work.fits:
            yield self._run_kernel(panes, progress, work)
        else:
            middle = (work.first + work.last) // 2
            is_early = panes.column("pane").to_numpy() >> 1 <= middle
            halves = (is_early, WatermarkProgress(middle, False)), (~is_early, progress)
            for inside, upto in halves:
                yield from self._in_columns(panes.filter(pa.array(inside)), upto)
                self._fields = self._saved

    def _keep(self, state: CandidateState) -> None:
        self._saved = state.save()
        self._due = None if state.candidates.idle else state.candidates.due

    def _work(self, panes: pa.RecordBatch, progress: WatermarkProgress) -> _Work | None:
        """What the kernel has to do; None where it cannot tell how much room that needs."""
        plain, grid = self.spec.plain, self.spec.grid
        saved = plain.open(None, self._fields).candidates
        number = panes.column("pane").to_numpy()
        length = panes.column("scores").value_lengths().fill_null(0).to_numpy()
        counts_rows = self.spec.axis.counts_rows
        order = np.argsort(number, kind="stable")
        order = order[(length[order] > 0) | counts_rows]
        at_end = [grid.last_at_end(pane) for pane in number[order].tolist()]
        if counts_rows:
            at_end = np.minimum(at_end, panes.column("reached").to_numpy()[order]).tolist()
        complete = max([saved.last_complete_window, *at_end])
        upto = min(progress.closed, complete) if progress.ended else progress.closed
        ranked = number[order][length[order] > 0].tolist()
        if len(saved):
            newest = int(saved.rows.pane.max())
            if newest >> 1 >= saved.due:  # ahead of its windows: room is not counted for that
                return None
            ranked.insert(0, newest)
        grid.require_few_windows(ranked, saved.due, upto)
        windows = grid.count_windows(ranked, saved.due, upto) if ranked else 0
        if len(order) and int(number[order[0]]) >> 1 < saved.due:
            step, due = int(number[order[0]]) >> 1, saved.due
            raise AssertionError(f"pane of window {step} after window {due - 1} was answered")
        first = max(saved.due, ranked[0] >> 1) if ranked else upto
        last = min(upto, int(grid.last(ranked[-1]))) if ranked else upto
        fits = windows * plain.k <= _ROWS_AT_ONCE
        return _Work(saved, order, number, length, complete, upto, windows, first, last, fits)

    def _run_kernel(
        self, panes: pa.RecordBatch, progress: WatermarkProgress, work: _Work
    ) -> pa.RecordBatch:
        """Answer in columns."""
        import pyarrow as pa

        from skyband.kernels.pane_candidates import Panes, Query, answer_panes, rows_of, run_of

        plain, saved = self.spec.plain, work.saved
        order, number, length, windows = work.order, work.number, work.length, work.windows
        ends = np.cumsum(length)
        score = np.array(panes.column("scores").flatten().to_numpy())  # Arrow's own is read-only
        rows = rows_of(len(saved) + len(score), score.dtype)
        _fill(rows, saved.rows, saved.dominator_count, self._last(saved.rows.pane))
        run = run_of(rows, len(saved), saved.due, windows, plain.k)
        sorted_number = number[order]
        answer_panes(
            run,
            Panes(
                sorted_number,
                (ends - length)[order].astype(np.int64),
                ends[order].astype(np.int64),
                self._last(sorted_number),
                score,
                len(saved),
            ),
            Query(plain.k, plain.first_full_window, plain.oldest_first),
            work.upto,
        )
        pool = [
            pa.concat_arrays([pa.array(column, values.type), values])
            for column, values in zip(
                saved.pool.columns,
                (panes.column(name).flatten() for name in indexed("kept", len(plain.types))),
                strict=True,
            )
        ]
        kept = int(run.now["kept"][0])
        if progress.ended and work.complete < progress.closed:
            kept = 0
        left = run.spare if run.now["turned"][0] else run.rows
        due = int(run.now["due"][0])
        slots = pa.array(left.slot[:kept])
        columns = {f"kept_{i}": column.take(slots).to_pylist() for i, column in enumerate(pool)}
        self._saved = {
            "due": due,
            "reached": work.complete,
            "beaten": left.dominators[:kept].tolist(),
            "pane": left.pane[:kept].tolist(),
            "place": left.place[:kept].tolist(),
            "score": left.score[:kept].tolist(),
            **columns,
        }
        self._due = due if kept else None
        return self._answers(run, pool)

    def _answers(self, run: Any, pool: list[Any]) -> pa.RecordBatch:
        """What a kernel answered, without how many candidates are left."""
        import pyarrow as pa

        schema, answers = self.spec.answers, run.answers
        windows = int(run.now["answered"][0])
        ends = answers.end[:windows]
        size = int(ends[-1]) if windows else 0
        offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
        slots = pa.array(answers.slot[:size])
        values = [pa.array(answers.score[:size]), *(column.take(slots) for column in pool)]
        lists = [
            pa.ListArray.from_arrays(offsets, column, type=field.type)
            for column, field in zip(values, list(schema)[2:], strict=True)
        ]
        columns = [pa.array(answers.window[:windows]), pa.nulls(windows, pa.int64()), *lists]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _last(self, panes: Ints) -> Ints:
        """The last window that holds each pane."""
        last = np.broadcast_to(self.spec.grid.last(panes), panes.shape)
        return np.ascontiguousarray(last, np.int64)

    @property
    def alarm(self) -> int | None:
        """When the next window ends that holds anything."""
        if self._due is None:
            return None
        return self.spec.axis.alarm(self.spec.grid.window_end(self._due))

    def save(self) -> dict[str, Any]:
        """The candidates, and how far they are answered."""
        return self._saved


def _block_of(answers: pa.RecordBatch, left: int | None) -> bytes:
    """A block of answers, of which the last tells how many candidates are left, or none does."""
    import pyarrow as pa

    place = answers.schema.get_field_index("candidates")
    column = pa.array([None] * (len(answers) - 1) + [left], pa.int64())
    return bytes(answers.set_column(place, answers.schema.field(place), column).serialize())


def _fill(rows: Rows, ranking: Any, dominators: Ints, last: Ints) -> None:
    """Put saved candidates into a kernel's rows."""
    kept = len(ranking)
    rows.pane[:kept] = ranking.pane
    rows.place[:kept] = ranking.place
    rows.score[:kept] = ranking.score
    rows.slot[:kept] = ranking.slot
    rows.dominators[:kept] = dominators
    rows.last[:kept] = last
