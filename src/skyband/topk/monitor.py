"""The local main path: push(batch) -> ranked windows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skyband.engine import snapshot as snapshots
from skyband.engine.algorithm import Algorithm, Setting
from skyband.engine.changes import Changes
from skyband.engine.columns import Dropped, id_column, moment, score_column, time_column, weighted
from skyband.engine.ids import Ids
from skyband.engine.plan import Plan
from skyband.engine.results import Ranked
from skyband.engine.rows import Rows
from skyband.engine.snapshot import describe, query_of, require_same
from skyband.engine.steps import Steps, TimeSteps, count_steps
from skyband.engine.waiting import Waiting
from skyband.engine.watermark import FOREVER, Watermark, delay_of
from skyband.errors import DataError, QueryError, SnapshotError
from skyband.kernels.emission import Out
from skyband.kernels.work import UNRANKED
from skyband.order import Floats, Ints
from skyband.query import TopK
from skyband.topk import build
from skyband.topk.planner import SAMPLE, plan, trend
from skyband.windows import CountWindow, Panes, TimeWindow


class Monitor:
    """Answers one continuous top-k query over the rows that are pushed into it.

    Parameters: the query; the algorithm (``"auto"`` lets the planner choose); for time windows an
    optional ``delay``: with it the watermark follows the newest time at that distance, without it
    the caller passes ``watermark=`` to :meth:`push`. ``options`` are the algorithm's own.

    >>> import numpy as np
    >>> from skyband import Monitor, TopK, last
    >>> monitor = Monitor(TopK(k=2, window=last(count=4, slide=2)))
    >>> for ranked in monitor.push(np.array([3.0, 9.0, 4.0, 1.0])):
    ...     print(ranked)
    [0, 2) 1. 9 (id 1), 2. 3 (id 0)
    [0, 4) 1. 9 (id 1), 2. 4 (id 2)
    """

    family: ClassVar[str] = "topk"
    _changes: Changes | None = None  # of families that tell them from whole rankings

    def __init__(
        self,
        query: TopK,
        algorithm: str = "auto",
        *,
        delay: Any = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._check(query)
        if options is not None and not isinstance(options, Mapping):
            raise QueryError(
                f"options are {options!r}", "options by name", "write options={'name': value}"
            )
        window = query.window
        timed = isinstance(window, TimeWindow)
        if delay is not None and not timed:
            raise QueryError("delay with a count window", "a time window", "leave delay out")
        self.query = query
        self.dropped = Dropped()
        self._undecided = False
        self.plan = self._planned(algorithm, options)
        self._first: list[tuple[Floats, Floats]] = []
        self._clock = Watermark(delay_of(delay, window) if isinstance(window, TimeWindow) else None)
        self._options = dict(options or {})
        self._panes = Panes(window.size, window.slide, getattr(window, "offset", 0))
        self._build()
        self._arrived = 0  # rows pushed so far
        self._steps = TimeSteps(self._panes, farewell=query.emit == "changes")
        self._directory: Ids | None = Ids(timed=True) if timed else None

    def _check(self, query: Any) -> None:
        """Refuse what is no query of this family."""
        if not isinstance(query, TopK):
            raise QueryError(
                f"query is {query!r}", "a TopK query", "write Monitor(TopK(k=10, ...))"
            )

    @classmethod
    def _query_of(cls, found: Mapping[str, Any]) -> Any:
        """The query of a snapshot."""
        return query_of(found)

    def _planned(self, algorithm: str, options: Mapping[str, Any] | None) -> Plan:
        """The algorithm that was asked for, or one that suits the query."""
        if algorithm != "auto":
            return Plan(algorithm, ("asked for by name",))
        if options:
            return Plan("sap", ("options were given, and they are SAP's",))
        # the first scores are kept until they tell whether they follow a trend
        self._undecided = isinstance(self.query.window, CountWindow)
        return plan(self.query)

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm at work."""
        return self._algorithm

    @property
    def watermark(self) -> int | None:
        """Time before which no further row is expected (time windows), None before the first."""
        return self._clock.known

    @property
    def delay(self) -> int | None:
        """How far the watermark stays behind the newest time, None if the caller moves it."""
        return self._clock.delay

    @property
    def arrived(self) -> int:
        """Rows pushed so far."""
        return self._arrived

    def _build(self) -> None:
        """Set up the planned algorithm; it has seen nothing yet."""
        self._algorithm = build(self.plan.algorithm, self._setting())
        width = len(self.query.weights or (1.0,)) if self._algorithm.attributes else 0
        self._pending = Waiting(self._panes, self.query.k, width)

    def _decide(self, scores: Floats, matrix: Floats) -> None:
        """Plan again once there are scores enough; replay what came before if that changes it."""
        window = self.query.window
        assert isinstance(window, CountWindow)
        self._first.append((scores[:SAMPLE].copy(), matrix[:SAMPLE].copy()))
        seen = np.concatenate([column for column, _ in self._first])
        found = plan(self.query, seen)
        if trend(seen) is None and len(seen) < SAMPLE:
            return
        self._undecided = False
        changed = found.algorithm != self.plan.algorithm
        self.plan = found
        earlier, self._first = self._first[:-1], []
        if changed:
            self._build()
            arrived = 0
            for column, attributes in earlier:  # their answers have been given
                steps = count_steps(self._panes, arrived, len(column), window.full)
                wants = self._algorithm.attributes
                self._algorithm.push(
                    self._rows(column, None, None, attributes if wants else None), steps
                )
                arrived += len(column)

    def _setting(self) -> Setting:
        query, window = self.query, self.query.window
        counted = isinstance(window, CountWindow)
        return Setting(
            k=min(query.k, window.size) if counted else query.k,
            size=window.size,
            slide=window.slide,
            counted=counted,
            changes=query.emit == "changes",
            weights=getattr(query, "weights", None),
            options=self._options,
        )

    def push(
        self,
        scores: Any = None,
        *,
        ids: Any = None,
        times: Any = None,
        attributes: Any = None,
        watermark: Any = None,
    ) -> Ranked:
        """Take in a batch of rows and return the windows that it completes.

        ``scores``, or ``attributes`` (one column per weight) if the query has weights; ``ids``
        default to the arrival number; ``times`` and ``watermark`` belong to time windows. Arrays
        are NumPy or Arrow. Rows older than the watermark before this push are dropped and counted
        in :attr:`dropped`, as are NULL and NaN scores and NULL times; a count window lets unranked
        rows hold their place.

        Raises :class:`DataError` before anything is taken in.
        """
        matrix, column, null = self._scores(scores, attributes)
        rows = len(column)
        window = self.query.window
        if isinstance(window, CountWindow):
            if times is not None or watermark is not None:
                raise DataError(
                    "times or a watermark for a count window",
                    "scores only",
                    "use last(time=...) for time windows",
                )
            numbers = None if ids is None else id_column(ids, rows)
            return self._push_counted(column, matrix, null, numbers)
        if rows and times is None:
            raise DataError("no times", "a time per row", "push(scores, times=...)")
        none = np.empty(0, np.int64)
        clock, missing = time_column(none if times is None else times, rows, window.unit)
        numbers = (
            np.arange(self._arrived, self._arrived + rows, dtype=np.int64)
            if ids is None
            else id_column(ids, rows)
        )
        until = None if watermark is None else moment(watermark, window.unit)
        if until is not None and self.delay is not None:
            raise DataError(
                "a watermark for a monitor with a delay", "one of them", "leave watermark out"
            )
        self._arrived += rows
        return self._push_timed(column, matrix, null, numbers, clock, missing, until)

    def finish(self) -> Ranked:
        """Let the watermark pass everything: answer the windows that are still open.

        Time windows only; a count window that is not complete is never answered.
        """
        if isinstance(self.query.window, CountWindow):
            matrix, column, _ = self._scores(None, None)
            return self._push_counted(column, matrix, None, None)
        return self._close(FOREVER)

    def _scores(
        self, scores: Any, attributes: Any
    ) -> tuple[Floats, Floats, NDArray[np.bool_] | None]:
        """Attribute matrix, scores, and where they are NULL."""
        weights = self.query.weights
        if weights is None:
            if attributes is not None:
                raise DataError(
                    "attributes for a query without weights",
                    "scores",
                    "give the query weights=(...)",
                )
            column, null = score_column(np.empty(0) if scores is None else scores)
            matrix: Floats = column.reshape(-1, 1)
        else:
            if scores is not None:
                raise DataError(
                    "scores for a query with weights", "attributes", "push(attributes=...)"
                )
            nothing = np.empty((0, len(weights)))
            matrix, column, null = weighted(nothing if attributes is None else attributes, weights)
        return matrix, column, null

    def _count_unranked(
        self, column: Floats, null: NDArray[np.bool_] | None, among: NDArray[np.bool_] | None = None
    ) -> NDArray[np.bool_] | None:
        """Where scores are NULL or NaN (None: nowhere), counted by reason within ``among``."""
        if not len(column) or not np.isnan(column.max()):  # a maximum tells of any NaN
            return None
        unranked = np.isnan(column)
        counted = unranked if among is None else unranked & among
        bad = int(np.count_nonzero(counted))
        nulls = 0 if null is None else int(np.count_nonzero(null & counted))
        self.dropped.null_score += nulls
        self.dropped.nan_score += bad - nulls
        return unranked

    def _push_counted(
        self,
        column: Floats,
        matrix: Floats | None,
        null: NDArray[np.bool_] | None,
        ids: Ints | None,
    ) -> Ranked:
        window = self.query.window
        assert isinstance(window, CountWindow)
        base = self._arrived
        if ids is not None and self._directory is None:
            if base:
                raise DataError(
                    "ids after a batch without ids",
                    "ids always or never",
                    "push ids from the start",
                )
            self._directory = Ids(timed=False)
        elif ids is None and self._directory is not None and len(column):
            raise DataError("no ids after a batch with ids", "ids always or never", "push ids")
        if self._undecided and matrix is not None and len(column):
            self._decide(column, matrix)
        in_passing = self._algorithm.counts_unranked
        if not in_passing:
            self._count_unranked(column, null)
        met = int(self._algorithm.work[UNRANKED])
        steps = count_steps(self._panes, base, len(column), window.full)
        self._arrived += len(column)
        if self._directory is not None and ids is not None:
            self._directory.admit(base, ids, None)
        wants = self._algorithm.attributes
        target = self._algorithm.push(
            self._rows(column, ids, None, matrix if wants else None), steps
        )
        if in_passing:
            nulls = 0 if null is None else int(np.count_nonzero(null))
            self.dropped.null_score += nulls
            self.dropped.nan_score += int(self._algorithm.work[UNRANKED]) - met - nulls
        ranked = self._ranked(target, steps)
        self._tidy()
        return ranked

    def _push_timed(
        self,
        column: Floats,
        matrix: Floats | None,
        null: NDArray[np.bool_] | None,
        ids: Ints,
        times: Ints,
        missing: NDArray[np.bool_] | None,
        until: int | None,
    ) -> Ranked:
        if not self._algorithm.attributes:
            matrix = None
        keep = np.ones(len(column), dtype=np.bool_)
        if missing is not None:
            self.dropped.null_time += int(missing.sum())
            keep &= ~missing
        late = self._clock.late(times, keep)
        self.dropped.late += int(np.count_nonzero(late & keep))
        keep &= ~late
        unranked = self._count_unranked(column, null, keep)
        if unranked is not None:
            keep &= ~unranked
        if keep.all():
            self._pending.add(column, ids, times, matrix)
        else:
            rows = np.flatnonzero(keep)
            self._pending.add(
                column[rows], ids[rows], times[rows], None if matrix is None else matrix[rows]
            )
        return self._close(until)

    def _close(self, until: int | None) -> Ranked:
        """Advance the watermark and answer the windows that end at or before it."""
        panes = self._panes
        closed = panes.first_window(self._clock.move(until)) - 1
        if self._steps.done is not None and closed <= self._steps.done:
            self._pending.tidy()
            return self._nothing()
        score, ids, times, matrix = self._pending.release(panes.end(closed))
        self._pending.tidy()
        assert self._directory is not None
        base = self._steps.fed
        steps = self._steps.cut(times, closed)
        self._directory.admit(base, ids, times)
        target = self._algorithm.push(
            self._rows(score, ids, times, matrix if self._algorithm.attributes else None), steps
        )
        ranked = self._ranked(target, steps)
        self._tidy()
        return ranked

    def _rows(
        self, score: Floats, id: Ints | None, time: Ints | None, matrix: Floats | None
    ) -> Rows:
        """Rows as the algorithm takes them."""
        return Rows(score, id, time, () if matrix is None else (matrix,))

    def _nothing(self) -> Ranked:
        """No window at all."""
        none = np.empty(0, np.int64)
        changes = none if self.query.emit == "changes" else None
        return Ranked(
            none,
            none,
            np.zeros(1, np.int64),
            np.empty(0),
            none,
            none,
            changes,
            changes,
            self._timed,
        )

    @property
    def _timed(self) -> bool:
        window = self.query.window
        return isinstance(window, TimeWindow) and window.unit == "us"

    def _ranked(self, target: Out, steps: Steps) -> Ranked:
        panes, window = self._panes, self.query.window
        emit = steps.emit
        size = int(target.rows.size[0])
        seq, score = target.rows.seq[:size], target.rows.score[:size]
        score += 0.0  # -0.0 becomes 0.0
        end = panes.offset + steps.window[emit] * panes.slide
        start = end - panes.size
        if isinstance(window, CountWindow):
            start = np.maximum(start, 0)
        directory = self._directory
        places = None if directory is None else directory.places(seq)
        changes = self._algorithm.setting.changes
        return Ranked(
            window_start=start,
            window_end=end,
            offsets=np.concatenate([[0], target.upto[emit]]),
            score=score,
            id=seq if directory is None or places is None else directory.id[places],
            time=directory.time[places] if directory is not None and directory.timed else None,
            ranks=target.rank[:size] if changes else None,
            previous_rank=target.previous[:size] if changes else None,
            timed=self._timed,
        )

    def _tidy(self) -> None:
        if self._directory is not None and self._directory.crowded:
            self._directory.prune(self.kept())

    def kept(self) -> Ints:
        """Arrival numbers of the rows that may still be reported, ascending."""
        kept = self._algorithm.kept()
        if self.query.emit == "changes":
            reported = self._algorithm.state.memory.reported
            kept = np.union1d(kept, reported.seq[: reported.size[0]])
        return np.unique(kept)

    def forget(self) -> None:
        """Let go at once of what can no longer be reported, for a smaller snapshot."""
        if self._directory is not None:
            self._directory.prune(self.kept())

    def reportable(self) -> tuple[Ints, Ints]:
        """Ids and times of the rows by which objects may still be reported (time windows)."""
        directory = self._directory
        assert directory is not None, "rows of time windows have ids and times"
        places = directory.places(self.kept())
        self._pending.gather()  # what waits for the watermark will be there, too
        ids = [directory.id[places], self._pending.id]
        times = [directory.time[places], self._pending.time]
        if self._changes is not None:
            for _, _, at, was in self._changes.reported.values():
                ids.append(was)
                times.append(at)
        return np.concatenate(ids), np.concatenate(times)

    def counters(self) -> dict[str, float]:
        """Work counters of the algorithm, see :mod:`skyband.kernels.work`."""
        return self._algorithm.counters()

    def state_bytes(self) -> int:
        """Bytes of memory that the algorithm's state occupies."""
        return self._algorithm.state_bytes()

    def explain(self) -> str:
        """The query, the algorithm and the reasons for it, in words."""
        return f"{self.query}\n{self.plan}"

    def _own_arrays(self) -> dict[str, NDArray[Any]]:
        """What a family keeps besides the algorithm's state."""
        return {}

    def _adopt(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what :meth:`_own_arrays` gave."""

    def snapshot(self) -> bytes:
        """The whole state as bytes; :meth:`restore` goes on from them bit for bit."""
        arrays = {f"algorithm.{name}": v for name, v in self._algorithm.snapshot().items()}
        pending, steps, directory = self._pending, self._steps, self._directory
        pending.gather()
        for at, (column, matrix) in enumerate(self._first):
            arrays |= {f"first.{at}.scores": column, f"first.{at}.attributes": matrix}
        arrays |= {
            "pending.score": pending.score,
            "pending.id": pending.id,
            "pending.time": pending.time,
            "pending.attributes": pending.attributes,
            "steps.life": steps.life,
            "steps.life_from": steps.life_from,
        }
        if directory is not None:
            arrays["directory"] = directory.columns
        arrays |= self._own_arrays()
        header = {
            "family": self.family,
            "algorithm": self.plan.algorithm,
            "undecided": self._undecided,
            "reasons": list(self.plan.reasons),
            "query": describe(self.query),
            "delay": self.delay,
            "options": self._options,
            "dropped": dataclasses.asdict(self.dropped),
            "arrived": self._arrived,
            "watermark": self._clock.at,
            "newest": self._clock.newest,
            "fed": steps.fed,
            "done": steps.done,
            "alive_until": steps.alive_until,
            "directory": None if directory is None else directory.timed,
            "worth_pruning": [
                pending.worth_pruning,
                0 if directory is None else directory.worth_pruning,
            ],
        }
        return snapshots.dump(header, arrays)

    @classmethod
    def restore(cls, data: bytes, query: TopK | None = None) -> Monitor:
        """A monitor that goes on where :meth:`snapshot` was taken.

        With ``query`` the snapshot must be of that very query; otherwise
        :class:`SnapshotError` names what differs.
        """
        header, arrays = snapshots.load(data)
        if header.get("family") != cls.family:
            raise SnapshotError(
                f"a snapshot of family {header.get('family')!r}",
                f"{cls.family!r}",
                "restore it elsewhere",
            )
        found = header["query"]
        if query is not None:
            require_same(found, describe(query))
        monitor = cls(cls._query_of(found), header["algorithm"], options=header["options"])
        clock = monitor._clock
        clock.delay, clock.at, clock.newest = (
            header[name] for name in ("delay", "watermark", "newest")
        )
        monitor.plan = Plan(header["algorithm"], tuple(header["reasons"]))
        monitor._undecided = header["undecided"]
        while f"first.{len(monitor._first)}.scores" in arrays:
            name = f"first.{len(monitor._first)}"
            monitor._first.append((arrays[f"{name}.scores"], arrays[f"{name}.attributes"]))
        monitor.dropped = Dropped(**header["dropped"])
        monitor._arrived = header["arrived"]
        steps, pending = monitor._steps, monitor._pending
        steps.fed, steps.done = header["fed"], header["done"]
        steps.alive_until = header["alive_until"]
        steps.life, steps.life_from = arrays["steps.life"], arrays["steps.life_from"]
        pending.score, pending.id = arrays["pending.score"], arrays["pending.id"]
        pending.time, pending.attributes = arrays["pending.time"], arrays["pending.attributes"]
        pending.adopt()
        if header["directory"] is not None:
            monitor._directory = Ids.of(arrays["directory"], header["directory"])
            monitor._directory.worth_pruning = header["worth_pruning"][1]
        pending.worth_pruning = header["worth_pruning"][0]
        monitor._adopt(arrays)
        prefix = "algorithm."
        monitor._algorithm.restore(
            {name[len(prefix) :]: v for name, v in arrays.items() if name.startswith(prefix)}
        )
        return monitor
