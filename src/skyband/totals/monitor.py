"""Continuous queries for the keys with the largest totals, over the rows that are pushed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from skyband.engine.algorithm import Algorithm
from skyband.engine.columns import id_column, number_column, score_column
from skyband.engine.family import Family
from skyband.engine.monitor import BaseMonitor
from skyband.engine.plan import Plan, Setting
from skyband.engine.results import Ranked, decoded
from skyband.engine.rows import Rows
from skyband.engine.snapshot import Saved, window_of
from skyband.engine.steps import TimeSteps
from skyband.engine.waiting import TieBreakers, by_arrival, by_id
from skyband.engine.whole_numbers import LARGEST
from skyband.errors import DataError, QueryError
from skyband.order import Ints
from skyband.totals.panes import PaneTotals
from skyband.totals.query import PICKED, TopKTotals
from skyband.windows import TimeWindow

TIES: dict[str, TieBreakers] = {"key": by_id, "arrival": by_arrival}
_MOST = 1 << 53


def _described(described: Mapping[str, Any]) -> TopKTotals:
    return TopKTotals(
        described["k"],
        described["by"],
        window_of(described),
        described["emit"],
        described.get("numbers", "float64"),
        described.get("scale", 0),
    )


def _planned(query: TopKTotals, algorithm: str, options: Mapping[str, Any]) -> Plan:
    del query, options
    name = PaneTotals.name
    if algorithm not in ("auto", name):
        raise QueryError(f"algorithm is {algorithm!r}", f"{name}, auto", "use 'auto'")
    return Plan(name, ("panes add up to windows: each row is added once, and taken once",))


def _build(planned: Plan, setting: Setting, query: TopKTotals) -> Algorithm:
    del planned
    return PaneTotals(setting, query.by, query.numbers == "int64", 10**query.scale)


FAMILY = Family(
    name="totals",
    query=TopKTotals,
    example="TopKTotals(k=10, by='sum', ...)",
    described=_described,
    prunes=False,  # each row counts
    changes="id",  # a key stays the same while its newest row changes
    plan=_planned,
    build=_build,
)


class TotalsMonitor(BaseMonitor[TopKTotals]):
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

    family = FAMILY
    _counting = False  # whether rows stand for several, and have a column that says for how many

    def __init__(
        self,
        query: TopKTotals,
        algorithm: str = "auto",
        *,
        delay: Any = None,
        options: Mapping[str, Any] | None = None,
        steps: TimeSteps | None = None,
    ) -> None:
        super().__init__(query, algorithm, delay=delay, options=options, steps=steps)
        self._inlet.takes_unranked = self.query.takes_nulls

    @override
    def _ties(self) -> TieBreakers:
        ties = self._options.get("ties", "key")
        if ties not in TIES:
            raise QueryError(f"ties is {ties!r}", "'key' or 'arrival'", "leave it out")
        return TIES[ties]

    def push(
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
        key: its value is their sum, their largest (least), or that of the first (last) of them; 0
        is for further parts of a sum that no float64 holds alone. ``times`` and ``watermark``
        belong to time windows.

        Raises :class:`DataError` before anything is taken in.
        """
        key_column = _keys(np.empty(0, np.int64) if keys is None else keys)
        rows = len(key_column)
        if values is None:
            if rows and self.query.by != "count":
                raise DataError("keys without values", "a value per key", "push(keys, values)")
            values = np.zeros(rows, self.query.numbers)
        value, null = number_column(values, self.query.numbers, "values")
        if self.query.numbers == "int64" and not self._extreme and np.isinf(value).any():
            raise too_large("a value")
        if len(value) != rows:
            raise DataError(
                f"{rows} keys for {len(value)} values", "equal lengths", "push equal lengths"
            )
        if counts is not None:
            counts = _counts(counts, rows)
            if not isinstance(self.query.window, TimeWindow):
                raise DataError(
                    "counts for a count window", "rows that each hold a place", "leave counts out"
                )
            if not self._counting:
                self._counting = True
                self._inlet.waiting.add_column(1)  # those that wait stand for themselves
        elif self._counting:
            counts = np.ones(rows, np.int64)
        columns = (counts,) if self._counting else ()
        return self._take(Rows(value, key_column, None, columns), null, times, watermark)

    @override
    def _reported(self, ranked: Ranked) -> Ranked:
        if self.query.numbers == "float64" or self.query.by in ("count", "mean"):
            return ranked
        if not self._extreme and np.isinf(ranked.score).any():
            raise too_large("a sum")
        return decoded(ranked)

    @property
    def _extreme(self) -> bool:
        """Whether totals are values as they are: the ends of int64 may be among them."""
        return self.query.by in PICKED

    @override
    def _saved(self) -> Saved:
        return {"counting": self._counting}, {}

    @override
    def _restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._counting = header["counting"]


def too_large(what: str) -> DataError:
    """The error of whole numbers beyond what is added up exactly."""
    return DataError(
        f"{what} beyond {LARGEST:,}",
        "whole numbers of 64 bits, sums included",
        "convert values to floats, which are rounded",
    )


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


def _counts(counts: Any, rows: int) -> Ints:
    """How many rows each row stands for."""
    column, null = score_column(counts, "counts")
    if len(column) != rows:
        raise DataError(
            f"{len(column)} counts for {rows} keys", "equal lengths", "push equal lengths"
        )
    sound = (column >= 0) & (column <= _MOST) & (column == np.floor(column))
    if null is not None or not sound.all():
        raise DataError(
            "counts that are no counts", "whole numbers from 0 to 2**53", "leave them out"
        )
    return column.astype(np.int64)
