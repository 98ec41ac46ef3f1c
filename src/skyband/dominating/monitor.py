"""Continuous top-k dominating queries over the rows that are pushed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.dominating import build, options_of
from skyband.dominating.degradation import APPROXIMATE, Load, load_of
from skyband.dominating.planner import plan
from skyband.dominating.query import TopKDominating
from skyband.dominating.window import WindowAlgorithm
from skyband.engine.algorithm import Algorithm, Setting
from skyband.engine.changes import Changes
from skyband.engine.columns import score_column
from skyband.engine.plan import Plan
from skyband.engine.results import Ranked
from skyband.engine.snapshot import window_of
from skyband.engine.steps import Steps
from skyband.engine.waiting import Waiting
from skyband.errors import DataError, QueryError
from skyband.kernels.emission import Out
from skyband.order import Bools, Floats, Ints
from skyband.topk.monitor import Monitor


class WaitingPoints(Waiting):
    """Maintains points that wait for the watermark; each of them matters to others' scores."""

    def tidy(self) -> None:
        """Nothing can be dropped."""


class DominatingMonitor(Monitor):
    """Answers one continuous top-k dominating query over the rows that are pushed into it.

    Parameters are those of :class:`skyband.Monitor`. One option is its own: ``keep_up``, the points
    per second that it must keep up with. If exact answers take too long, AHBA goes on, then AMSA,
    and exact ones again when there is time to spare; results say per window whether they are
    ``exact``, and which ``accuracy`` to expect.

    >>> import numpy as np
    >>> from skyband import last
    >>> from skyband.dominating.monitor import DominatingMonitor
    >>> from skyband.dominating.query import TopKDominating
    >>> query = TopKDominating(2, [("price", "min"), ("stars", "max")], last(count=4))
    >>> columns = {"price": np.array([9.0, 5.0, 7.0, 6.0]), "stars": np.array([1.0, 3.0, 4.0, 2.0])}
    >>> for ranked in DominatingMonitor(query).push(columns):
    ...     print(ranked)
    [0, 4) 1. 2 (id 1), 2. 1 (id 3)
    """

    family = "dominating"
    query: TopKDominating  # type: ignore[assignment]

    def _check(self, query: Any) -> None:
        if not isinstance(query, TopKDominating):
            raise QueryError(
                f"query is {query!r}", "a TopKDominating query", "write TopKDominating(k=10, ...)"
            )

    @classmethod
    def _query_of(cls, found: Mapping[str, Any]) -> TopKDominating:
        dimensions = [(name, way) for name, way in found["dimensions"]]
        return TopKDominating(found["k"], dimensions, window_of(found), found["emit"])

    def _planned(self, algorithm: str, options: Mapping[str, Any] | None) -> Plan:
        given = {} if options is None else options
        if not isinstance(given, Mapping):
            raise QueryError(f"options are {given!r}", "a mapping", "options={'epsilon': 0.1}")
        found = plan(self.query) if algorithm == "auto" else None
        asked = found or Plan(algorithm, ("asked for by name",))
        self.load: Load | None = None
        if "keep_up" not in given:
            if found is not None and given:
                raise QueryError(
                    f"option {next(iter(given))!r} for auto", "keep_up", "name the algorithm"
                )
            return asked
        self.load = load_of(given, None if found is not None else algorithm)
        self._check_levels(given)
        rate = f"{self.load.rate:,.0f} points/s"
        return Plan(self.load.algorithm, (*asked.reasons, f"to keep up with {rate}"))

    def _check_levels(self, given: Mapping[str, Any]) -> None:
        """Refuse options that no level takes, or that one takes and finds wrong."""
        assert self.load is not None
        known = {"keep_up", "exact"}.union(*(options_of(name) for name in self.load.levels))
        for name in given:
            if name not in known:
                raise QueryError(
                    f"option {name!r}", f"one of {', '.join(sorted(known))}", "leave it out"
                )
        for name in self.load.levels:
            taken = {key: value for key, value in given.items() if key in options_of(name)}
            build(name, Setting(1, 2, 1, True, options=taken), len(self.query.dimensions))

    def _build(self) -> None:
        self._algorithm = self._new_algorithm()
        self._pending = WaitingPoints(self._panes, self.query.k, len(self.query.dimensions))
        self._changes = Changes() if self.query.emit == "changes" else None

    def _new_algorithm(self) -> Algorithm:
        options = self._options
        if self.load is not None:
            options["exact"] = self.load.levels[0]
            known = options_of(self.plan.algorithm)
            options = {name: value for name, value in options.items() if name in known}
        # scores change as points come and go, so what changed is told from whole rankings
        setting = replace(self._setting(), changes=False, options=options)
        return build(self.plan.algorithm, setting, len(self.query.dimensions))

    def _relieve(self) -> None:
        """Let the algorithm that the load calls for go on with the window."""
        assert self.load is not None
        name = self.load.algorithm
        speed = f"{self.load.rate:,.0f} points/s"
        why = f"approximate: an exact answer did not keep up with {speed}"
        if name == self.load.levels[0]:
            why = f"exact: there is time to spare at {speed}"
        self.plan = Plan(name, (why,))
        before = self._algorithm
        self._algorithm = self._new_algorithm()
        assert isinstance(before, WindowAlgorithm)
        assert isinstance(self._algorithm, WindowAlgorithm)
        self._algorithm.take_over(before)

    def _ranked(self, target: Out, steps: Steps) -> Ranked:
        whole = super()._ranked(target, steps)
        if self.load is not None or self.plan.algorithm in APPROXIMATE:
            exact = self.plan.algorithm not in APPROXIMATE
            assert isinstance(self._algorithm, WindowAlgorithm)
            accuracy = self._algorithm.accuracies(steps)[steps.emit]
            whole = replace(whole, exact=np.full(len(whole), exact), accuracy=accuracy)
        if self._changes is None:
            return whole
        seq = target.rows.seq[: whole.rows]
        time = seq if whole.time is None else whole.time
        found = self._changes.of_windows(
            [0] * len(whole), whole.offsets, (whole.score, seq, time, whole.id)
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
        """Arrival numbers of the points that may still be reported, ascending."""
        kept = self._algorithm.kept()
        if self._changes is not None:
            for _, seq, _, _ in self._changes.reported.values():
                kept = np.union1d(kept, seq)
        return kept

    def _own_arrays(self) -> dict[str, NDArray[Any]]:
        return {} if self._changes is None else self._changes.arrays()

    def _adopt(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        if self._changes is not None:
            self._changes.adopt(arrays)

    def push(  # type: ignore[override]
        self, points: Any = None, *, ids: Any = None, times: Any = None, watermark: Any = None
    ) -> Ranked:
        """Take in a batch of rows and return the windows that it completes.

        ``points`` are columns by the names of the dimensions (a mapping or an Arrow table), or a
        matrix with a column per dimension. Rows in which an attribute is NULL or NaN are not
        ranked, dominate nothing and are dominated by nobody; they are counted in :attr:`dropped`.
        The rest is as in :meth:`skyband.Monitor.push`.
        """
        load = self.load
        if load is None:
            return super().push(points, ids=ids, times=times, watermark=watermark)
        started, known = load.clock(), self.arrived
        found = super().push(points, ids=ids, times=times, watermark=watermark)
        if load.took(self.arrived - known, load.clock() - started):
            self._relieve()
        return found

    def _scores(self, scores: Any, attributes: Any) -> tuple[Floats, Floats, Bools | None]:
        """Points with less being better; a score of 0, or NaN where an attribute is missing."""
        names, signs = self.query.names, self.query.signs
        columns = _columns(scores, names)
        parts: list[Floats] = []
        null: Bools | None = None
        for name, values, sign in zip(names, columns, signs, strict=True):
            part, missing = score_column(values, name)
            if parts and len(part) != len(parts[0]):
                raise DataError(
                    f"{name} has {len(part)} rows, {names[0]} {len(parts[0])}", "equal lengths"
                )
            parts.append(part * sign)
            if missing is not None:
                null = missing if null is None else null | missing
        matrix = np.ascontiguousarray(np.stack(parts, axis=1)) + 0.0  # -0.0 becomes 0.0
        unranked = np.isnan(matrix).any(axis=1)
        return matrix, np.where(unranked, np.nan, 0.0), null


def _columns(points: Any, names: tuple[str, ...]) -> list[Any]:
    """A column per dimension."""
    if points is None:
        return [np.empty(0) for _ in names]
    if isinstance(points, np.ndarray):
        if points.ndim != 2 or points.shape[1] != len(names):
            raise DataError(
                f"points of shape {points.shape}", f"(rows, {len(names)}): {', '.join(names)}"
            )
        return list(points.T)
    if hasattr(points, "column_names"):
        points = {name: points[name] for name in names if name in points.column_names}
    if not isinstance(points, Mapping):
        raise DataError(
            f"points are {type(points).__name__}",
            f"columns {', '.join(names)}, or a matrix",
            "push({'price': column, ...})",
        )
    missing = [name for name in names if name not in points]
    if missing:
        raise DataError(f"no column {missing[0]!r}", f"columns {', '.join(names)}")
    return [points[name] for name in names]
