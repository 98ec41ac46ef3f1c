"""Rows in: what cannot be ranked or comes too late is counted, the rest waits for its windows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.engine.columns import Dropped, moment, time_column
from skyband.engine.rows import Rows
from skyband.engine.snapshot import Saved, join, part
from skyband.engine.waiting import TieBreakers, Waiting, by_id
from skyband.engine.watermark import Watermark, delay_of
from skyband.errors import DataError, QueryError
from skyband.order import Bools, Floats, rises
from skyband.windows import Panes, TimeWindow, Window


class Inlet:
    """Takes rows in for windows of one kind, and says which of them may be answered.

    ``pruned_to`` says how many rows of a pane can be answers, None if any may matter; ``ties``
    puts rows of equal time in sequence; of equal scores the newest rank first, or the
    ``oldest_first``.
    """

    def __init__(
        self,
        window: Window,
        delay: Any,
        pruned_to: int | None,
        ties: TieBreakers = by_id,
        oldest_first: bool = False,
    ) -> None:
        if delay is not None and not isinstance(window, TimeWindow):
            raise QueryError("delay with a count window", "a time window", "leave delay out")
        self.window = window
        self.dropped = Dropped()
        self.arrived = 0  # rows pushed so far
        self.watermark = Watermark(
            delay_of(delay, window) if isinstance(window, TimeWindow) else None
        )
        self.waiting = Waiting(window.panes, pruned_to, ties, oldest_first)
        self.counts_unranked = True  # rows with a NULL or NaN score; else they are like others
        self.drops_unranked = True  # or the family needs them for something else

    def begin_at(self, arrived: int) -> None:
        """Begin as if so many rows had arrived."""
        self.arrived = arrived

    def prune_to(self, panes: Panes, k: int | None) -> None:
        """Let only the k best rows of each pane wait, from now on; None: all rows."""
        self.waiting.panes, self.waiting.k = panes, k

    def check_counted(self, times: Any, watermark: Any) -> None:
        """Refuse times where rows are counted."""
        if times is not None or watermark is not None:
            raise DataError(
                "times or a watermark for a count window",
                "scores only",
                "use last(time=...) for time windows",
            )

    def placed(
        self, rows: Rows, times: Any, watermark: Any
    ) -> tuple[Rows, Bools | None, int | None]:
        """Rows with their times and ids, which of them lack a time, and the watermark to move to.

        Raises :class:`DataError` before anything is taken in.
        """
        window = self.window
        assert isinstance(window, TimeWindow)
        if rows.size and times is None:
            raise DataError("no times", "a time per row", "push(scores, times=...)")
        column, missing = time_column(_NO_TIMES if times is None else times, rows.size, window.unit)
        until = None if watermark is None else moment(watermark, window.unit)
        if until is not None and self.watermark.delay is not None:
            raise DataError(
                "a watermark for a monitor with a delay", "one of them", "leave watermark out"
            )
        ids = rows.id
        if ids is None:
            ids = np.arange(self.arrived, self.arrived + rows.size, dtype=np.int64)
        return rows._replace(id=ids, time=column), missing, until

    def take(self, rows: Rows, nulls: tuple[Bools | None, ...], missing: Bools | None) -> Rows:
        """Let rows of a time window wait for the watermark; drop and count all that cannot.

        Returns those that wait, in memory that may be the caller's.

        ``nulls`` has an entry per score: that of the rows, or a column of theirs for each of
        several, of which a row must have one.
        """
        assert rows.time is not None
        self.arrived += rows.size
        known = None
        if missing is not None:
            self.dropped.null_time += int(missing.sum())
            known = ~missing
        ordered = missing is None and rises(rows.time)
        late = self.watermark.late(rows.time, known, ordered)
        in_time = known
        if late is not None:
            self.dropped.late += int(np.count_nonzero(late if known is None else late & known))
            in_time = ~late if known is None else known & ~late
        ranked = in_time
        if len(nulls) == 1:
            unranked = self.count_unranked(rows.score, nulls[0], in_time)
            if unranked is not None and self.drops_unranked:
                ranked = ~unranked if in_time is None else in_time & ~unranked
        else:
            for column, null in zip(rows.columns, nulls, strict=True):
                self.count_unranked(column, null, in_time)
        if ranked is not None:
            rows = rows.take(np.flatnonzero(ranked))
            assert rows.time is not None
            ordered = ordered or rises(rows.time)
        self.waiting.add(rows, ordered)
        return rows

    def count_unranked(
        self, score: Floats, null: Bools | None, among: Bools | None = None
    ) -> Bools | None:
        """Where scores are NULL or NaN (None: nowhere), counted by reason within ``among``."""
        # a maximum tells of any NaN
        if not self.counts_unranked or not len(score) or not np.isnan(score.max()):
            return None
        unranked = np.isnan(score)
        counted = unranked if among is None else unranked & among
        bad = int(np.count_nonzero(counted))
        nulls = 0 if null is None else int(np.count_nonzero(null & counted))
        self.count_reasons(nulls, bad - nulls)
        return unranked

    def count_reasons(self, nulls: int, not_numbers: int) -> None:
        """Count rows that were not ranked."""
        self.dropped.null_score += nulls
        self.dropped.nan_score += not_numbers

    def saved(self) -> Saved:
        """All of it as plain values and arrays."""
        header: dict[str, Any] = {
            "dropped": dataclasses.asdict(self.dropped),
            "arrived": self.arrived,
        }
        return join(header, {"watermark": self.watermark.saved(), "waiting": self.waiting.saved()})

    def restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what :meth:`saved` gave."""
        self.dropped = Dropped(**header["dropped"])
        self.arrived = header["arrived"]
        self.watermark.restored(*part("watermark", header, arrays))
        self.waiting.restored(*part("waiting", header, arrays))


_NO_TIMES = np.empty(0, np.int64)
