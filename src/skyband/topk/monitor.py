"""Continuous top-k queries over the rows that are pushed: push(batch) -> ranked windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from skyband.engine.algorithm import Algorithm
from skyband.engine.columns import id_column, number_column, weighted
from skyband.engine.family import Family
from skyband.engine.monitor import BaseMonitor
from skyband.engine.plan import Plan, Setting, unusual_order
from skyband.engine.results import Ranked, decoded
from skyband.engine.rows import Rows
from skyband.engine.snapshot import Saved, window_of
from skyband.engine.steps import Steps, in_one_window
from skyband.errors import DataError
from skyband.order import Bools
from skyband.query import TopK
from skyband.topk import build, is_loaded
from skyband.topk.plain import Plain
from skyband.topk.planner import SAMPLE, plan, require_able, trend


def _described(described: Mapping[str, Any]) -> TopK:
    weights = described["weights"]
    weights = None if weights is None else tuple(weights)
    numbers = described.get("numbers", "float64")
    ties = described.get("ties", "newest")
    return TopK(
        described["k"],
        window_of(described),
        described["emit"],
        weights,
        numbers,
        ties,
        open_windows=described.get("open_windows", "all"),
        rank_by=described.get("rank_by", "row_number"),
    )


def _planned(query: TopK, algorithm: str, options: Mapping[str, Any]) -> Plan:
    require_able(query, algorithm)
    if algorithm != "auto":
        return Plan(algorithm, ("asked for by name",))
    if options and unusual_order(query) is None:
        return Plan("sap", ("options were given, and they are SAP's",))
    return plan(query)


def _build(planned: Plan, setting: Setting, query: TopK) -> Algorithm:
    return build(planned.algorithm, replace(setting, weights=query.weights))


FAMILY = Family(
    name="topk",
    query=TopK,
    example="Monitor(TopK(k=10, ...))",
    described=_described,
    prunes=True,
    changes="kernel",
    plan=_planned,
    build=_build,
)


class Monitor(BaseMonitor[TopK]):
    """Answers one continuous top-k query over the rows that are pushed into it.

    Parameters: the query; the algorithm (``"auto"`` lets the planner choose, once enough scores
    have come to tell and the work is worth compiling for; until then NumPy answers); for time
    windows an optional ``delay``: with it the watermark follows the newest time at that distance,
    without it the caller passes ``watermark=`` to :meth:`push`. ``options`` are the algorithm's
    own.

    >>> import numpy as np
    >>> from skyband import Monitor, TopK, last
    >>> monitor = Monitor(TopK(k=2, window=last(count=4, slide=2)))
    >>> for ranked in monitor.push(np.array([3.0, 9.0, 4.0, 1.0])):
    ...     print(ranked)
    [0, 2) 1. 9 (id 1), 2. 3 (id 0)
    [0, 4) 1. 9 (id 1), 2. 4 (id 2)
    """

    family = FAMILY

    def __init__(
        self,
        query: TopK,
        algorithm: str = "auto",
        *,
        options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self._begins_plain = algorithm == "auto" and not options
        super().__init__(query, algorithm, options=options, **settings)
        # whether the planner may still choose, by the scores that come
        self._undecided = self._begins_plain and self._counted

    @override
    def _new_algorithm(self) -> Algorithm:
        return self._plain() if self._begins_plain else super()._new_algorithm()

    def _plain(self) -> Plain:
        return Plain(self._setting())

    @property
    @override
    def _changes_by(self) -> Literal["kernel", "row", "id"]:
        # kernels compare rankings of k rows in which the newest of equal scores stand first
        query = self.query
        return "row" if query.ties == "oldest" or query.shares_ranks else "kernel"

    @property
    @override
    def algorithm(self) -> Algorithm:
        """The planned algorithm; if NumPy has answered so far, it takes over now.

        That may compile kernels: :attr:`plan` names the algorithm without doing so.
        """
        if isinstance(self._algorithm, Plain):
            self._compile()
        return self._algorithm

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
        are NumPy or Arrow; scores are whole numbers if the query says so. Rows older than the
        watermark before this push are dropped and counted in :attr:`dropped`, as are NULL and NaN
        scores and NULL times; a count window lets unranked rows hold their place.

        Raises :class:`DataError` before anything is taken in.
        """
        rows, null = self._rows(scores, attributes)
        if ids is not None:
            rows = rows._replace(id=id_column(ids, rows.size))
        return self._take(rows, null, times, watermark)

    def _rows(self, scores: Any, attributes: Any) -> tuple[Rows, Bools | None]:
        """Scores, with the attributes if an algorithm may index them, and which are NULL."""
        weights = self.query.weights
        if weights is None:
            if attributes is not None:
                raise DataError(
                    "attributes for a query without weights",
                    "scores",
                    "give the query weights=(...)",
                )
            none = np.empty(0, self.query.numbers)
            column, null = number_column(none if scores is None else scores, self.query.numbers)
            return Rows(column), null
        if scores is not None:
            raise DataError("scores for a query with weights", "attributes", "push(attributes=...)")
        nothing = np.empty((0, len(weights)))
        matrix, column, null = weighted(nothing if attributes is None else attributes, weights)
        # what takes over from NumPy may index attributes, in count windows
        plain = self._counted and isinstance(self._algorithm, Plain)
        wanted = plain or self._algorithm.attributes
        return Rows(column, columns=(matrix,) if wanted else ()), null

    @override
    def _reported(self, ranked: Ranked) -> Ranked:
        return ranked if self.query.numbers == "float64" else decoded(ranked)

    @override
    def _before(self, rows: Rows, steps: Steps) -> None:
        if not isinstance(self._algorithm, Plain):
            return
        if self._undecided and rows.size:
            self._decide(rows)
        ready = not self._undecided and is_loaded(self.plan.algorithm)
        if ready or not self._algorithm.can_afford(rows, steps):
            self._compile()

    def _decide(self, rows: Rows) -> None:
        """Plan again once there are scores enough to tell a trend."""
        assert isinstance(self._algorithm, Plain)
        first = self._algorithm.first_scores(SAMPLE)
        seen = np.concatenate([first, rows.score[: SAMPLE - len(first)]])
        if trend(seen) is not None or len(seen) >= SAMPLE:
            self._undecided = False
            self.plan = plan(self.query, seen)

    def _compile(self) -> None:
        """Let the planned algorithm take over from NumPy."""
        plain = self._algorithm
        assert isinstance(plain, Plain)
        self._undecided = False
        self._algorithm = super()._new_algorithm()
        plain.replay(self._algorithm)

    @override
    def _kernel_steps(self, steps: Steps) -> Steps:
        return in_one_window(steps, self._panes)

    @override
    def _answered(self, rows: Rows, steps: Steps) -> Ranked:
        if rows.columns and not (self._algorithm.attributes or isinstance(self._algorithm, Plain)):
            rows = rows._replace(columns=())
        return super()._answered(rows, steps)

    @override
    def _saved(self) -> Saved:
        plain = isinstance(self._algorithm, Plain)
        return {"plain": plain, "undecided": self._undecided}, {}

    @override
    def _restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._undecided = header["undecided"]
        if header["plain"]:
            self._algorithm = self._plain()
