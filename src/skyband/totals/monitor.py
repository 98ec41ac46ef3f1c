"""Continuous queries for the keys with the largest totals, over the rows that are pushed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.engine.changes import Changes
from skyband.engine.columns import id_column, score_column
from skyband.engine.ids import Ids
from skyband.engine.plan import Plan
from skyband.engine.results import Ranked
from skyband.engine.rows import Rows
from skyband.engine.snapshot import window_of
from skyband.engine.steps import Steps
from skyband.engine.waiting import Waiting
from skyband.errors import DataError, QueryError
from skyband.kernels.emission import Out
from skyband.order import Bools, Floats, Ints
from skyband.topk.monitor import Monitor
from skyband.totals.panes import PaneTotals
from skyband.totals.query import TopKTotals
from skyband.windows import TimeWindow

TIES = ("key", "arrival")
_MOST = 1 << 53


class WaitingRows(Waiting):
    """Maintains rows that wait for the watermark; each of them counts."""

    ties: str = TIES[0]

    def tidy(self) -> None:
        """Nothing can be dropped."""

    def sequence(self, times: Ints, ids: Ints) -> Ints:
        """By time, and of equal times by key, or as they arrived."""
        if self.ties == "key":
            return super().sequence(times, ids)
        return super().sequence(times, np.arange(len(times), dtype=np.int64))


class TotalsMonitor(Monitor):
    """Answers one continuous query for the keys with the largest totals.

    Parameters: the query and, for time windows, ``delay`` as in :class:`skyband.Monitor`. In the
    ranked windows ``id`` is the key, ``score`` its total, ``time`` that of its newest row. With
    ``options={"ties": "arrival"}`` keys with equal totals and newest rows of equal times rank by
    which of these rows came last, and not by the larger key.

    >>> import numpy as np
    >>> from skyband import TopKTotals, TotalsMonitor, last
    >>> monitor = TotalsMonitor(TopKTotals(k=2, by="sum", window=last(count=4, slide=2)))
    >>> for ranked in monitor.push(np.array([7, 8, 7, 9]), np.array([3.0, 5.0, 4.0, 1.0])):
    ...     print(ranked)
    [0, 2) 1. 5 (id 8), 2. 3 (id 7)
    [0, 4) 1. 7 (id 7), 2. 5 (id 8)
    """

    family = "totals"
    query: TopKTotals  # type: ignore[assignment]
    _algorithm: PaneTotals

    def __init__(
        self,
        query: TopKTotals,
        algorithm: str = "auto",
        *,
        delay: Any = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(query, algorithm, delay=delay, options=options)  # type: ignore[arg-type]
        self._algorithm.directory = self._directory = Ids(
            timed=isinstance(query.window, TimeWindow)
        )

    def _check(self, query: Any) -> None:
        if not isinstance(query, TopKTotals):
            raise QueryError(
                f"query is {query!r}", "a TopKTotals query", "write TopKTotals(k=10, by='sum', ...)"
            )

    @classmethod
    def _query_of(cls, found: Mapping[str, Any]) -> TopKTotals:
        return TopKTotals(found["k"], found["by"], window_of(found), found["emit"])

    def _planned(self, algorithm: str, options: Mapping[str, Any] | None) -> Plan:
        name = PaneTotals.name
        if algorithm not in ("auto", name):
            raise QueryError(f"algorithm is {algorithm!r}", f"{name}, auto", "use 'auto'")
        return Plan(name, ("panes add up to windows: each row is added once, and taken once",))

    def _build(self) -> None:
        # totals change as rows come and go, so what changed is told from whole rankings
        self._algorithm = PaneTotals(replace(self._setting(), changes=False), self.query.by)
        self._pending = waiting = WaitingRows(self._panes, self.query.k, 0)
        waiting.ties = self._options.get("ties", TIES[0])
        if waiting.ties not in TIES:
            raise QueryError(f"ties is {waiting.ties!r}", "'key' or 'arrival'", "leave it out")
        self._changes = Changes() if self.query.emit == "changes" else None

    def push(  # type: ignore[override]
        self,
        keys: Any = None,
        values: Any = None,
        *,
        counts: Any = None,
        times: Any = None,
        watermark: Any = None,
    ) -> Ranked:
        """Take in a batch of rows and return the windows that it completes.

        ``keys`` are whole numbers; look other keys up by them. ``values`` may be left out if the
        query counts rows. With ``counts`` a row of a time window stands for so many rows of its
        key: its value is their sum, or their largest (least); 0 is for further parts of a sum that
        no float64 holds alone. The rest is as in :meth:`skyband.Monitor.push`.

        Raises :class:`DataError` before anything is taken in.
        """
        found = _keys(np.empty(0, np.int64) if keys is None else keys)
        if values is None:
            if len(found) and self.query.by != "count":
                raise DataError("keys without values", "a value per key", "push(keys, values)")
            values = np.zeros(len(found))
        column, _ = score_column(values, "values")
        if len(column) != len(found):
            raise DataError(
                f"{len(found)} keys for {len(column)} values", "equal lengths", "push equal lengths"
            )
        if counts is not None:
            counts = _counts(counts, len(found))
            if not isinstance(self.query.window, TimeWindow):
                raise DataError(
                    "counts for a count window", "rows that each hold a place", "leave counts out"
                )
            self._count()
        return super().push(values, ids=found, times=times, attributes=counts, watermark=watermark)

    def _count(self) -> None:
        """Let rows stand for several from now on; those that wait stand for themselves."""
        if not self._algorithm.attributes:
            self._pending.gather()
            self._pending.attributes = np.ones((len(self._pending), 1))
            self._algorithm.attributes = True  # type: ignore[misc]

    def _scores(self, scores: Any, attributes: Any) -> tuple[Floats, Floats, Bools | None]:
        column, null = score_column(np.empty(0) if scores is None else scores, "values")
        if not self._algorithm.attributes:
            return np.empty((len(column), 0)), column, null
        counts = np.ones(len(column)) if attributes is None else attributes
        return counts.reshape(-1, 1), column, null

    def _rows(
        self, score: Floats, id: Ints | None, time: Ints | None, matrix: Floats | None
    ) -> Rows:
        counts = () if matrix is None else (matrix[:, 0].astype(np.int64),)
        return Rows(score, id if id is not None else np.empty(0, np.int64), time, counts)

    def _ranked(self, target: Out, steps: Steps) -> Ranked:
        whole = super()._ranked(target, steps)
        if self._changes is None:
            return whole
        # a key stays the same while its newest row changes: changes are told by key
        place = target.rows.seq[: whole.rows] if whole.time is None else whole.time
        told = self._changes.of_windows(
            [0] * len(whole), whole.offsets, (whole.score, whole.id, place, whole.id)
        )
        score, key, at, _ = told.columns
        window = np.repeat(np.arange(len(whole)), np.diff(told.offsets))
        order = np.lexsort((~key, ~at, -score, window))
        return replace(
            whole,
            offsets=told.offsets,
            score=score[order],
            id=key[order],
            time=None if whole.time is None else at[order],
            ranks=told.ranks[order],
            previous_rank=told.previous[order],
        )

    def kept(self) -> Ints:
        """Arrival numbers of the newest rows of keys that may still be reported, ascending."""
        return self._algorithm.kept()

    def _own_arrays(self) -> dict[str, NDArray[Any]]:
        return {} if self._changes is None else self._changes.arrays()

    def _adopt(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        assert self._directory is not None
        self._algorithm.directory = self._directory
        self._algorithm.attributes = self._pending.attributes.shape[1] > 0  # type: ignore[misc]
        if self._changes is not None:
            self._changes.adopt(arrays)


def _keys(keys: Any) -> Ints:
    """Keys as int64."""
    if not hasattr(keys, "__len__"):
        raise DataError(f"keys are {keys!r}", "a column", "push one key per row")
    try:
        return id_column(keys, len(keys))
    except DataError as error:
        raise DataError(
            error.found.replace("ids", "keys"),
            "a whole number below 2**63 for each row",
            "number the keys, and look them up by their numbers",
        ) from None


def _counts(counts: Any, rows: int) -> Floats:
    """How many rows each row stands for, as float64 like all that waits."""
    found, null = score_column(counts, "counts")
    if len(found) != rows:
        raise DataError(
            f"{len(found)} counts for {rows} keys", "equal lengths", "push equal lengths"
        )
    sound = (found >= 0) & (found <= _MOST) & (found == np.floor(found))
    if null is not None or not sound.all():
        raise DataError(
            "counts that are no counts", "whole numbers from 0 to 2**53", "leave them out"
        )
    return found
