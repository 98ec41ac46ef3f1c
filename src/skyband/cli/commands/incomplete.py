"""``skyband incomplete``: the best objects of a file whose attributes came in several streams."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from typing_extensions import override

from skyband.cli import options
from skyband.cli.commands.file_query import Explanation, FileFacts, FileQuery, Given, QueryOptions
from skyband.cli.input import expressions
from skyband.cli.input.source import FileSource, literal
from skyband.cli.output.explanation import (
    UNKNOWN,
    about_bytes,
    held_in,
    opening_lines,
    per_window,
    shared_metrics,
)
from skyband.cli.output.leaderboard import Leaderboard
from skyband.errors import DataError, QueryError
from skyband.incomplete import ALGORITHMS, EXACT
from skyband.incomplete.query import Bounds, Repeats, TopKIncomplete

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.engine.adapter import AnyMonitor
    from skyband.spark.files import FileRanking
    from skyband.windows import Window

_BYTES = 500  # that a row takes which is kept by object, roughly
_PLAIN = 32  # of a row that is only kept

_DEFAULTS = {  # of the options by which ``explain`` knows the family, besides --id
    "stream": None,
    "value": None,
    "streams": None,
    "combine": "sum",
    "bounds": None,
    "outside": "error",
    "repeats": "max",
}
_FIXES = {  # the library's are in Python
    "combine": "write --combine sum, or a weight per stream, such as --combine 1,0.5",
    "scores": "check --combine and --bounds",
    "sums": "shift the values, or write --repeats max",
    "stream": "write --streams north,south",
}


@dataclass(frozen=True)
class IncompleteFileQuery(FileQuery):
    """A query over incomplete streams in a file, checked: values, and the places of streams."""

    nameless: int = 0  # rows without an id or a stream
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the algorithm

    @override
    def pushed(self, batch: pa.RecordBatch) -> Any:
        return batch.select(list(self.numbers))

    @override
    def monitor(self) -> Callable[..., AnyMonitor]:
        from skyband.engine.adapter import Adapter
        from skyband.incomplete.monitor import IncompleteMonitor

        return partial(Adapter, IncompleteMonitor, _columns, options=self.settings or None)

    @override
    def on_spark(self) -> FileRanking:
        from skyband.spark.families.incomplete.file import IncompleteFile

        return IncompleteFile(self.query, self.algorithm, bool(self.keys), self.settings)

    @override
    def note(self, board: Leaderboard) -> None:
        """Tell rows without a name from rows without a value, and what was noted of the streams."""
        null_values = board.dropped.null_score - self.nameless
        board.dropped = replace(board.dropped, null_score=null_values)
        if self.nameless:
            board.notes.append(f"not ranked: {self.nameless:,} with a NULL id or stream")
        board.notes += self.notes


def _columns(rows: Any, ids: Any) -> tuple[Any, ...]:
    """What an :class:`IncompleteMonitor` takes, of a record batch."""
    import numpy as np

    return ids, np.from_dlpack(rows.column("stream")).astype(np.int64), rows.column("value")


@dataclass(frozen=True)
class IncompleteFileOptions(QueryOptions):
    """The options of ``incomplete``.

    ``query`` is None if the streams are those of the file; ``make`` makes it of their names.
    ``bounds`` are those of streams by name; those of all others are under the empty name.
    """

    query: TopKIncomplete | None
    id: list[str]
    stream: str | None
    value: str | None
    bounds: dict[str, Bounds]
    window: Window
    emit: str
    make: Callable[[Sequence[str]], TopKIncomplete]
    settings: dict[str, int | float | str]

    option = "id"
    excludes = ("by", "queries", "key")
    ranked_by = "value"

    @classmethod
    @override
    def meant_by(cls, given: Given) -> bool:
        typed = any(given[name] != default for name, default in _DEFAULTS.items())
        return bool(given["id"]) or typed

    @classmethod
    @override
    def parse(cls, given: Given) -> Self:
        window = options.window_of(given)
        algorithm = options.choice(given["algorithm"], "--algorithm", ("auto", *ALGORITHMS))
        outside = options.choice(given["outside"], "--outside", ("error", "clip"))
        streams = None if given["streams"] is None else _names(given["streams"])
        k = options.whole(given["k"], "--k", example=10)
        combine, bounds = _combine(given["combine"]), _bounds(given["bounds"] or [])
        how: dict[str, Any] = {"combine": combine, "outside": outside}
        how |= {"repeats": _repeats(given["repeats"]), "emit": options.emit_of(given)}
        how |= options.order_of(given)
        settings = options.settings(given.get("option") or [])
        make = partial(_query, k, window, how, bounds)
        return cls(
            None,
            given["time"],
            given["partition_by"] or [],
            algorithm,
            None if streams is None else make(streams),
            given["id"] or [],
            given["stream"],
            given["value"],
            bounds,
            window,
            how["emit"],
            make,
            settings,
        )

    @property
    @override
    def changes(self) -> bool:
        return self.emit == "changes"

    @override
    def check(self, source: FileSource) -> IncompleteFileQuery:
        """Check the query against the file's columns, and its values against the bounds."""
        if not self.id or self.stream is None or self.value is None:
            raise QueryError(
                "--id, --stream or --value is missing",
                "all three",
                "add --id, --stream and --value",
            )
        value = expressions.score(source, self.value, "--value")
        (column,) = expressions.keys(source, [self.stream], "--stream")
        apart = expressions.keys(source, self.id, "--id")
        time, keys = self.time_and_keys(source, self.window)
        name = f"CAST({column.sql} AS VARCHAR)"
        no_id = " OR ".join(f"{one.sql} IS NULL" for one in apart)
        there = "true" if time is None else f"({time}) IS NOT NULL"
        streams = _streams(source, self.bounds, name, f"CAST(({value}\n) AS DOUBLE)", no_id, there)
        query = self.query or self.make(_names_in(source, self.stream, streams))
        _check_values(self.bounds, query, streams)
        places = " ".join(f"WHEN {literal(one)} THEN {at}" for at, one in enumerate(query.streams))
        known = ", ".join(map(literal, query.streams))
        checked = IncompleteFileQuery(
            query,
            self.algorithm,
            {
                "value": f"CASE WHEN {no_id} OR {name} IS NULL THEN NULL ELSE ({value}\n) END",
                "stream": f"CASE {name} {places} ELSE 0 END",
            },
            time,
            keys,
            tuple(apart),
            f"({name} IN ({known}) OR {name} IS NULL)",
            sum(
                one.nameless for one in streams if one.stream is None or one.stream in query.streams
            ),
            tuple(_notes(query, streams, self.algorithm)),
            self.settings,
        )
        if self.settings or self.algorithm != "auto":
            checked.monitor()(query, self.algorithm)  # which refuses what it does not know
        return checked

    @override
    def explain(self, facts: FileFacts | None) -> Explanation:
        from skyband.incomplete.monitor import IncompleteMonitor

        query = self.query if facts is None else facts.query.query
        if query is None:
            fix = "add --streams north,south"
            raise QueryError("neither FILE nor --streams", "the streams", fix)
        plan = IncompleteMonitor(query, self.algorithm, options=self.settings or None).plan
        rows = per_window(query.window, facts)
        per_row = _PLAIN if plan.algorithm == "recompute" else _BYTES
        most = None if rows is None else rows * per_row
        lines = opening_lines(self, query, facts, plan)
        pairs = list(zip(query.low.tolist(), query.high.tolist(), strict=True))
        for at, (low, high) in enumerate(dict.fromkeys(pairs)):
            both = zip(query.streams, pairs, strict=True)
            alike = [name for name, pair in both if pair == (low, high)]
            names = "all" if len(set(pairs)) == 1 else ", ".join(alike)
            lines.append(("" if at else "streams", f"{names}: values from {low:g} to {high:g}"))
        if facts is not None:
            lines += [("", note) for note in getattr(facts.query, "notes", ())]
        content = UNKNOWN
        if rows is not None and most is not None:
            whole = plan.algorithm in ("recompute", "sla")
            share = "all of them" if whole else "at most all of them"
            content = (
                f"{held_in(query.window, rows, 'rows')}; kept are {share}: {about_bytes(most)}"
            )
        metrics = {
            "id": ", ".join(self.id),
            "stream": self.stream,
            "value": self.value,
            "streams": ", ".join(query.streams),
            "bounds": ", ".join(f"{low:g}:{high:g}" for low, high in pairs),
            "repeats": query.repeats if isinstance(query.repeats, str) else f"sum:{query.most}",
            "state_bytes_most": most,
        }
        return Explanation(
            [*lines, ("rows", content)], metrics | shared_metrics(self, query, facts, plan)
        )


FAMILY = IncompleteFileOptions


def _query(
    k: int,
    window: Window,
    how: Mapping[str, Any],
    bounds: Mapping[str, Bounds],
    streams: Sequence[str],
) -> TopKIncomplete:
    """The query over these streams."""
    for name in bounds:
        if name and name not in streams:
            raise QueryError(f"--bounds of {name!r}", f"one of {', '.join(streams)}")
    each = {name: bounds.get(name, bounds.get("")) for name in streams}
    for name, pair in each.items():
        if pair is None:
            raise QueryError(
                f"no bounds of stream {name!r}", "bounds of each stream", "add --bounds 0:1"
            )
    everything: dict[str, Any] = {"bounds": each, **how}
    try:
        return TopKIncomplete(k, tuple(streams), window, **everything)
    except QueryError as error:
        words = (word for word in _FIXES if error.found.split()[0].startswith(word))
        fix = _FIXES.get(next(words, ""), error.fix)
        raise QueryError(error.found, error.expected, fix) from None


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise QueryError(
            f"--streams is {text!r}",
            "names with commas between them",
            "write --streams north,south",
        )
    return names


def _combine(text: str) -> str | tuple[float, ...]:
    if text in ("sum", "min", "max"):
        return text
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise QueryError(
            f"--combine is {text!r}", "sum, min, max, or a weight per stream", _FIXES["combine"]
        ) from None


def _bounds(texts: list[str]) -> dict[str, Bounds]:
    """Bounds such as ``0:130``, or ``north=0:130`` of one stream."""
    bounds: dict[str, Bounds] = {}
    for text in texts:
        name, _, pair = text.rpartition("=")
        try:
            low, high = map(float, pair.split(":"))
        except ValueError:
            low, high = math.nan, math.nan
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise QueryError(
                f"--bounds is {text!r}",
                "the lowest and the highest value",
                "write --bounds 0:1, or --bounds north=0:1 for one stream",
            )
        if name.strip() in bounds:
            raise QueryError(f"--bounds {text!r} comes after others of the same", "them once")
        bounds[name.strip()] = (low, high)
    return bounds or {"": (0.0, 1.0)}


def _repeats(text: str) -> Repeats:
    if text in ("max", "none"):
        return "max" if text == "max" else "none"
    how, _, most = text.partition(":")
    if how != "sum":
        raise QueryError(
            f"--repeats is {text!r}",
            "max, none, or sum and how many there are at most",
            "write --repeats max, or --repeats sum:3",
        )
    try:
        return "sum", options.whole(most, "--repeats sum")
    except QueryError:
        raise QueryError(
            f"--repeats is {text!r}", "how many there are at most", "write --repeats sum:3"
        ) from None


class _StreamFacts(NamedTuple):
    """What a stream of the file holds: rows, those without an id, values (NaN: none).

    The stream is None for rows that name none. ``outside`` counts values beyond the bounds.
    """

    stream: str | None
    rows: int
    nameless: int
    least: float
    most: float
    outside: int


def _streams(
    source: FileSource, bounds: Mapping[str, Bounds], name: str, value: str, no_id: str, there: str
) -> list[_StreamFacts]:
    """What each stream of the file holds, in the order of their names."""
    low, high = bounds.get("", (-math.inf, math.inf))
    lows, highs = f"'{low!r}'::DOUBLE", f"'{high!r}'::DOUBLE"
    for stream, (least, most) in bounds.items():
        if stream:
            lows = f"CASE name WHEN {literal(stream)} THEN '{least!r}'::DOUBLE ELSE {lows} END"
            highs = f"CASE name WHEN {literal(stream)} THEN '{most!r}'::DOUBLE ELSE {highs} END"
    beyond = f"there AND NOT isnan(it) AND (it < {lows} OR it > {highs})"
    rows = source.all(
        f"SELECT name, count(*), count(*) FILTER (there AND (nameless OR name IS NULL)), "
        f"coalesce(min(it) FILTER (NOT isnan(it)), 'nan'), "
        f"coalesce(max(it) FILTER (NOT isnan(it)), 'nan'), "
        f"count(*) FILTER ({beyond}) "
        f"FROM (SELECT {name} AS name, ({no_id}) AS nameless, {there} AS there, "
        f"CASE WHEN {no_id} OR {name} IS NULL THEN NULL ELSE {value} END AS it "
        f"FROM {source.scan}) GROUP BY name ORDER BY name NULLS FIRST"
    )
    return [_StreamFacts(*row) for row in rows]


def _names_in(source: FileSource, stream: str, streams: list[_StreamFacts]) -> tuple[str, ...]:
    names = tuple(one.stream for one in streams if one.stream is not None)
    if not names:
        raise DataError(
            f"--stream: {source.shown} names no stream in {stream!r}",
            "the name of a stream in each row",
            "name them: --streams north,south",
        )
    return names


def _check_values(
    bounds: Mapping[str, Bounds], query: TopKIncomplete, streams: list[_StreamFacts]
) -> None:
    """Refuse values outside of the bounds, if they are not to be clipped."""
    if query.outside == "clip":
        return
    valued = [one for one in streams if one.stream in query.streams and not math.isnan(one.least)]
    for one in valued:
        assert one.stream is not None
        at = query.streams.index(one.stream)
        low, high = float(query.low[at]), float(query.high[at])
        if low <= one.least and one.most <= high:
            continue
        named = one.stream in bounds
        alike = [one] if named else [other for other in valued if other.stream not in bounds]
        wide = [low, high, *(value for other in alike for value in (other.least, other.most))]
        fix = "write --outside clip"
        if all(map(math.isfinite, wide)):
            wider = f"{math.floor(min(wide))}:{math.ceil(max(wide))}"
            bound = quote(f"{one.stream}={wider}") if named else wider
            fix = f"write --bounds {bound}, or --outside clip"
        wrong = one.least if one.least < low else one.most
        raise DataError(
            f"a value of {wrong:g} in stream {one.stream!r}",
            f"values from {low:g} to {high:g}",
            fix,
        )


def _notes(query: TopKIncomplete, streams: list[_StreamFacts], algorithm: str) -> Iterator[str]:
    """What people should know about the rows of the file, and about the algorithm."""
    known = [one for one in streams if one.stream in query.streams]
    clipped = sum(one.outside for one in known)
    if clipped:
        yield f"clipped: {clipped:,} values outside of the bounds"
    others = sum(one.rows for one in streams if one.stream not in (None, *query.streams))
    if others:
        yield f"left out: {others:,} rows of other streams"
    for name in query.streams:
        if name not in {one.stream for one in known}:
            yield f"no rows: stream {name!r}"
    if algorithm not in ("auto", *EXACT):
        yield f"approximate: {algorithm} may miss some of the best objects"
