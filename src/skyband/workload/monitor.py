"""Many continuous top-k queries over the rows that are pushed: push(batch) -> ranked windows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from skyband.engine import snapshot as snapshots
from skyband.engine.columns import Dropped, id_column, moment, score_column, time_column
from skyband.engine.results import Ranked
from skyband.engine.snapshot import describe, query_of
from skyband.engine.waiting import Waiting
from skyband.engine.watermark import FOREVER, Watermark, delay_of
from skyband.errors import DataError, QueryError, SnapshotError
from skyband.order import Bools, Floats, Ints
from skyband.query import TopK
from skyband.windows import Panes, TimeWindow
from skyband.workload import chosen
from skyband.workload.independent import Independent
from skyband.workload.queries import Workload, check_alike, check_name, check_query
from skyband.workload.results import RankedByQuery, in_order
from skyband.workload.schedule import OPEN
from skyband.workload.sharing import Found, Sharing


class WorkloadMonitor:
    """Answers all queries of a workload over the rows that are pushed into it, as one.

    Parameters: the workload; the algorithm (``"auto"`` shares if there is anything to share); for
    time windows an optional ``delay``, as for :class:`skyband.Monitor`. Queries come and go with
    :meth:`add` and :meth:`remove` while it runs.

    >>> import numpy as np
    >>> from skyband import TopK, Workload, WorkloadMonitor, last
    >>> monitor = WorkloadMonitor(Workload({
    ...     "two of four": TopK(k=2, window=last(count=4, slide=2)),
    ...     "one of three": TopK(k=1, window=last(count=3)),
    ... }))
    >>> for name, ranked in monitor.push(np.array([3.0, 9.0, 4.0, 1.0])):
    ...     print(name, ranked)
    two of four [0, 2) 1. 9 (id 1), 2. 3 (id 0)
    one of three [0, 3) 1. 9 (id 1)
    two of four [0, 4) 1. 9 (id 1), 2. 4 (id 2)
    """

    def __init__(self, workload: Workload, algorithm: str = "auto", *, delay: Any = None) -> None:
        if not isinstance(workload, Workload):
            raise QueryError(
                f"workload is {workload!r}", "a Workload", "write Workload({'name': TopK(...)})"
            )
        if delay is not None and workload.counted:
            raise QueryError("delay with count windows", "time windows", "leave delay out")
        self._model = workload.model
        self._counted = workload.counted
        self.algorithm = chosen(algorithm, workload.queries.values())
        self._check_open(workload.queries.values())
        self._alone = "auto" if algorithm == "auto" else "mintopk"  # where nothing is shared
        self.names: list[str] = []
        self.queries: dict[str, TopK] = {}
        self.by: dict[str, str] = {}
        self.scores = workload.scores
        self.dropped = Dropped()
        self._numbers: dict[str, int] = {}
        self._since: dict[str, int | None] = {}
        window = self._model.window
        timed = isinstance(window, TimeWindow)
        self._clock = Watermark(delay_of(delay, window) if isinstance(window, TimeWindow) else None)
        self._pending = Waiting(Panes(1, 1), 1, len(self.scores) if timed else 0)
        self._free: list[int] = []  # numbers of queries that are gone
        self._arrived = 0
        self._fed = 0  # rows that were released to the engines
        self._closed = -FOREVER  # every window that ends here or before is answered
        self._with_ids: bool | None = None
        self._engines = {score: self._engine() for score in self.scores}
        for name, query in workload.queries.items():
            self._admit(name, query, workload.by[name], None)
        self._note_panes()

    def _engine(self) -> Sharing | Independent:
        changes = self._model.emit == "changes"
        if self.algorithm == "independent":
            return Independent(self._alone, self._counted, changes, self._timed)
        return Sharing(self.algorithm, self._counted, changes, self._timed)

    def _check_open(self, queries: Iterable[TopK]) -> None:
        """Refuse windows that are so many slides long that nobody could keep their books."""
        windows = sum(query.window.size // query.window.slide + 1 for query in queries)
        if self.algorithm != "independent" and windows > OPEN:
            raise QueryError(
                f"{windows:,} windows open at a time",
                f"{OPEN:,} at most for {self.algorithm}",
                "use larger slides, or algorithm='independent'",
            )

    def _note_panes(self) -> None:
        """Tell waiting rows the finest grid that holds all window bounds, and the largest k."""
        windows = [query.window for query in self.queries.values()]
        if not windows or self._counted:
            return
        first = getattr(windows[0], "offset", 0)
        lengths = [n for w in windows for n in (w.size, w.slide, getattr(w, "offset", 0) - first)]
        cell = math.gcd(*lengths)
        self._pending.panes = Panes(cell, cell, first)
        self._pending.k = max(query.k for query in self.queries.values())

    def _admit(self, name: str, query: TopK, by: str, complete_from: int | None) -> None:
        if self._free:
            number = self._free.pop()
            self.names[number] = name
        else:
            number = len(self.names)
            self.names.append(name)
        self._engines[by].add(number, query, complete_from)
        self._numbers[name] = number
        self._since[name] = complete_from
        self.queries[name], self.by[name] = query, by

    @property
    def _timed(self) -> bool:
        window = self._model.window
        return isinstance(window, TimeWindow) and window.unit == "us"

    @property
    def watermark(self) -> int | None:
        """Time before which no further row is expected (time windows), None before the first."""
        return self._clock.known

    @property
    def arrived(self) -> int:
        """Rows pushed so far."""
        return self._arrived

    def add(self, name: str, query: TopK, by: str | None = None) -> tuple[int, int] | None:
        """Add a query while the others go on; returns the bounds of its first window.

        Rows that no query needed are gone, so a query that comes late is answered from the first
        window on that lies wholly ahead; None says that this is the very first.
        """
        check_name(name)
        check_query(name, query)
        if name in self.queries:
            raise QueryError(f"there is a query {name!r}", "a name of its own", "remove it first")
        check_alike("of the workload", self._model, name, query)
        by = by or self.scores[0]
        if by not in self.scores:
            raise QueryError(f"query {name!r} ranks by {by!r}", f"one of {', '.join(self.scores)}")
        self._check_open([*self.queries.values(), query])
        place = self._arrived if self._counted else max(self._closed, self._pending.pruned)
        late = self._fed > 0 or self._pending.pruned > -FOREVER
        self._admit(name, query, by, place if late else None)
        self._note_panes()
        return self._engines[by].first_complete(self._numbers[name]) if late else None

    def remove(self, name: str) -> None:
        """Remove a query; the others are not touched."""
        if name not in self.queries:
            raise QueryError(
                f"there is no query {name!r}",
                f"one of {', '.join(list(self.queries)[:10])}" if self.queries else "none is left",
            )
        number = self._numbers.pop(name)
        self._engines[self.by[name]].remove(number)
        self._free.append(number)
        del self.queries[name], self.by[name], self._since[name]

    def push(
        self, scores: Any = None, *, ids: Any = None, times: Any = None, watermark: Any = None
    ) -> RankedByQuery:
        """Take in a batch of rows and return the windows that it completes, of all queries.

        ``scores`` is a column, or one column by the name of each score if there are several; then
        :attr:`dropped` counts a row once for each score that it lacks. The rest is as in
        :meth:`skyband.Monitor.push`.

        Raises :class:`DataError` before anything is taken in.
        """
        columns, nulls = self._columns(scores)
        rows = len(columns[0])
        if self._counted:
            if times is not None or watermark is not None:
                raise DataError(
                    "times or a watermark for count windows",
                    "scores only",
                    "use last(time=...) for time windows",
                )
            return self._push_counted(columns, nulls, ids, rows)
        if rows and times is None:
            raise DataError("no times", "a time per row", "push(scores, times=...)")
        window = self._model.window
        assert isinstance(window, TimeWindow)
        none = np.empty(0, np.int64)
        clock, missing = time_column(none if times is None else times, rows, window.unit)
        numbers = (
            np.arange(self._arrived, self._arrived + rows, dtype=np.int64)
            if ids is None
            else id_column(ids, rows)
        )
        until = None if watermark is None else moment(watermark, window.unit)
        if until is not None and self._clock.delay is not None:
            raise DataError(
                "a watermark for a monitor with a delay", "one of them", "leave watermark out"
            )
        self._arrived += rows
        self._wait(columns, nulls, numbers, clock, missing)
        return self._close(self._clock.move(until))

    def finish(self) -> RankedByQuery:
        """Let the watermark pass everything: answer the windows that are still open.

        Time windows only; a count window that is not complete is never answered.
        """
        return self._together([]) if self._counted else self._close(self._clock.move(FOREVER))

    def _columns(self, scores: Any) -> tuple[list[Floats], list[Bools | None]]:
        given = scores
        if not isinstance(scores, Mapping):
            if len(self.scores) > 1:
                raise DataError(
                    "one column of scores",
                    f"a column for each of {', '.join(self.scores)}",
                    "push({'name': column, ...})",
                )
            given = {self.scores[0]: np.empty(0) if scores is None else scores}
        missing = [name for name in self.scores if name not in given]
        if missing:
            raise DataError(
                f"no scores called {missing[0]!r}", f"a column for each of {', '.join(self.scores)}"
            )
        found = [score_column(given[name], name) for name in self.scores]
        rows = {len(column) for column, _ in found}
        if len(rows) > 1:
            raise DataError("score columns of different lengths", "equal lengths")
        return [column for column, _ in found], [null for _, null in found]

    def _count_unranked(self, column: Floats, null: Bools | None, among: Bools | None) -> None:
        """Count NULL and NaN scores, within ``among``."""
        if not len(column) or not np.isnan(column.max()):  # a maximum tells of any NaN
            return
        unranked = np.isnan(column)
        if among is not None:
            unranked &= among
        nulls = 0 if null is None else int(np.count_nonzero(null & unranked))
        self.dropped.null_score += nulls
        self.dropped.nan_score += int(np.count_nonzero(unranked)) - nulls

    def _push_counted(
        self, columns: list[Floats], nulls: list[Bools | None], ids: Any, rows: int
    ) -> RankedByQuery:
        given = None if ids is None else id_column(ids, rows)
        if rows and self._with_ids is not None and self._with_ids != (given is not None):
            raise DataError(
                "ids in some batches and not in others", "ids always or never", "push ids always"
            )
        if rows:
            self._with_ids = given is not None
        for column, null in zip(columns, nulls, strict=True):
            self._count_unranked(column, null, None)
        base, self._arrived = self._arrived, self._arrived + rows
        self._fed = self._closed = self._arrived
        found: list[Found] = []
        seq: Ints | None = None
        for column, engine in zip(columns, self._engines.values(), strict=True):
            if isinstance(engine, Independent) and not engine.numbered:
                found += engine.push_alone(column, given)
                continue
            if seq is None:
                seq = np.arange(base, self._arrived, dtype=np.int64)
            found += engine.push(column, seq, seq, seq if given is None else given, self._arrived)
        return self._together(found)

    def _wait(
        self,
        columns: list[Floats],
        nulls: list[Bools | None],
        ids: Ints,
        times: Ints,
        missing: Bools | None,
    ) -> None:
        """Let rows wait for the watermark; drop and count those that are late or without a time."""
        keep = np.ones(len(ids), dtype=np.bool_)
        if missing is not None:
            self.dropped.null_time += int(missing.sum())
            keep &= ~missing
        late = self._clock.late(times, keep)
        self.dropped.late += int(np.count_nonzero(late & keep))
        keep &= ~late
        for column, null in zip(columns, nulls, strict=True):
            self._count_unranked(column, null, keep)
        rows = np.flatnonzero(keep)
        matrix = np.stack([column[rows] for column in columns], axis=1)
        self._pending.add(columns[0][rows], ids[rows], times[rows], matrix)
        if len(columns) == 1 and self.queries:  # by several scores more than the best may matter
            self._pending.tidy()

    def _close(self, until: int) -> RankedByQuery:
        """Answer the windows that end at or before the watermark."""
        if until <= self._closed:
            return self._together([])
        _, ids, times, matrix = self._pending.release(until)
        base = self._fed
        self._fed += len(ids)
        self._closed = until
        seq = np.arange(base, self._fed, dtype=np.int64)
        found: list[Found] = []
        for at, engine in enumerate(self._engines.values()):
            column = np.ascontiguousarray(matrix[:, at]) if len(matrix) else np.empty(0)
            rows = np.flatnonzero(~np.isnan(column))
            found += engine.push(column[rows], seq[rows], times[rows], ids[rows], until)
        return self._together(found)

    def _together(self, found: list[Found]) -> RankedByQuery:
        names = tuple(self.names)
        return in_order(
            [RankedByQuery(names, query, ranked) for query, ranked in found],
            names,
            self._nothing(),
        )

    def _nothing(self) -> Ranked:
        none = np.empty(0, np.int64)
        changes = none if self._model.emit == "changes" else None
        return Ranked(
            none,
            none,
            np.zeros(1, np.int64),
            np.empty(0),
            none,
            None if self._counted else none,
            changes,
            changes,
            self._timed,
        )

    def kept(self) -> dict[str, Ints]:
        """Sequence numbers of the rows that may still win, for each score."""
        return {score: engine.kept() for score, engine in self._engines.items()}

    def state_bytes(self) -> int:
        """Bytes of memory that the states of the engines, and waiting rows, occupy."""
        waiting = len(self._pending) * 8 * (3 + len(self.scores))
        return waiting + sum(engine.state_bytes() for engine in self._engines.values())

    def snapshot(self) -> bytes:
        """The whole state as bytes; :meth:`restore` goes on from them bit for bit."""
        self._pending.gather()
        pending = self._pending
        arrays: dict[str, Any] = {
            "pending.score": pending.score,
            "pending.id": pending.id,
            "pending.time": pending.time,
            "pending.attributes": pending.attributes,
        }
        headers = []
        for at, engine in enumerate(self._engines.values()):
            header, own = engine.snapshot()
            headers.append(header)
            arrays |= {f"engine.{at}.{name}": array for name, array in own.items()}
        return snapshots.dump(
            {
                "family": "workload",
                "algorithm": self.algorithm,
                "alone": self._alone,
                "names": self.names,
                "scores": list(self.scores),
                "queries": [
                    [self._numbers[name], name, self.by[name], self._since[name], describe(query)]
                    for name, query in self.queries.items()
                ],
                "model": describe(self._model),
                "engines": headers,
                "delay": self._clock.delay,
                "watermark": self._clock.at,
                "newest": self._clock.newest,
                "arrived": self._arrived,
                "fed": self._fed,
                "closed": self._closed,
                "with_ids": self._with_ids,
                "free": self._free,
                "pruned": self._pending.pruned,
                "worth_pruning": self._pending.worth_pruning,
                "dropped": dataclasses.asdict(self.dropped),
            },
            arrays,
        )

    @classmethod
    def restore(cls, data: bytes) -> WorkloadMonitor:
        """A monitor that goes on where :meth:`snapshot` was taken."""
        header, arrays = snapshots.load(data)
        if header.get("family") != "workload":
            raise SnapshotError(
                f"a snapshot of family {header.get('family')!r}",
                "'workload'",
                "restore it elsewhere",
            )
        monitor = cls.__new__(cls)
        monitor._restore(header, arrays)
        return monitor

    def _restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        self._model = query_of(header["model"])
        self._counted = not isinstance(self._model.window, TimeWindow)
        self.algorithm, self._alone = header["algorithm"], header["alone"]
        self.scores = tuple(header["scores"])
        self.dropped = Dropped(**header["dropped"])
        self._clock = Watermark(header["delay"])
        self._clock.at, self._clock.newest = header["watermark"], header["newest"]
        self._arrived, self._fed = header["arrived"], header["fed"]
        self._closed, self._with_ids = header["closed"], header["with_ids"]
        pending = Waiting(Panes(1, 1), 1, 0)
        pending.score, pending.id = arrays["pending.score"], arrays["pending.id"]
        pending.time = arrays["pending.time"]
        pending.attributes = arrays["pending.attributes"]
        pending.pruned, pending.worth_pruning = header["pruned"], header["worth_pruning"]
        pending.adopt()
        self._pending = pending
        self._free = list(header["free"])
        self.names = list(header["names"])
        self._numbers, self._since, self.queries, self.by = {}, {}, {}, {}
        self._engines = {score: self._engine() for score in self.scores}
        for number, name, by, since, found in header["queries"]:
            query = query_of(found)
            self._engines[by].add(number, query, since)
            self._numbers[name], self._since[name] = number, since
            self.queries[name], self.by[name] = query, by
        self._note_panes()
        for at, (engine, own) in enumerate(
            zip(self._engines.values(), header["engines"], strict=True)
        ):
            prefix = f"engine.{at}."
            engine.restore(
                own,
                {name[len(prefix) :]: v for name, v in arrays.items() if name.startswith(prefix)},
            )
