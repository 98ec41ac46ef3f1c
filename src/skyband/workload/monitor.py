"""Many continuous top-k queries over the rows that are pushed: push(batch) -> ranked windows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.engine.columns import Dropped, id_column, score_column
from skyband.engine.inlet import Inlet
from skyband.engine.results import Ranked
from skyband.engine.rows import Rows
from skyband.engine.snapshot import Saved, describe, dump, join, load, part
from skyband.engine.updates import Updates
from skyband.errors import DataError, QueryError, SnapshotError
from skyband.order import Bools, Floats, Ints
from skyband.query import TopK
from skyband.topk.monitor import FAMILY
from skyband.windows import FOREVER, AllTimeWindow, CountWindow, Panes, TimeWindow
from skyband.workload import chosen
from skyband.workload.independent import Independent
from skyband.workload.queries import Workload, check_alike, check_name, check_query
from skyband.workload.results import RankedByQuery, in_order
from skyband.workload.schedule import OPEN
from skyband.workload.sharing import QueryWindows, Sharing


class WorkloadMonitor:
    """Answers all queries of a workload over the rows that are pushed into it, as one.

    Parameters: the workload; the algorithm (``"auto"`` shares if there is anything to share); for
    time windows an optional ``delay``, as for :class:`skyband.Monitor`. Queries come and go with
    :meth:`add` and :meth:`remove` while it runs. ``complete_from`` names places before which no
    window of a query may start, for queries that wait until their windows are full.

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

    def __init__(
        self,
        workload: Workload,
        algorithm: str = "auto",
        *,
        delay: Any = None,
        complete_from: Mapping[str, int] | None = None,
    ) -> None:
        if not isinstance(workload, Workload):
            raise QueryError(
                f"workload is {workload!r}", "a Workload", "write Workload({'name': TopK(...)})"
            )
        if delay is not None and workload.counted:
            raise QueryError("delay with count windows", "time windows", "leave delay out")
        self.algorithm = chosen(algorithm, workload.queries.values())
        self._alone = "auto" if algorithm == "auto" else "mintopk"  # where nothing is shared
        self._set_up(workload.model, workload.scores, delay)
        self._check_open(workload.queries.values())
        for name, query in workload.queries.items():
            self._admit(name, query, workload.by[name], (complete_from or {}).get(name))
        self._note_panes()

    def _set_up(self, model: TopK, scores: tuple[str, ...], delay: Any) -> None:
        """Begin without queries; ``model`` is what all queries have in common."""
        self._model = model
        self._counted = not isinstance(model.window, TimeWindow)
        self.scores = scores
        self.names: list[str] = []
        self.queries: dict[str, TopK] = {}
        self.by: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._since: dict[str, int | None] = {}
        self._inlet = Inlet(model.window, delay, None)
        self._free: list[int] = []  # numbers of queries that are gone
        self._fed = 0  # rows that were released to the engines
        self._closed = -FOREVER  # every window that ends here or before is answered
        self._with_ids: bool | None = None
        self._engines = {score: self._engine() for score in scores}
        self._updates = Updates() if model.emit == "updates" else None

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
        """Tell waiting rows the finest grid that holds all window bounds, and the largest k.

        By several scores more rows than the best by one of them may matter, and so they may where
        the newest of equal scores do not rank first.
        """
        windows = [query.window for query in self.queries.values()]
        orders = {(query.ties, query.rank_by) for query in self.queries.values()}
        usual = orders == {("newest", "row_number")}
        if not usual or self._counted or len(self.scores) > 1:
            self._inlet.prune_to(self._inlet.waiting.panes, None)
            return
        first = windows[0].end_offset
        lengths = [n for w in windows for n in (w.size, w.slide, w.end_offset - first)]
        cell = math.gcd(*lengths)
        k = max(query.k for query in self.queries.values())
        self._inlet.prune_to(Panes(cell, cell, first), k)

    def _admit(self, name: str, query: TopK, by: str, complete_from: int | None) -> None:
        if complete_from is not None and isinstance(query.window, AllTimeWindow):
            raise QueryError(
                f"query {name!r} over {query.window} comes after rows that are gone",
                "windows that begin after those rows",
                "begin a monitor with it, or write window=cumulative('1 day', every='1 minute')",
            )
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
        return self._inlet.watermark.known

    @property
    def dropped(self) -> Dropped:
        """Rows that were not ranked, by reason."""
        return self._inlet.dropped

    @property
    def arrived(self) -> int:
        """Rows pushed so far."""
        return self._inlet.arrived

    def add(self, name: str, query: TopK, by: str | None = None) -> tuple[int, int] | None:
        """Add a query while the others go on; returns the bounds of its first window.

        Rows that no query needed are gone, so a query that comes late is answered from the first
        window on that lies wholly ahead of the rows that were answered, or of which only the best
        were kept while they wait; None says that this is the very first.
        """
        check_name(name)
        check_query(name, query)
        if name in self.queries:
            raise QueryError(f"there is a query {name!r}", "a name of its own", "remove it first")
        check_alike("of the workload", self._model, name, query)
        by = by or self.scores[0]
        if by not in self.scores:
            raise QueryError(f"query {name!r} ranks by {by!r}", f"one of {', '.join(self.scores)}")
        chosen(self.algorithm, [query])
        self._check_open([*self.queries.values(), query])
        pruned = self._inlet.waiting.pruned
        place = self.arrived if self._counted else max(self._closed, pruned)
        late = self._fed > 0 or pruned > -FOREVER
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
        if self._updates is not None:
            self._updates.forget(number)
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
        rows, nulls = self._rows(scores)
        if ids is not None:
            rows = rows._replace(id=id_column(ids, rows.size))
        inlet = self._inlet
        if self._counted:
            inlet.check_counted(times, watermark)
            return self._with_updates(self._push_counted(rows, nulls))
        rows, missing, until = inlet.placed(rows, times, watermark)
        inlet.take(rows, nulls, missing)
        if self._updates is not None:
            self._updates.newest = max(self._updates.newest, inlet.waiting.newest)
        return self._with_updates(self._close(inlet.watermark.move(until)))

    def finish(self) -> RankedByQuery:
        """Let the watermark pass everything: answer the windows that are still open.

        Time windows only; a count window that is not complete is never answered.
        """
        if self._counted:
            return self._with_updates(self._together([]))
        return self._with_updates(self._close(self._inlet.watermark.move(FOREVER)))

    def _rows(self, scores: Any) -> tuple[Rows, tuple[Bools | None, ...]]:
        """Rows with a column per score if there are several, and which scores are NULL."""
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
        pairs = [score_column(given[name], name) for name in self.scores]
        columns = tuple(column for column, _ in pairs)
        if len({len(column) for column in columns}) > 1:
            raise DataError("score columns of different lengths", "equal lengths")
        rows = Rows(columns[0], columns=columns if len(columns) > 1 else ())
        return rows, tuple(null for _, null in pairs)

    def _columns(self, rows: Rows) -> tuple[Floats, ...]:
        """A column per score."""
        return rows.columns if len(self.scores) > 1 else (rows.score,)

    def _push_counted(self, rows: Rows, nulls: tuple[Bools | None, ...]) -> RankedByQuery:
        inlet, with_ids = self._inlet, rows.id is not None
        if rows.size and self._with_ids is not None and self._with_ids != with_ids:
            raise DataError(
                "ids in some batches and not in others", "ids always or never", "push ids always"
            )
        if rows.size:
            self._with_ids = with_ids
        columns = self._columns(rows)
        for column, null in zip(columns, nulls, strict=True):
            inlet.count_unranked(column, null)
        base, inlet.arrived = inlet.arrived, inlet.arrived + rows.size
        self._fed = self._closed = inlet.arrived
        answered: list[QueryWindows] = []
        seq: Ints | None = None
        for column, engine in zip(columns, self._engines.values(), strict=True):
            if isinstance(engine, Independent) and not engine.numbered:
                answered += engine.push_alone(column, rows.id)
                continue
            if seq is None:
                seq = np.arange(base, inlet.arrived, dtype=np.int64)
            ids = seq if rows.id is None else rows.id
            answered += engine.push(column, seq, seq, ids, inlet.arrived)
        return self._together(answered)

    def _close(self, until: int) -> RankedByQuery:
        """Answer the windows that end at or before the watermark."""
        waiting = self._inlet.waiting
        if until <= self._closed:
            waiting.settle()
            return self._together([])
        rows = waiting.release(until) or self._no_rows()
        waiting.settle()
        assert rows.id is not None
        assert rows.time is not None
        base, self._fed = self._fed, self._fed + rows.size
        self._closed = until
        seq = np.arange(base, self._fed, dtype=np.int64)
        answered: list[QueryWindows] = []
        for column, engine in zip(self._columns(rows), self._engines.values(), strict=True):
            part = slice(None) if len(self.scores) == 1 else np.flatnonzero(column == column)
            answered += engine.push(column[part], seq[part], rows.time[part], rows.id[part], until)
        return self._together(answered)

    def _with_updates(self, final: RankedByQuery) -> RankedByQuery:
        """Windows that are final, and the rankings so far of those that are open, if asked for."""
        updates = self._updates
        if updates is None:
            return final
        so_far = self._so_far(updates.newest)
        so_far = so_far.only(updates.changed(so_far.ranked, so_far.query))
        return RankedByQuery(
            final.names,
            np.concatenate([final.query, so_far.query]),
            updates.joined(final.ranked, so_far.ranked),
        )

    def _so_far(self, newest: int) -> RankedByQuery:
        """The rankings so far of the open windows, as far as their queries ask for them."""
        waiting = self._inlet.waiting.fork()
        rows = (None if self._counted else waiting.release(FOREVER)) or self._no_rows()
        assert rows.id is not None
        assert rows.time is not None
        seq = np.arange(self._fed, self._fed + rows.size, dtype=np.int64)
        answered: list[QueryWindows] = []
        for column, engine in zip(self._columns(rows), self._engines.values(), strict=True):
            part = np.flatnonzero(column == column)
            placed = (column[part], seq[part], rows.time[part], rows.id[part])
            answered += engine.run_ahead(*placed, newest)
        so_far = self._together(answered)
        ends = np.full(len(self.names), FOREVER)  # of current windows, where only they are reported
        for name, query in self.queries.items():
            number = self._numbers[name]
            if query.open_windows != "current":
                continue
            ends[number] = self._current_end(query, newest)
            if isinstance(query.window, AllTimeWindow):  # it ends with the last row of its score
                own = so_far.ranked.window_end[so_far.query == number]
                ends[number] = own.max(initial=-FOREVER)
        current = ends[so_far.query]
        return so_far.only((current == FOREVER) | (so_far.ranked.window_end == current))

    def _current_end(self, query: TopK, newest: int) -> int:
        """Where the window ends that ends first after the newest row."""
        window, panes = query.window, query.window.panes
        if not isinstance(window, CountWindow):
            return panes.end(panes.first_window(newest))
        end = panes.end(panes.first_window(self.arrived))
        return max(end, -(-window.size // window.slide) * window.slide) if window.full else end

    def _no_rows(self) -> Rows:
        none = np.empty(0, np.int64)
        columns = tuple(np.empty(0) for _ in self.scores) if len(self.scores) > 1 else ()
        return Rows(np.empty(0), none, none, columns)

    def _together(self, answered: list[QueryWindows]) -> RankedByQuery:
        names = tuple(self.names)
        nothing = Ranked.empty(self._model.window, self._model.emit == "changes")
        if any(query.shares_ranks for query in self.queries.values()):
            nothing = replace(nothing, ranks=nothing.id)
        parts = [RankedByQuery(names, query, ranked) for query, ranked in answered]
        return in_order(parts, names, nothing)

    def kept(self) -> dict[str, Ints]:
        """Sequence numbers of the rows that may still win, for each score."""
        return {score: engine.kept() for score, engine in self._engines.items()}

    def state_bytes(self) -> int:
        """Bytes of memory that the states of the engines, and waiting rows, occupy."""
        waiting = len(self._inlet.waiting) * 8 * (3 + len(self.scores))
        return waiting + sum(engine.state_bytes() for engine in self._engines.values())

    def snapshot(self) -> bytes:
        """The whole state as bytes; :meth:`restore` goes on from them bit for bit."""
        header = {
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
            "fed": self._fed,
            "closed": self._closed,
            "with_ids": self._with_ids,
            "free": self._free,
        }
        engines = self._engines.values()
        parts: dict[str, Saved] = {f"engine{at}": e.saved() for at, e in enumerate(engines)}
        if self._updates is not None:
            parts["updates"] = self._updates.saved()
        return dump(*join(header, {"inlet": self._inlet.saved(), **parts}))

    @classmethod
    def restore(cls, data: bytes) -> WorkloadMonitor:
        """A monitor that goes on where :meth:`snapshot` was taken."""
        header, arrays = load(data)
        if header.get("family") != "workload":
            raise SnapshotError(
                f"a snapshot of family {header.get('family')!r}",
                "'workload'",
                "restore it elsewhere",
            )
        monitor = cls.__new__(cls)
        monitor._restored(header, arrays)
        return monitor

    def _restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self.algorithm, self._alone = header["algorithm"], header["alone"]
        self._set_up(FAMILY.described(header["model"]), tuple(header["scores"]), None)
        self._fed, self._closed = header["fed"], header["closed"]
        self._with_ids = header["with_ids"]
        self._free, self.names = list(header["free"]), list(header["names"])
        for number, name, by, since, described in header["queries"]:
            query = FAMILY.described(described)
            self._engines[by].add(number, query, since)
            self._numbers[name], self._since[name] = number, since
            self.queries[name], self.by[name] = query, by
        self._note_panes()
        self._inlet.restored(*part("inlet", header, arrays))
        for at, engine in enumerate(self._engines.values()):
            engine.restored(*part(f"engine{at}", header, arrays))
        if self._updates is not None:
            self._updates.restored(*part("updates", header, arrays))
