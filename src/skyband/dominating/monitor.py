"""Continuous top-k dominating queries over the rows that are pushed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from typing_extensions import override

from skyband.dominating import build, options_of
from skyband.dominating.bfa import Bfa
from skyband.dominating.degradation import APPROXIMATE, Load, load_of
from skyband.dominating.planner import plan, require_able
from skyband.dominating.query import TopKDominating
from skyband.dominating.window import WindowAlgorithm
from skyband.engine.algorithm import Algorithm
from skyband.engine.columns import id_column, score_column
from skyband.engine.family import Family
from skyband.engine.monitor import BaseMonitor
from skyband.engine.plan import Plan, Setting
from skyband.engine.results import Ranked
from skyband.engine.rows import Rows
from skyband.engine.snapshot import window_of
from skyband.engine.steps import Steps, in_one_window
from skyband.errors import DataError, QueryError
from skyband.order import Bools, Floats, Ints
from skyband.windows import require_sliding


def _described(described: Mapping[str, Any]) -> TopKDominating:
    dimensions = [(name, way) for name, way in described["dimensions"]]
    return TopKDominating(
        described["k"],
        dimensions,
        window_of(described),
        described["emit"],
        open_windows=described.get("open_windows", "all"),
        ties=described.get("ties", "newest"),
        rank_by=described.get("rank_by", "row_number"),
    )


def _planned(query: TopKDominating, algorithm: str, options: Mapping[str, Any]) -> Plan:
    require_able(query, algorithm, "keep_up" in options)
    if algorithm in APPROXIMATE or "keep_up" in options:
        require_sliding(query.window, "dominating points that are estimated")
    planned = plan(query) if algorithm == "auto" else Plan(algorithm, ("asked for by name",))
    if "keep_up" not in options:
        if algorithm == "auto" and options:
            raise QueryError(
                f"option {next(iter(options))!r} for auto", "keep_up", "name the algorithm"
            )
        return planned
    load = load_of(options, None if algorithm == "auto" else algorithm)
    _check_levels(load, options, len(query.dimensions))
    return Plan(load.algorithm, (*planned.reasons, f"to keep up with {load.rate:,.0f} points/s"))


def _check_levels(load: Load, options: Mapping[str, Any], width: int) -> None:
    """Refuse options that no level takes, or that one takes and refuses."""
    known = {"keep_up", "exact"}.union(*(options_of(name) for name in load.levels))
    for name in options:
        if name not in known:
            raise QueryError(
                f"option {name!r}", f"one of {', '.join(sorted(known))}", "leave it out"
            )
    for name in load.levels:
        taken = {key: value for key, value in options.items() if key in options_of(name)}
        build(name, Setting(1, 2, 1, True, options=taken), width)


def _build(planned: Plan, setting: Setting, query: TopKDominating) -> Algorithm:
    return build(planned.algorithm, setting, len(query.dimensions))


FAMILY = Family(
    name="dominating",
    query=TopKDominating,
    example="TopKDominating(k=10, ...)",
    described=_described,
    prunes=False,  # every point matters to the scores of others
    changes="row",  # scores change as points come and go
    plan=_planned,
    build=_build,
)


class DominatingMonitor(BaseMonitor[TopKDominating]):
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

    family = FAMILY

    @override
    def _new_algorithm(self) -> Algorithm:
        self.load: Load | None = None
        if "keep_up" in self._options:
            self.load = load_of(self._options, self.plan.algorithm)
            self._options["exact"] = self.load.levels[0]
        return super()._new_algorithm()

    @override
    def _setting(self) -> Setting:
        setting = super()._setting()
        if "keep_up" not in self._options:
            return setting
        known = options_of(self.plan.algorithm)
        options = {name: value for name, value in self._options.items() if name in known}
        return replace(setting, options=options)

    def push(
        self, points: Any = None, *, ids: Any = None, times: Any = None, watermark: Any = None
    ) -> Ranked:
        """Take in a batch of rows and return the windows that it completes.

        ``points`` are columns by the names of the dimensions (a mapping or an Arrow table), or a
        matrix with a column per dimension. Rows in which an attribute is NULL or NaN are not
        ranked, dominate nothing and are dominated by nobody; they are counted in :attr:`dropped`.
        ``ids`` default to the arrival number; ``times`` and ``watermark`` belong to time windows.

        Raises :class:`DataError` before anything is taken in.
        """
        load = self.load
        started, arrived = load.clock() if load else 0.0, self.arrived
        rows, null = self._rows(points)
        if ids is not None:
            rows = rows._replace(id=id_column(ids, rows.size))
        ranked = self._take(rows, null, times, watermark)
        if load is not None and load.took(self.arrived - arrived, load.clock() - started):
            self._relieve(load)
        return ranked

    def begin(self, points: Floats, scores: Ints) -> None:
        """Start a count window with points whose scores are known, or estimated for a benchmark.

        ``bfa`` only: it counts the scores of a large window pair by pair, which takes hours, while
        what an update costs does not depend on them. Raises :class:`QueryError` for others, and
        once rows have arrived.
        """
        algorithm = self._algorithm
        if not isinstance(algorithm, Bfa) or self.arrived:
            raise QueryError(
                f"{self.plan.algorithm} with {self.arrived:,} rows", "bfa before any row", "push()"
            )
        algorithm.begin(points * np.array(self.query.signs), scores)
        self._inlet.begin_at(len(points))

    def _rows(self, points: Any) -> tuple[Rows, Bools | None]:
        """Points with less being better; a score of 0, or NaN where an attribute is missing."""
        names = self.query.names
        parts: list[Floats] = []
        null: Bools | None = None
        columns = zip(names, _columns(points, names), self.query.signs, strict=True)
        for name, values, sign in columns:
            column, missing = score_column(values, name)
            if parts and len(column) != len(parts[0]):
                raise DataError(
                    f"{name} has {len(column)} rows, {names[0]} {len(parts[0])}", "equal lengths"
                )
            parts.append(column * sign)
            if missing is not None:
                null = missing if null is None else null | missing
        matrix = np.ascontiguousarray(np.stack(parts, axis=1)) + 0.0  # -0.0 becomes 0.0
        unranked = np.isnan(matrix).any(axis=1)
        return Rows(np.where(unranked, np.nan, 0.0), columns=(matrix,)), null

    @override
    def _kernel_steps(self, steps: Steps) -> Steps:
        return in_one_window(steps, self._panes)

    @override
    def _no_rows(self) -> Rows:
        return super()._no_rows()._replace(columns=(np.empty((0, len(self.query.dimensions))),))

    def _relieve(self, load: Load) -> None:
        """Let the algorithm that the load calls for go on with the window."""
        speed = f"{load.rate:,.0f} points/s"
        why = f"approximate: an exact answer did not keep up with {speed}"
        if load.level == 0:
            why = f"exact: there is time to spare at {speed}"
        self.plan = Plan(load.algorithm, (why,))
        before = self._algorithm
        self._algorithm = self.family.build(self.plan, self._setting(), self.query)
        assert isinstance(before, WindowAlgorithm)
        assert isinstance(self._algorithm, WindowAlgorithm)
        self._algorithm.take_over(before)

    @property
    def _says_exact(self) -> bool:
        """Whether windows say if they are exact."""
        return self.load is not None or self.plan.algorithm in APPROXIMATE

    @override
    def _annotated(self, ranked: Ranked, steps: Steps) -> Ranked:
        if not self._says_exact:
            return ranked
        assert isinstance(self._algorithm, WindowAlgorithm)
        accuracy = self._algorithm.accuracies(steps)[steps.emit]
        exact = np.full(len(ranked), self.plan.algorithm not in APPROXIMATE)
        return replace(ranked, exact=exact, accuracy=accuracy)

    @override
    def _nothing(self) -> Ranked:
        nothing = super()._nothing()
        if not self._says_exact:
            return nothing
        return replace(nothing, exact=np.empty(0, np.bool_), accuracy=np.empty(0))


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
