"""``skyband incomplete``: the best objects of a file whose attributes came in several streams."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from skyband.cli import expressions, objects, options, progress, ranking, top
from skyband.cli.leaderboard import Leaderboard
from skyband.cli.reading import Source, literal
from skyband.engine.adapter import Adapter, AnyMonitor
from skyband.errors import DataError, QueryError
from skyband.incomplete import ALGORITHMS, EXACT
from skyband.incomplete.query import Bounds, Repeats, TopKIncomplete

if TYPE_CHECKING:
    from skyband.query import Emit
    from skyband.windows import Window

_FIXES = {  # the library's are in Python
    "combine": "write --combine sum, or a weight per stream, such as --combine 1,0.5",
    "scores": "check --combine and --bounds",
    "sums": "shift the values, or write --repeats max",
    "stream": "write --streams north,south",
}


@dataclass(frozen=True)
class Asked:
    """What ``incomplete`` and ``explain --id`` ask, in the words of the command line.

    ``streams`` is None if they are those of the file. ``bounds`` are those of streams by name;
    those of all others are under the empty name.
    """

    id: list[str]
    stream: str | None
    value: str | None
    streams: tuple[str, ...] | None
    k: int
    window: Window
    combine: str | tuple[float, ...]
    bounds: dict[str, Bounds]
    outside: Literal["error", "clip"]
    repeats: Repeats
    emit: Emit
    time: str | None
    partition_by: list[str]
    algorithm: str
    options: dict[str, int | float | str]

    def bounds_of(self, stream: str) -> Bounds | None:
        """The bounds of a stream, None if there are none."""
        return self.bounds.get(stream, self.bounds.get(""))

    def query(self, streams: Sequence[str]) -> TopKIncomplete:
        """The query over these streams."""
        bounds = {name: self.bounds_of(name) for name in streams}
        for name in self.bounds:
            if name and name not in streams:
                raise QueryError(f"--bounds of {name!r}", f"one of {', '.join(streams)}")
        for name, pair in bounds.items():
            if pair is None:
                raise QueryError(
                    f"no bounds of stream {name!r}", "bounds of each stream", "add --bounds 0:1"
                )
        how: dict[str, Any] = {"combine": self.combine, "bounds": bounds}
        how |= {"outside": self.outside, "repeats": self.repeats, "emit": self.emit}
        try:
            return TopKIncomplete(self.k, tuple(streams), self.window, **how)
        except QueryError as error:
            words = (word for word in _FIXES if error.found.split()[0].startswith(word))
            fix = _FIXES.get(next(words, ""), error.fix)
            raise QueryError(error.found, error.expected, fix) from None


class Words(NamedTuple):
    """How objects are made of rows, as it was typed."""

    id: list[str]
    stream: str | None
    value: str | None
    streams: str | None
    combine: str
    bounds: list[str]
    outside: str
    repeats: str


def asked(
    words: Words,
    k: str,
    window: Window,
    emit: str,
    time: str | None,
    partition_by: list[str] | None,
    algorithm: str,
    settings: list[str] | None = None,
) -> Asked:
    """Check what the options ask for, before any file is opened."""
    options.choice(algorithm, "--algorithm", ("auto", *ALGORITHMS))
    outside = options.choice(words.outside, "--outside", ("error", "clip"))
    streams = None if words.streams is None else _names(words.streams)
    found = Asked(
        words.id,
        words.stream,
        words.value,
        streams,
        options.whole(k, "--k", example=10),
        window,
        _combine(words.combine),
        _bounds(words.bounds),
        "clip" if outside == "clip" else "error",
        _repeats(words.repeats),
        options.emitted(emit),
        time,
        partition_by or [],
        algorithm,
        options.settings(settings or []),
    )
    if streams is not None:
        found.query(streams)
    return found


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
    found: dict[str, Bounds] = {}
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
        if name.strip() in found:
            raise QueryError(f"--bounds {text!r} comes after others of the same", "them once")
        found[name.strip()] = (low, high)
    return found or {"": (0.0, 1.0)}


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


@dataclass(frozen=True)
class Question(objects.Question):
    """A query over incomplete streams in a file, checked: SQL for values and streams."""

    query: TopKIncomplete  # type: ignore[assignment]
    stream: str = ""
    nameless: int = 0  # rows without an id or a stream
    notes: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def numbers(self) -> dict[str, str]:
        """Values, and the places of their streams in the query."""
        return {"value": self.score, "stream": self.stream}

    def monitor(self) -> Callable[..., AnyMonitor]:
        """What answers the query."""
        from skyband.incomplete.monitor import IncompleteMonitor

        return partial(Adapter, IncompleteMonitor, _columns, options=self.options or None)


def _columns(rows: Any, ids: Any) -> tuple[Any, ...]:
    """What an :class:`IncompleteMonitor` takes, of a record batch."""
    import numpy as np

    return ids, np.from_dlpack(rows.column("stream")).astype(np.int64), rows.column("value")


class Found(NamedTuple):
    """What a stream of the file holds: rows, those without an id, values (NaN: none).

    The stream is None for rows that name none. ``outside`` counts values beyond the bounds.
    """

    stream: str | None
    rows: int
    nameless: int
    least: float
    most: float
    outside: int


def question(source: Source, asked: Asked) -> Question:
    """Check what is asked against the file's columns, and its values against the bounds."""
    if not asked.id or asked.stream is None or asked.value is None:
        raise QueryError(
            "--id, --stream or --value is missing", "all three", "add --id, --stream and --value"
        )
    value = expressions.score(source, asked.value, "--value")
    (column,) = expressions.keys(source, [asked.stream], "--stream")
    apart = expressions.keys(source, asked.id, "--id")
    time, keys = top.time_and_keys(source, asked.time, asked.window, asked.partition_by)
    name = f"CAST({column.quoted} AS VARCHAR)"
    no_id = " OR ".join(f"{one.quoted} IS NULL" for one in apart)
    there = "true" if time is None else f"({time}) IS NOT NULL"
    found = _streams(source, asked, name, f"CAST(({value}\n) AS DOUBLE)", no_id, there)
    streams = asked.streams or _those_found(source, asked, found)
    query = asked.query(streams)
    _check_values(asked, query, found)
    places = " ".join(f"WHEN {literal(one)} THEN {at}" for at, one in enumerate(query.streams))
    known = ", ".join(map(literal, query.streams))
    checked = Question(
        query,
        asked.algorithm,
        f"CASE WHEN {no_id} OR {name} IS NULL THEN NULL ELSE ({value}\n) END",
        time,
        keys,
        tuple(apart),
        f"({name} IN ({known}) OR {name} IS NULL)",
        f"CASE {name} {places} ELSE 0 END",
        sum(one.nameless for one in found if one.stream is None or one.stream in streams),
        (*_notes(query, found), *_doubts(asked.algorithm)),
        asked.options,
    )
    if asked.options or asked.algorithm != "auto":
        checked.monitor()(query, asked.algorithm)  # which refuses what it does not know
    return checked


def _streams(
    source: Source, asked: Asked, name: str, value: str, no_id: str, there: str
) -> list[Found]:
    """What each stream of the file holds, in the order of their names."""
    low, high = asked.bounds.get("", (-math.inf, math.inf))
    lows, highs = f"'{low!r}'::DOUBLE", f"'{high!r}'::DOUBLE"
    for own, (least, most) in asked.bounds.items():
        if own:
            lows = f"CASE name WHEN {literal(own)} THEN '{least!r}'::DOUBLE ELSE {lows} END"
            highs = f"CASE name WHEN {literal(own)} THEN '{most!r}'::DOUBLE ELSE {highs} END"
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
    return [Found(*row) for row in rows]


def _those_found(source: Source, asked: Asked, found: list[Found]) -> tuple[str, ...]:
    streams = tuple(one.stream for one in found if one.stream is not None)
    if not streams:
        raise DataError(
            f"--stream: {source.shown} names no stream in {asked.stream!r}",
            "the name of a stream in each row",
            "name them: --streams north,south",
        )
    return streams


def _check_values(asked: Asked, query: TopKIncomplete, found: list[Found]) -> None:
    """Refuse values outside of the bounds, if they are not to be clipped."""
    if query.outside == "clip":
        return
    held = [one for one in found if one.stream in query.streams and not math.isnan(one.least)]
    for one in held:
        assert one.stream is not None
        at = query.streams.index(one.stream)
        low, high = float(query.low[at]), float(query.high[at])
        if low <= one.least and one.most <= high:
            continue
        own = one.stream in asked.bounds
        alike = [one] if own else [other for other in held if other.stream not in asked.bounds]
        wide = [low, high, *(value for other in alike for value in (other.least, other.most))]
        fix = "write --outside clip"
        if all(map(math.isfinite, wide)):
            bounds = f"{math.floor(min(wide))}:{math.ceil(max(wide))}"
            fix = f"write --bounds {one.stream + '=' if own else ''}{bounds}, or --outside clip"
        wrong = one.least if one.least < low else one.most
        raise DataError(
            f"a value of {wrong:g} in stream {one.stream!r}",
            f"values from {low:g} to {high:g}",
            fix,
        )


def _notes(query: TopKIncomplete, found: list[Found]) -> Iterator[str]:
    """What people should know about the rows of the file."""
    known = [one for one in found if one.stream in query.streams]
    clipped = sum(one.outside for one in known)
    if clipped:
        yield f"clipped: {clipped:,} values outside of the bounds"
    others = sum(one.rows for one in found if one.stream is not None) - sum(
        one.rows for one in known
    )
    if others:
        yield f"left out: {others:,} rows of other streams"
    for name in query.streams:
        if name not in {one.stream for one in known}:
            yield f"no rows: stream {name!r}"


def _doubts(algorithm: str) -> Iterator[str]:
    if algorithm not in ("auto", *EXACT):
        yield f"approximate: {algorithm} may miss some of the best objects"


def run(file: str, asked: Asked, engine: top.Engine, format: str | None, out: str | None) -> None:
    """Read a file, rank the objects of its windows, print them."""
    checked: Question

    def answer(source: Source) -> Leaderboard:
        nonlocal checked
        checked = question(source, asked)
        if engine.runs_spark(file):
            from skyband.cli import on_spark

            board = on_spark.rank_incomplete(source, checked, engine.master)
        else:
            with progress.rows_done("ranking", source.known_rows) as watch:
                board = ranking.rank(source, checked, watch)
        named = board.dropped.null_score - checked.nameless
        board.dropped = replace(board.dropped, null_score=named)
        if checked.nameless:
            board.notes.append(f"not ranked: {checked.nameless:,} with a NULL id or stream")
        board.notes += checked.notes
        return board

    format = top.chosen_format(format, out, file)
    changes = asked.emit == "changes"
    top.printed(
        file,
        answer,
        format,
        out,
        asked.partition_by,
        changes,
        "value",
        lambda source, objects: checked.cells(source, objects),
    )
