"""A workload: named top-k queries over one stream, answered as one."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from skyband.errors import QueryError
from skyband.html_tables import MOST_ROWS, column, left_out, table
from skyband.query import RankBy, Ties, TopK, order_words
from skyband.windows import CountWindow, TimeWindow, Window, last, window_of_fields

SCORE = "score"
"""The name of the score, where a workload has but one and does not name it."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_WINDOWS = ("window", "cumulative", "all_time")
_FIELDS = (
    *("name", "k", "window", "slide", "offset", "by", "full"),
    *("cumulative", "all_time", "every", "ties", "rank_by"),
)


@dataclass(frozen=True)
class Workload:
    """Named queries over one stream: any windows, slides and k, all of time or all of counts.

    Windows of time may slide, hold a period so far or all time, and each query has its own
    ``ties`` and ``rank_by``. ``by`` names the score that a query ranks by, where there are several;
    rows are pushed with one column for each of them.

    >>> from skyband import TopK, last
    >>> print(Workload({
    ...     "now": TopK(k=3, window=last(count=100, slide=10)),
    ...     "long": TopK(k=10, window=last(count=5000, slide=70)),
    ... }))
    2 queries: windows of 100 to 5,000 objects, slides of 10 to 70, k of 3 to 10
    """

    queries: Mapping[str, TopK]
    by: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.queries, Mapping) or not self.queries:
            raise QueryError(
                f"queries are {self.queries!r}",
                "at least one named query",
                "write Workload({'name': TopK(k=10, window=last(count=1000))})",
            )
        for name, query in self.queries.items():
            check_name(name)
            check_query(name, query)
        object.__setattr__(self, "queries", dict(self.queries))
        self._check_alike()
        if not isinstance(self.by, Mapping):
            raise QueryError(
                f"by is {self.by!r}", "the score of each query by its name", "leave it out"
            )
        for name, score in self.by.items():
            if not isinstance(score, str) or not score.strip():
                raise QueryError(f"query {name!r} ranks by {score!r}", "the name of a score")
        unknown = [name for name in self.by if name not in self.queries]
        if unknown:
            raise QueryError(
                f"by names a score for {unknown[0]!r}", "names of queries", "leave it out"
            )
        object.__setattr__(self, "by", {name: self.by.get(name, SCORE) for name in self.queries})

    def _check_alike(self) -> None:
        (first, model), *others = self.queries.items()
        for name, query in others:
            check_alike(first, model, name, query)

    def __len__(self) -> int:
        return len(self.queries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.queries)

    def __str__(self) -> str:
        queries = list(self.queries.values())
        windows = [query.window for query in queries]
        one = "query" if len(queries) == 1 else "queries"
        return (
            f"{len(queries):,} {one}: {_windows_in_words(windows)}, "
            f"k of {_range([q.k for q in queries])}{_order_in_words(queries)}"
        )

    def _repr_html_(self) -> str:
        """The queries as a table, for notebooks."""
        queries = list(self.queries.items())[:MOST_ROWS]
        columns = [
            column("query", [name for name, _ in queries]),
            column("k", [query.k for _, query in queries]),
            column("window", [query.window for _, query in queries]),
            column("by", [self.by[name] for name, _ in queries]),
        ]
        orders = [order_words(query.ties, query.rank_by).removeprefix(", ") for _, query in queries]
        if any(orders):
            columns.append(column("order", orders))
        return table(str(self), columns, left_out(len(self) - len(queries), "query", "queries"))

    @property
    def counted(self) -> bool:
        """Whether windows count rows."""
        return isinstance(self.model.window, CountWindow)

    @property
    def model(self) -> TopK:
        """The first query: all others have windows of the same kind."""
        return next(iter(self.queries.values()))

    @property
    def scores(self) -> tuple[str, ...]:
        """The names of the scores, each once."""
        return tuple(dict.fromkeys(self.by.values()))

    @property
    def shares_ranks(self) -> bool:
        """Whether rows of equal score share a rank in the answers of any query."""
        return any(query.shares_ranks for query in self.queries.values())

    @property
    def pane_order(self) -> tuple[Ties, RankBy]:
        """The ties and ranks by which the best rows of a pane are enough for every query.

        The rows of rank k or less hold the k best rows, whatever comes first of equal scores; the
        rows of the k best scores hold all of those.
        """
        orders = {(query.ties, query.rank_by) for query in self.queries.values()}
        if len(orders) == 1 and not self.shares_ranks:
            return self.model.ties, "row_number"
        dense = any(rank_by == "dense_rank" for _, rank_by in orders)
        return "newest", "dense_rank" if dense else "rank"

    @classmethod
    def of(cls, records: Any, ticks: bool = False) -> Workload:
        """A workload from plain values: one mapping per query.

        Fields: ``name``, ``k``, ``window``, and optionally ``slide``, ``offset``, ``by``, ``full``,
        ``ties``, ``rank_by``. Windows are durations such as ``"1 hour"``, or numbers of rows; with
        ``ticks``, numbers of the caller's own integer clock. In the place of ``window`` stands
        ``cumulative`` or ``all_time``, with ``every``; a job's ``window: {cumulative: ...}`` means
        the same.
        """
        queries: dict[str, TopK] = {}
        by: dict[str, str] = {}
        if isinstance(records, (str, Mapping)) or not isinstance(records, Iterable):
            raise QueryError(f"records are {records!r}", "a list of queries")
        for number, record in enumerate(records, start=1):
            name, query, score = _query(record, number, ticks)
            if name in queries:
                raise QueryError(
                    f"query {number} is called {name!r}, as one before", "names of their own"
                )
            queries[name] = query
            if score is not None:
                by[name] = score
        return cls(queries, by)

    @classmethod
    def from_csv(cls, path: str | PathLike[str], ticks: bool = False) -> Workload:
        """A workload from a CSV file with the columns ``name,k,window,slide``, or more."""
        source = Path(path)
        try:
            rows = csv.DictReader(_text(source).splitlines(), skipinitialspace=True)
            _check_columns(source, list(rows.fieldnames or []))
            records = [_plain(row, f"{source.name} line {rows.line_num}") for row in rows]
        except csv.Error as error:
            raise QueryError(f"{source.name} is not CSV: {error}", "name,k,window,slide") from None
        return _read(source, cls, records, ticks)

    @classmethod
    def from_yaml(cls, path: str | PathLike[str], ticks: bool = False) -> Workload:
        """A workload from a YAML file: a list of queries, or ``queries:`` and such a list."""
        import yaml

        source = Path(path)
        try:
            document = yaml.safe_load(_text(source))
        except yaml.YAMLError as error:
            raise QueryError(f"{source.name} is not YAML: {error}", "a list of queries") from None
        records = document.get("queries") if isinstance(document, dict) else document
        if not isinstance(records, list):
            raise QueryError(
                f"{source.name} holds no list of queries",
                "queries:, each with name, k, window and slide",
                "write - {name: a, k: 10, window: 1 hour, slide: 1 minute}",
            )
        return _read(source, cls, records, ticks)


def check_name(name: Any) -> None:
    """Refuse what cannot name a query."""
    if not isinstance(name, str) or not name.strip():
        raise QueryError(f"a query is called {name!r}", "a name", "write 'name': TopK(...)")


def check_query(name: str, query: Any) -> None:
    """Refuse what cannot be part of a workload."""
    if not isinstance(query, TopK):
        raise QueryError(
            f"query {name!r} is {query!r}", "a TopK query", "write TopK(k=10, window=...)"
        )
    if query.weights is not None:
        raise QueryError(
            f"query {name!r} has weights",
            "queries over scores: several of them can share one",
            "push the weighted score, and name it with by",
        )


def check_alike(first: str, model: TopK, name: str, query: TopK) -> None:
    """Refuse a query whose answers would not fit beside those of another."""
    kinds = [_kind(each.window) for each in (model, query)]
    if kinds[0] != kinds[1]:
        raise QueryError(
            f"query {first!r} has windows of {kinds[0]}, {name!r} of {kinds[1]}",
            "windows of one kind",
            "make a workload of each kind",
        )
    if model.emit != query.emit:
        raise QueryError(
            f"query {first!r} emits {model.emit!r}, {name!r} {query.emit!r}",
            "one way to report",
            "make a workload of each",
        )


def _kind(window: Any) -> str:
    if isinstance(window, CountWindow):
        return "counts"
    return "time" if window.unit == "us" else "ticks"


def _windows_in_words(windows: list[Any]) -> str:
    """Windows that slide, periods so far, all time: as many of them as there are."""
    together = [window for window in windows if window.panes.together]
    sliding = [window for window in windows if not window.panes.together]
    periods = [window for window in together if window.kind == "cumulative"]
    parts = []
    if sliding:
        parts += [f"windows of {_span(sliding, 'size')}", f"slides of {_span(sliding, 'slide')}"]
    if periods:
        parts.append(f"each {_span(periods, 'size')} so far")
    if len(periods) < len(together):
        parts.append("all time")
    if together:
        parts.append(f"steps of {_span(together, 'slide')}")
    return ", ".join(parts)


def _order_in_words(queries: list[TopK]) -> str:
    """How rows of equal score are ranked, unless it is the usual way."""
    orders = {(query.ties, query.rank_by) for query in queries}
    if len(orders) > 1:
        return ", of equal scores each ranks in its own way"
    ((ties, rank_by),) = orders
    return order_words(ties, rank_by)


def _span(windows: list[Any], field: str) -> str:
    low, high = (pick(getattr(window, field) for window in windows) for pick in (min, max))
    first = windows[0]
    if isinstance(first, TimeWindow):
        low, high = first._spoken(low), first._spoken(high)
        return low if low == high else f"{low} to {high}"
    text = _range([low, high])
    return f"{text} objects" if field == "size" else text


def _range(values: list[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _check_columns(source: Path, columns: list[str]) -> None:
    missing = [name for name in ("name", "k") if name not in columns]
    missing += [] if any(name in columns for name in _WINDOWS) else ["window"]
    unknown = [name for name in columns if name not in _FIELDS]
    twice = [name for name in columns if columns.count(name) > 1]
    if missing or unknown or twice:
        fix = f"add a column {missing[0]}" if missing else f"leave out {(unknown or twice)[0]}"
        raise QueryError(
            f"{source.name} has the columns {', '.join(columns) or 'none'}",
            f"name,k,window,slide, each once; or any of {', '.join(_FIELDS)}",
            fix,
        )


def _plain(row: Mapping[str | None, Any], where: str) -> dict[str, Any]:
    """A line of CSV: empty cells are left out, whole numbers are numbers."""
    record: dict[str, Any] = {}
    for name, value in row.items():
        if name is None:
            raise QueryError(f"{where} has {value} behind its last column", "a cell per column")
        text = (value or "").strip()
        if text:
            record[name] = int(text) if _WHOLE.fullmatch(text) else text
    for name in ("name", "by"):
        if name in record:
            record[name] = str(row[name]).strip()
    for name in ("full", "all_time"):
        if name in record:
            record[name] = _TRUTH.get(str(record[name]).lower(), record[name])
    return record


def _query(record: Any, number: int, ticks: bool) -> tuple[str, TopK, str | None]:
    if not isinstance(record, Mapping):
        raise QueryError(
            f"query {number} is {record!r}", "fields", "write {name: a, k: 10, window: 1 hour}"
        )
    unknown = [str(name) for name in record if name not in _FIELDS]
    if unknown:
        raise QueryError(f"query {number} has {unknown[0]!r}", f"one of {', '.join(_FIELDS)}")
    given = {name: value for name, value in record.items() if value is not None}
    if given.get("all_time") is False:
        del given["all_time"]
    missing = [name for name in ("name", "k") if name not in given]
    missing += [] if any(name in given for name in _WINDOWS) else ["window"]
    if missing:
        raise QueryError(
            f"query {number} has no {missing[0]}",
            "name, k and window; or cumulative or all_time, with every, in its place",
        )
    name = str(given["name"])
    order = {option: given[option] for option in ("ties", "rank_by") if option in given}
    try:
        query = TopK(k=given["k"], window=_window(given, ticks), **order)
    except QueryError as error:
        raise QueryError(f"query {name!r}: {error.found}", error.expected, error.fix) from None
    score = record.get("by")
    return name, query, None if score is None else str(score)


def _window(given: Mapping[str, Any], ticks: bool) -> Window:
    """The window of a query, of its fields."""
    length = given.get("window")
    names = ("cumulative", "all_time", "every", "slide", "offset", "full")
    fields = {name: given[name] for name in names if name in given}
    described = any(name in fields for name in ("cumulative", "all_time", "every"))
    if described or isinstance(length, Mapping):
        usual = {"full": False, "offset": 0}  # which a file may say of any query
        fields = {name: value for name, value in fields.items() if value != usual.get(name, ...)}
        if isinstance(length, Mapping) and fields:
            raise QueryError(
                f"{next(iter(fields))} beside a window that is described by fields",
                "all of it in window",
                "write window: {cumulative: 1 day, every: 1 minute}",
            )
        if isinstance(length, Mapping):
            return window_of_fields(length)
        return window_of_fields(fields if length is None else {"window": length, **fields})
    counted = isinstance(length, int) and not isinstance(length, bool) and not ticks
    return last(
        **{"count" if counted else "time": length},
        slide=given.get("slide"),
        offset=given.get("offset") or 0,
        full=_truth(given.get("full", False)),
    )


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise QueryError(f"full is {value!r}", "true or false")
    return value


def _text(source: Path) -> str:
    if not source.exists() or source.is_dir():
        raise QueryError(f"there is no file {str(source)!r}", "a file of queries, CSV or YAML")
    try:
        return source.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise QueryError(f"{source.name} is not text in UTF-8", "queries in CSV or YAML") from None
    except OSError as error:
        raise QueryError(f"{str(source)!r} cannot be read: {error.strerror}") from None


def _read(source: Path, cls: type[Workload], records: list[Any], ticks: bool) -> Workload:
    """The workload of a file; errors name the file."""
    try:
        return cls.of(records, ticks)
    except QueryError as error:
        raise QueryError(f"{source.name}: {error.found}", error.expected, error.fix) from None
