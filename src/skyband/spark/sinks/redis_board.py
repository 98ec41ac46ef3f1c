"""Redis: the present board of each key, replaced at once.

Of a board ``leaders`` with the key ``Energy`` there are

- ``leaders:Energy``: a sorted set, the names of the ranked rows by their scores;
- ``leaders:Energy:rows``: a hash, the row of each name as JSON, with its rank: Redis orders equal
  scores by name;
- ``leaders:Energy:window``: a hash, from when to when the board counts, and which batch wrote it;
- ``leaders:Energy:changes``: a stream of what entered, left or moved, if it is asked for.

``leaders#boards`` is a sorted set of all that have rows, by the ends of their windows, and
``leaders#written`` a hash that says which batch of which stream came last. A value of a key is
written as in a URL, so neither can be the board of a key.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from os import PathLike
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pyspark.sql import DataFrame
from pyspark.sql.types import DecimalType, LongType

from skyband.durations import microseconds
from skyband.errors import DataError, QueryError
from skyband.spark.sinks.patience import Patience
from skyband.spark.sinks.ranked_batch import (
    END,
    PLACE,
    START,
    BatchWriter,
    RankedLayout,
    batch_writer,
    checkpoint_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

_WRITTEN, _BOARDS = "#written", "#boards"
_NO_VALUE = "(null)"  # parentheses in values are escaped
_CONNECT_SECONDS, _ANSWER_SECONDS = 10, 60


def to_redis(
    leaders: DataFrame,
    url: str,
    board: str,
    *,
    checkpoint: str | PathLike[str] | None = None,
    changes: int = 0,
    expire: str | None = None,
    patience: str = "10 minutes",
) -> BatchWriter:
    """Make a writer that keeps the present board of each key in Redis, for ``foreachBatch``.

    The board is the ranking of the newest window of a key. All boards of a batch are replaced in
    one transaction, so nobody sees half of one; a batch that was written before, or is older,
    changes nothing. Where windows are of time and a key has no row in the newest one, its board is
    empty. The names in the sorted set are the ids of rows, or the keys of totals; without any,
    their places.

    ``url`` is as ``redis://host:6379/0``; ``checkpoint`` is that of the stream, None for a batch.
    ``changes`` adds a stream of what entered, left or moved, of about so many entries per board.
    With ``expire="1 hour"`` boards vanish if nothing renews them so long. ``patience`` says how
    long to wait for a server that is down.

    Example::

        write = to_redis(leaders, "redis://localhost", "leaders", checkpoint=checkpoint)
        leaders.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).start()
    """
    layout = RankedLayout.of(leaders)
    _check_emit(layout)
    where = checkpoint_of(leaders, checkpoint)
    seconds = None if expire is None else microseconds(expire, "expire") // 1_000_000
    if seconds == 0:
        raise QueryError(f"expire is {expire!r}", "a second or more")
    boards = RedisBoards(url, board, layout, changes, seconds)
    limit = microseconds(patience, "patience") / 1e6
    wait = Patience("Redis", limit, boards.down, (_client().RedisError,))
    wait.call_once(boards.prepare)

    return batch_writer(layout, where, wait, boards.write)


def _check_emit(layout: RankedLayout) -> None:
    if layout.emit == "changes":
        raise QueryError(
            "emit is 'changes' for a board in Redis",
            "emit='all' or 'updates': a board is a whole ranking",
            "leave emit out, and write changes=1000 for a stream of changes",
        )
    if layout.emit == "updates" and layout.description.get("open_windows") != "current":
        raise QueryError(
            "emit='updates' of all open windows for a board in Redis",
            "one window to show",
            "write open_windows='current'",
        )


@dataclass
class Board:
    """The ranking of one key in one window; ``index`` is the key that lists it among others."""

    start: Any
    end: Any
    revision: int
    final: bool = True
    index: str = ""
    scores: dict[str, float] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)


class RedisBoards:
    """The boards of all keys of a query."""

    def __init__(
        self, url: str, board: str, layout: RankedLayout, changes: int, expire: int | None
    ) -> None:
        self.url = url
        self.board = board
        self.layout = layout
        self.changes = changes
        self.expire = expire
        if not board:
            raise QueryError("board is empty", "a name for the board", "board='leaders'")
        # readers of JSON would round such scores
        self._score_is_text = isinstance(layout.schema["score"].dataType, (LongType, DecimalType))

    @property
    def down(self) -> tuple[type[Exception], ...]:
        """The errors that say that there is no server, or none that takes anything now."""
        errors = _client().exceptions
        return (
            *(errors.ConnectionError, errors.TimeoutError, errors.BusyLoadingError),
            *(errors.OutOfMemoryError, errors.ReadOnlyError, errors.MasterDownError),
        )

    def prepare(self) -> None:
        """Check that there is a server."""
        with self._connected() as server:
            server.ping()

    def write(self, ranked: pa.Table, stream: str | None, batch: int) -> None:
        """Replace the boards that a batch has rows of, all at once."""
        client = _client()
        newest = self._newest(ranked)
        written = f"{self.board}{_WRITTEN}"
        with self._connected() as server, server.pipeline(transaction=True) as commands:
            while True:
                try:
                    commands.watch(written)
                    if not self._is_next(commands.hgetall(written), stream, batch):
                        return
                    boards = self._not_older(commands, newest) if stream is not None else newest
                    emptied = self._emptied(commands, boards, replaces_all=stream is None)
                    before = {name: self._ranks(commands, name) for name in (*boards, *emptied)}
                    commands.multi()
                    for name, board in (boards | emptied).items():
                        self._replace(commands, name, board, before[name], batch)
                    commands.hset(written, mapping={"stream": stream or "", "batch": batch})
                    commands.execute()
                except client.WatchError:
                    continue
                return

    def _is_next(self, before: dict[str, str], stream: str | None, batch: int) -> bool:
        """Whether a batch comes after the last one that was written."""
        if not before:
            return True
        if before["stream"] != (stream or ""):
            raise DataError(
                f"board {self.board!r} is that of a batch, or of a stream with another checkpoint",
                "a board of its own for each stream, and for a batch",
                f"choose another board, or delete the key {self.board}{_WRITTEN}",
            )
        return stream is None or batch > int(before["batch"])

    def _newest(self, ranked: pa.Table) -> dict[str, Board]:
        """The ranking of the newest window of each key, by the name of its board."""
        boards: dict[str, Board] = {}
        for part in ranked.to_batches():
            for row in part.to_pylist():
                name = ":".join([self.board, *(_part(row[name]) for name in self.layout.groups)])
                board = boards.get(name)
                revision = row.get("revision") or 0
                if board is None or (row[END], revision) > (board.end, board.revision):
                    board = Board(row[START], row[END], revision, final=row.get("final", True))
                    board.index = self._index(row)
                    boards[name] = board
                if row[END] == board.end and row[PLACE]:
                    member = self._member(row, board)
                    board.scores[member] = float(row["score"])
                    board.rows[member] = self._row(row)
        return boards

    def _not_older(self, commands: Any, boards: dict[str, Board]) -> dict[str, Board]:
        """The boards whose windows do not end before those that are shown.

        With updates the window that is open was shown before, when an earlier one becomes final.
        """
        if self.layout.emit != "updates":
            return boards
        shown = {name: commands.zscore(board.index, name) for name, board in boards.items()}
        return {
            name: board
            for name, board in boards.items()
            if shown[name] is None or shown[name] <= _position(board.end)
        }

    def _index(self, row: dict[str, Any]) -> str:
        """The name of the index that a board is in: each query of a workload has one."""
        queries = [_part(row[name]) for name in self.layout.query_columns]
        return ":".join([self.board, *queries]) + _BOARDS

    def _emptied(
        self, commands: Any, boards: dict[str, Board], replaces_all: bool
    ) -> dict[str, Board]:
        """The boards of keys that have no row in the newest window.

        A batch has all boards there are. Of a stream, windows of time end for all keys alike, so a
        sliding one that was not reported for a key is empty. Other windows of time are, once all
        that the key had is before their start. Windows that count rows end for each key by itself.
        """
        newest: dict[str, Board] = {}
        for board in boards.values():
            if board.index not in newest or board.end > newest[board.index].end:
                newest[board.index] = board
        emptied: dict[str, Board] = {}
        if replaces_all:
            for index in {f"{self.board}{_BOARDS}", *newest}:
                for name in set(commands.zrange(index, 0, -1)) - boards.keys():
                    emptied[name] = Board(None, None, 0, index=index)
            return emptied
        if self.layout.emit != "all" or not self.layout.has_time_windows:
            return {}
        for index, board in newest.items():
            before = board.end if self.layout.slides else board.start
            if before is None:  # all time has no start
                continue
            names = commands.zrangebyscore(index, "-inf", f"({_position(before)}")
            names += [n for n, b in boards.items() if b.index == index and b.end < before]
            for name in names:
                if name not in boards or boards[name].end < before:
                    emptied[name] = Board(board.start, board.end, 0, index=index)
        return emptied

    def _member(self, row: dict[str, Any], board: Board) -> str:
        """The name of a row in the sorted set: its id, or its place."""
        ids = self.layout.ids
        values = [row[name] for name in ids] or [row[PLACE]]
        member = str(_plain(values[0])) if len(values) == 1 else ":".join(map(_part, values))
        return member if member not in board.rows else f"{member}#{row[PLACE]}"

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        beside = (START, END, PLACE, "revision", "final", *self.layout.groups)
        return {
            name: str(value) if name == "score" and self._score_is_text else _plain(value)
            for name, value in row.items()
            if name not in beside
        }

    def _ranks(self, commands: Any, name: str) -> dict[str, int]:
        """The ranks of the names of a board that is there, if changes are asked for."""
        rows = commands.hgetall(f"{name}:rows") if self.changes else {}
        return {member: json.loads(row)["rank"] for member, row in rows.items()}

    def _replace(
        self, commands: Any, name: str, board: Board, before: dict[str, int], batch: int
    ) -> None:
        keys = (name, f"{name}:rows", f"{name}:window")
        commands.delete(*keys)
        if board.rows:
            commands.zadd(name, board.scores)
            commands.hset(f"{name}:rows", mapping=_texts(board.rows))
            commands.zadd(board.index, {name: _position(board.end)})
        else:
            commands.zrem(board.index, name)
        window = {"end": _plain(board.end), "batch": batch}
        if board.start is not None:  # all time has none
            window["start"] = _plain(board.start)
        if self.layout.emit == "updates":
            window |= {"revision": board.revision, "final": int(board.final)}
        if board.end is not None:
            commands.hset(f"{name}:window", mapping=window)
        for change in _changes(before, board) if self.changes else ():
            entry = change if board.end is None else {"end": _plain(board.end), **change}
            commands.xadd(f"{name}:changes", entry, maxlen=self.changes, approximate=True)
        for key in keys if self.expire is not None else ():
            commands.expire(key, self.expire)

    def _connected(self) -> Any:
        client = _client()
        try:
            return client.Redis.from_url(
                self.url,
                decode_responses=True,
                socket_connect_timeout=_CONNECT_SECONDS,
                socket_timeout=_ANSWER_SECONDS,
            )
        except ValueError as error:
            raise QueryError(
                f"the url of Redis cannot be read: {error}", "redis://host:6379/0"
            ) from None


def _changes(before: dict[str, int], board: Board) -> Iterator[dict[str, Any]]:
    """What entered, left or moved."""
    for member, row in board.rows.items():
        previous = before.get(member)
        if previous is None:
            yield {"name": member, "change": "entered", "rank": row["rank"]}
        elif previous != row["rank"]:
            yield {
                "name": member, "change": "moved", "rank": row["rank"], "previous_rank": previous
            }  # fmt: skip
    for member in before.keys() - board.rows.keys():
        yield {"name": member, "change": "left", "previous_rank": before[member]}


def _client() -> Any:
    try:
        import redis
    except ImportError:
        raise QueryError(
            "the package redis is not installed",
            "the client of Redis",
            'pip install "skyband[redis]"',
        ) from None
    return redis


def _part(value: Any) -> str:
    """A value as a part of a key."""
    return _NO_VALUE if value is None else quote(str(_plain(value)), safe=" ")


def _position(end: Any) -> float:
    """The end of a window as a score of Redis."""
    if isinstance(end, datetime):
        return (end if end.tzinfo is not None else end.replace(tzinfo=UTC)).timestamp()
    return float(end)


def _plain(value: Any) -> Any:
    """A value as JSON and Redis take it."""
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, (int, float, str, bool)) or value is None else str(value)


def _texts(rows: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {member: json.dumps(row) for member, row in rows.items()}
