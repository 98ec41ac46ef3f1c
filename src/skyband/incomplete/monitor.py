"""Continuous top-k over incomplete streams of the rows that are pushed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.engine.changes import Changes
from skyband.engine.columns import id_column, score_column
from skyband.engine.plan import Plan
from skyband.engine.results import Ranked
from skyband.engine.rows import Rows
from skyband.engine.snapshot import window_of
from skyband.engine.steps import Steps
from skyband.engine.waiting import Waiting
from skyband.errors import DataError, QueryError, SnapshotError
from skyband.incomplete import build
from skyband.incomplete.planner import plan
from skyband.incomplete.query import TopKIncomplete
from skyband.incomplete.rows import beside, rows_of
from skyband.kernels.emission import Out
from skyband.order import Bools, Floats, Ints
from skyband.topk.monitor import Monitor


class WaitingRows(Waiting):
    """Maintains rows that wait for the watermark; any of them may complete an answer."""

    def tidy(self) -> None:
        """Nothing can be dropped."""

    def release(self, before: int) -> tuple[Floats, Ints, Ints, Floats]:
        """Hand out, in sequence, the rows with times before ``before``.

        Rows of one object and time stand by stream and value, so that their order of arrival does
        not matter.
        """
        value, id, time, matrix = super().release(before)
        if not len(value):
            return value, id, time, matrix
        order = np.lexsort((value, matrix[:, 0], id, time))
        return value[order], id[order], time[order], matrix[order]


class IncompleteMonitor(Monitor):
    """Answers one continuous top-k query over incomplete streams.

    Parameters are those of :class:`skyband.Monitor`. Answers name objects by id; their time is that
    of the newest attribute. :attr:`clipped` counts values that were moved to a bound.

    >>> from skyband import IncompleteMonitor, TopKIncomplete, last
    >>> monitor = IncompleteMonitor(TopKIncomplete(2, ["a", "b"], last(count=4)))
    >>> for ranked in monitor.push([7, 8, 9, 7], ["a", "a", "b", "b"], [0.5, 0.75, 0.25, 0.5]):
    ...     print(ranked)
    [0, 4) 1. 1 (id 7), 2. 0.75 (id 8)
    """

    family = "incomplete"
    query: TopKIncomplete  # type: ignore[assignment]

    def _check(self, query: Any) -> None:
        if not isinstance(query, TopKIncomplete):
            raise QueryError(
                f"query is {query!r}", "a TopKIncomplete query", "write TopKIncomplete(k=10, ...)"
            )

    @classmethod
    def _query_of(cls, found: Mapping[str, Any]) -> TopKIncomplete:
        return TopKIncomplete(
            found["k"],
            found["streams"],
            window_of(found),
            found["combine"],
            found["bounds"],
            found["outside"],
            found["repeats"],
            found["emit"],
        )

    def _planned(self, algorithm: str, options: Mapping[str, Any] | None) -> Plan:
        if algorithm != "auto":
            return Plan(algorithm, ("asked for by name",))
        if options:
            raise QueryError(
                f"option {next(iter(options))!r} for auto", "no options", "name the algorithm"
            )
        return plan(self.query)

    def _build(self) -> None:
        self.clipped = 0
        # scores change as rows come and go, so what changed is told from whole rankings
        setting = replace(self._setting(), changes=False, weights=None)
        self._algorithm = build(self.plan.algorithm, setting, self.query)
        self._pending = WaitingRows(self._panes, self.query.k, 2)
        self._changes = Changes() if self.query.emit == "changes" else None

    def push(  # type: ignore[override]
        self,
        ids: Any = None,
        streams: Any = None,
        values: Any = None,
        *,
        times: Any = None,
        watermark: Any = None,
    ) -> Ranked:
        """Take in a batch of rows and return the windows that it completes.

        ``streams`` are names, or their places in the query, per row; or one name for all rows. Rows
        whose value is NULL or NaN tell nothing, and are counted in :attr:`dropped`. The rest is as
        in :meth:`skyband.Monitor.push`.
        """
        rows = (ids, streams, values)
        if any(part is None for part in rows) and any(part is not None for part in rows):
            raise DataError("ids, streams or values are missing", "all three", "push(ids, ...)")
        if ids is None:
            ids, streams, values = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        clipped = self.clipped
        try:
            return super().push(
                values, ids=ids, attributes=(streams, ids), times=times, watermark=watermark
            )
        except DataError:
            self.clipped = clipped  # nothing was taken in
            raise

    def _scores(self, scores: Any, attributes: Any) -> tuple[Floats, Floats, Bools | None]:
        """Streams and ids, values within the bounds, and where they are NULL."""
        if attributes is None:  # finish
            return np.empty((0, 2)), np.empty(0), None
        value, null = score_column(scores, "values")
        id = id_column(attributes[1], len(value))
        stream = stream_column(attributes[0], len(value), tuple(self.query.streams))
        with np.errstate(invalid="ignore"):
            low, high = self.query.low[stream], self.query.high[stream]
            beyond = np.flatnonzero((value < low) | (value > high))
        if len(beyond) and self.query.outside == "error":
            at = beyond[0]
            raise DataError(
                f"a value of {value[at]:g} in stream {self.query.streams[stream[at]]!r}",
                f"values from {low[at]:g} to {high[at]:g}",
                "declare wider bounds, or outside='clip'",
            )
        if len(beyond):
            self.clipped += len(beyond)
            value = np.clip(value, low, high)
        return beside(stream, id), value + 0.0, null  # -0.0 becomes 0.0

    def _rows(
        self, score: Floats, id: Ints | None, time: Ints | None, matrix: Floats | None
    ) -> Rows:
        assert matrix is not None
        stream, object_id = rows_of(matrix)
        return Rows(score, object_id, time, (stream,))

    def _ranked(self, target: Out, steps: Steps) -> Ranked:
        whole = super()._ranked(target, steps)
        if self._changes is None:
            return whole
        time = whole.id if whole.time is None else whole.time
        found = self._changes.of_windows(
            [0] * len(whole), whole.offsets, (whole.score, whole.id, time, whole.id)
        )
        score, _, at, id = found.columns
        return replace(
            whole,
            offsets=found.offsets,
            score=score,
            id=id,
            time=None if whole.time is None else at,
            ranks=found.ranks,
            previous_rank=found.previous,
        )

    def kept(self) -> Ints:
        """Numbers of the rows by which objects may still be reported, ascending."""
        return self._algorithm.kept()

    def _own_arrays(self) -> dict[str, NDArray[Any]]:
        changes = {} if self._changes is None else self._changes.arrays()
        return {"clipped": np.array([self.clipped], np.int64), **changes}

    def _adopt(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.clipped = int(arrays["clipped"][0])
        if self._changes is not None:
            self._changes.adopt(arrays)

    def snapshot(self) -> bytes:
        """The whole state as bytes; :meth:`restore` goes on from them bit for bit."""
        if callable(self.query.combine):
            raise SnapshotError(
                "combine is a function", "a name or weights", "functions cannot be written down"
            )
        return super().snapshot()


def stream_column(values: Any, rows: int, streams: tuple[str, ...]) -> Ints:
    """A column of stream names, or of their places, as places."""
    if isinstance(values, str):
        values = np.full(rows, values)
    if hasattr(values, "dictionary_encode"):  # Arrow
        values = values.to_pylist()
    if isinstance(values, Sequence) and any(value is None for value in values):
        raise DataError("a stream is NULL", f"one of {', '.join(streams)}")
    try:
        column = np.asarray(values)
    except ValueError:
        raise DataError("streams of different lengths", "a stream per row") from None
    if column.shape != (rows,):
        raise DataError(f"{column.size} streams for {rows} rows", "a stream per row")
    if not rows:
        return np.empty(0, np.int64)
    if np.issubdtype(column.dtype, np.integer):
        low, high = int(column.min()), int(column.max())
        if low < 0 or high >= len(streams):
            raise DataError(f"stream number {low if low < 0 else high}", f"0 to {len(streams) - 1}")
        return column.astype(np.int64)
    found = np.full(rows, -1, np.int64)
    for place, name in enumerate(streams):
        found[column == name] = place
    unknown = np.flatnonzero(found < 0)
    if len(unknown):
        raise DataError(
            f"stream {str(column[unknown[0]])!r}",
            f"one of {', '.join(streams)}",
            "name it in streams=[...]",
        )
    return found
