"""Continuous top-k over incomplete streams of the rows that are pushed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from skyband.engine.algorithm import Algorithm
from skyband.engine.columns import id_column, score_column
from skyband.engine.family import Family
from skyband.engine.monitor import BaseMonitor
from skyband.engine.plan import Plan, Setting
from skyband.engine.results import Ranked
from skyband.engine.rows import Rows
from skyband.engine.snapshot import Saved, window_of
from skyband.engine.steps import Steps, in_one_window
from skyband.errors import DataError, QueryError, SnapshotError
from skyband.incomplete import EXACT, build
from skyband.incomplete.planner import plan, require_able
from skyband.incomplete.query import TopKIncomplete
from skyband.order import Floats, Ints
from skyband.windows import require_sliding


def _described(described: Mapping[str, Any]) -> TopKIncomplete:
    names = ("combine", "bounds", "outside", "repeats", "emit")
    return TopKIncomplete(
        described["k"],
        described["streams"],
        window_of(described),
        **{name: described[name] for name in names},
        open_windows=described.get("open_windows", "all"),
        ties=described.get("ties", "newest"),
        rank_by=described.get("rank_by", "row_number"),
    )


def _planned(query: TopKIncomplete, algorithm: str, options: Mapping[str, Any]) -> Plan:
    require_able(query, algorithm)
    if algorithm != "auto":
        if algorithm not in EXACT:
            require_sliding(query.window, f"{algorithm}, which estimates")
        return Plan(algorithm, ("asked for by name",))
    if options:
        raise QueryError(
            f"option {next(iter(options))!r} for auto", "no options", "name the algorithm"
        )
    return plan(query)


def _build(planned: Plan, setting: Setting, query: TopKIncomplete) -> Algorithm:
    return build(planned.algorithm, setting, query)


def _by_object(rows: Rows) -> tuple[NDArray[Any], ...]:
    """Rows of one time stand by object, stream and value: their order of arrival is no matter."""
    assert rows.id is not None
    return (rows.id, rows.columns[0], rows.score)


FAMILY = Family(
    name="incomplete",
    query=TopKIncomplete,
    example="TopKIncomplete(k=10, ...)",
    described=_described,
    prunes=False,  # any row may complete an answer
    changes="id",  # scores change as rows come and go
    plan=_planned,
    build=_build,
    ties=_by_object,
)


class IncompleteMonitor(BaseMonitor[TopKIncomplete]):
    """Answers one continuous top-k query over incomplete streams.

    Parameters are those of :class:`skyband.Monitor`. Answers name objects by id; their time is that
    of the newest attribute. :attr:`clipped` counts values that were moved to a bound.

    >>> from skyband import IncompleteMonitor, TopKIncomplete, last
    >>> monitor = IncompleteMonitor(TopKIncomplete(2, ["a", "b"], last(count=4)))
    >>> for ranked in monitor.push([7, 8, 9, 7], ["a", "a", "b", "b"], [0.5, 0.75, 0.25, 0.5]):
    ...     print(ranked)
    [0, 4) 1. 1 (id 7), 2. 0.75 (id 8)
    """

    family = FAMILY
    clipped = 0

    def push(
        self,
        ids: Any = None,
        streams: Any = None,
        values: Any = None,
        *,
        times: Any = None,
        watermark: Any = None,
    ) -> Ranked:
        """Take in a batch of rows and return the windows that it completes.

        ``ids`` name the objects, in whole numbers. ``streams`` are names, or their places in the
        query, per row; or one name for all rows. Rows whose value is NULL or NaN tell nothing, and
        are counted in :attr:`dropped`. ``times`` and ``watermark`` belong to time windows.

        Raises :class:`DataError` before anything is taken in.
        """
        columns = (ids, streams, values)
        if all(column is None for column in columns):
            return self._take(self._no_rows()._replace(time=None), None, times, watermark)
        if any(column is None for column in columns):
            raise DataError("ids, streams or values are missing", "all three", "push(ids, ...)")
        value, null = score_column(values, "values")
        object_ids = id_column(ids, len(value))
        stream = stream_column(streams, len(value), tuple(self.query.streams))
        value, clipped = self._within_bounds(value, stream)
        ranked = self._take(Rows(value, object_ids, None, (stream,)), null, times, watermark)
        self.clipped += clipped
        return ranked

    def _within_bounds(self, value: Floats, stream: Ints) -> tuple[Floats, int]:
        """Values within the bounds of their streams, and how many were moved there."""
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
            value = np.clip(value, low, high)
        return value + 0.0, len(beyond)  # -0.0 becomes 0.0

    @override
    def _no_rows(self) -> Rows:
        return super()._no_rows()._replace(columns=(np.empty(0, np.int64),))

    @override
    def _kernel_steps(self, steps: Steps) -> Steps:
        return in_one_window(steps, self._panes)

    @override
    def _saved(self) -> Saved:
        if callable(self.query.combine):
            raise SnapshotError(
                "combine is a function", "a name or weights", "functions cannot be written down"
            )
        return {"clipped": self.clipped}, {}

    @override
    def _restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self.clipped = header["clipped"]


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
    places = np.full(rows, -1, np.int64)
    for place, name in enumerate(streams):
        places[column == name] = place
    unknown = np.flatnonzero(places < 0)
    if len(unknown):
        raise DataError(
            f"stream {str(column[unknown[0]])!r}",
            f"one of {', '.join(streams)}",
            "name it in streams=[...]",
        )
    return places
