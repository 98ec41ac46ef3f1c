"""Continuous queries for the keys with the largest totals, over the rows that are pushed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from skyband.engine.algorithm import Algorithm
from skyband.engine.columns import id_column, number_column, score_column
from skyband.engine.family import Family
from skyband.engine.monitor import BaseMonitor
from skyband.engine.plan import Plan, Setting
from skyband.engine.results import Ranked
from skyband.engine.rows import Rows
from skyband.engine.snapshot import Saved, join, part, window_of
from skyband.engine.steps import Steps, TimeSteps
from skyband.engine.waiting import TieBreakers, by_arrival, by_id
from skyband.engine.whole_numbers import LARGEST, numbers_of
from skyband.errors import DataError, QueryError
from skyband.order import Bools, Floats, Ints, Scores
from skyband.totals.also import CarriedTotals
from skyband.totals.panes import PaneTotals
from skyband.totals.query import PICKED, TopKTotals, Total
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
        open_windows=described.get("open_windows", "all"),
        also={name: Total(**total) for name, total in described.get("also", {}).items()},
        ties=described.get("ties", "newest"),
        rank_by=described.get("rank_by", "row_number"),
    )


def _planned(query: TopKTotals, algorithm: str, options: Mapping[str, Any]) -> Plan:
    del query, options
    name = PaneTotals.name
    if algorithm not in ("auto", name):
        raise QueryError(f"algorithm is {algorithm!r}", f"{name}, auto", "use 'auto'")
    return Plan(name, ("panes add up to windows: each row is added once, and taken once",))


def _build(planned: Plan, setting: Setting, query: TopKTotals) -> Algorithm:
    del planned
    return PaneTotals(setting, query.by, query.total.whole, 10**query.scale)


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
    which of these rows came last, and not by the larger key; if the oldest rank first, by which
    came first, and not by the smaller key.

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
        self._inlet.counts_unranked = query.counts_nulls
        self._inlet.drops_unranked = not query.also
        self._carried = {
            name: CarriedTotals(self._setting(), total) for name, total in query.carried.items()
        }
        self._fed: Rows

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
        also: Mapping[str, Any] | None = None,
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

        ``also`` has a column for each total that the query carries, by name; one that counts rows
        may be left out. With ``counts`` it may be a pair: a column and the counts of its rows, 0
        where a row has no part in it.

        Raises :class:`DataError` before anything is taken in.
        """
        key_column = _keys(np.empty(0, np.int64) if keys is None else keys)
        rows = len(key_column)
        if values is None:
            if rows and self.query.by != "count":
                raise DataError("keys without values", "a value per key", "push(keys, values)")
            values = np.zeros(rows, self.query.numbers)
        value, null = _values(self.query.total, values, rows, "values")
        carried, carried_counts = self._carried_columns(dict(also or {}), rows)
        if counts is not None:
            counts = _counts(counts, rows)
            if not isinstance(self.query.window, TimeWindow):
                raise DataError(
                    "counts for a count window", "rows that each hold a place", "leave counts out"
                )
            if not self._counting:
                self._counting = True
                for _ in range(1 + len(carried)):
                    self._inlet.waiting.add_column(1)  # those that wait stand for themselves
        elif self._counting:
            counts = np.ones(rows, np.int64)
        columns: tuple[NDArray[Any], ...] = tuple(carried)
        if self._counting:
            columns += (counts, *(counts if own is None else own for own in carried_counts))
        return self._take(Rows(value, key_column, None, columns), null, times, watermark)

    def _carried_columns(
        self, also: dict[str, Any], rows: int
    ) -> tuple[list[Floats], list[Ints | None]]:
        """The values of each total that is carried, and their counts if they have their own."""
        unknown = sorted(set(also) - set(self._carried))
        if unknown:
            raise DataError(
                f"also has a column {unknown[0]!r}",
                f"columns for {', '.join(self._carried) or 'nothing'}, as the query says",
                "leave it out",
            )
        columns: list[Floats] = []
        counts: list[Ints | None] = []
        for name, total in self.query.carried.items():
            column, own = also.get(name), None
            if isinstance(column, tuple):
                column, own = column
            if column is None and rows and total.by != "count":
                raise DataError(
                    f"no column for {name!r}", "a value per key", f"push(also={{{name!r}: column}})"
                )
            if column is None:
                column = np.zeros(rows, total.numbers)
            columns.append(_values(total, column, rows, name)[0])
            counts.append(None if own is None else _counts(own, rows))
        return columns, counts

    @override
    def _answered(self, rows: Rows, steps: Steps) -> Ranked:
        self._fed = rows
        return super()._answered(rows._replace(columns=self._counts_of(rows, 0)), steps)

    @override
    def _fork_family_state(self) -> None:
        self._carried = {name: carried.fork() for name, carried in self._carried.items()}

    def _counts_of(self, rows: Rows, at: int) -> tuple[NDArray[Any], ...]:
        """The counts of rows for a total, if there are any: 0 is the one that ranks."""
        first = len(self._carried) + at
        return rows.columns[first : first + 1]

    @override
    def _annotated(self, ranked: Ranked, steps: Steps) -> Ranked:
        """Windows with the totals that are carried, of the same rows."""
        if not self._carried:
            return ranked
        rows, also = self._fed, {}
        for at, (name, carried) in enumerate(self._carried.items()):
            value = rows.columns[at] if rows.columns else rows.score  # of no rows
            of_total = rows._replace(score=value, columns=self._counts_of(rows, at + 1))
            also[name] = carried.totals(of_total, steps, ranked.id, ranked.offsets)
        return replace(ranked, also=also)

    @override
    def _reported(self, ranked: Ranked) -> Ranked:
        also = None
        if self._carried:
            columns = ranked.also or dict.fromkeys(self._carried, np.empty(0))
            totals = self.query.carried
            also = {name: _reported(totals[name], column) for name, column in columns.items()}
        return replace(ranked, score=_reported(self.query.total, ranked.score), also=also)

    def carried_keys(self) -> list[Ints]:
        """The keys that have rows in the window, for each total that is carried."""
        return [carried.keys() for carried in self._carried.values()]

    @override
    def state_bytes(self) -> int:
        carried = (carried.state_bytes() for carried in self._carried.values())
        return super().state_bytes() + sum(carried)

    @override
    def _saved(self) -> Saved:
        parts = {f"also{at}": carried.saved() for at, carried in enumerate(self._carried.values())}
        return join({"counting": self._counting}, parts)

    @override
    def _restored(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._counting = header["counting"]
        for at, carried in enumerate(self._carried.values()):
            carried.restored(*part(f"also{at}", header, arrays))


def _values(total: Total, values: Any, rows: int, what: str) -> tuple[Floats, Bools | None]:
    """Values as they are added up, and where they are NULL."""
    value, null = number_column(values, total.numbers, what)
    if total.whole and total.by not in PICKED and np.isinf(value).any():
        raise too_large("a value")
    if len(value) != rows:
        raise DataError(
            f"{rows} keys for {len(value)} {what}", "equal lengths", "push equal lengths"
        )
    return value, null


def _reported(total: Total, column: Floats) -> Scores:
    """Totals in the numbers that were pushed; whole ones are masked where there is none."""
    if not total.whole or total.by in ("count", "mean"):
        return column
    if total.by not in PICKED and np.isinf(column).any():
        raise too_large("a sum")
    null = np.isnan(column)
    numbers = numbers_of(np.where(null, 0.0, column))
    return np.ma.array(numbers, mask=null) if null.any() else numbers


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
