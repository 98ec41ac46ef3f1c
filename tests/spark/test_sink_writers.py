"""What PostgreSQL, Redis and Delta hold after batches: real servers, and batches made by hand."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import deltalake
import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from skyband import DataError, QueryError
from skyband.errors import ServerDownError
from skyband.spark.jobs import failures
from skyband.spark.sinks import patience
from skyband.spark.sinks import postgres as postgres_sink
from skyband.spark.sinks.delta import DeltaRankings
from skyband.spark.sinks.patience import Patience
from skyband.spark.sinks.postgres import PostgresTable, trouble
from skyband.spark.sinks.ranked_batch import END, PLACE, START, RankedLayout, storable_moments
from skyband.spark.sinks.redis_board import RedisBoards
from tests import servers

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Row = tuple[int, Any, int | None, Any, str | None]  # window, key, rank, score, id


def layout(
    emit: str = "all", key: Any = None, score: Any = None, **description: Any
) -> RankedLayout:
    """Rankings of windows of an hour that slide by a minute, by sector."""
    window = StructType([StructField(name, TimestampType()) for name in ("start", "end")])
    fields = [
        StructField("window", window),
        StructField("sector", key or StringType()),
        StructField("rank", LongType()),
        StructField("score", score or DoubleType()),
        StructField("id", StringType()),
    ]
    if emit == "updates":
        fields.append(StructField("revision", LongType()))
    return RankedLayout(
        {"windows": "time", "keys": ["sector"], "order": ["id"], "emit": emit, **description},
        StructType(fields),
    )


def table(layout: RankedLayout, rows: list[Row], revision: int = 1) -> pa.Table:
    """A batch as it comes from Spark."""
    ends = [NOON + timedelta(minutes=window) for window, *_ in rows]
    types = {"double": pa.float64(), "string": pa.string(), "bigint": pa.int64()}
    columns: dict[str, Any] = {
        START: pa.array([end - timedelta(hours=1) for end in ends], pa.timestamp("us", "UTC")),
        END: pa.array(ends, pa.timestamp("us", "UTC")),
        "sector": pa.array(
            [row[1] for row in rows], types[layout.schema["sector"].dataType.simpleString()]
        ),
        PLACE: pa.array([row[2] or 0 for row in rows], pa.int64()),
        "rank": pa.array([row[2] for row in rows], pa.int64()),
        "score": pa.array(
            [row[3] for row in rows], types[layout.schema["score"].dataType.simpleString()]
        ),
        "id": pa.array([row[4] for row in rows], pa.string()),
    }
    if layout.emit == "updates":
        columns["revision"] = pa.array([revision] * len(rows), pa.int64())
    return pa.table(columns)


@dataclass
class Board:
    """A sink of one kind, and what it holds: the window, key, place, score and id of each row."""

    write: Callable[[pa.Table, str | None, int], None]
    rows: Callable[[], list[tuple[Any, ...]]]


def postgres_board(url: str, name: str, layout: RankedLayout) -> Board:
    board = PostgresTable(url, f"t_{name}", "q", layout)
    board.prepare()
    board.prepare()  # what is there is as it should be

    def rows() -> list[tuple[Any, ...]]:
        text = f"SELECT window_end, sector, place, score, id FROM t_{name}"
        with psycopg.connect(url) as connection:
            return in_order(connection.execute(text).fetchall())

    return Board(board.write, rows)


def delta_board(path: Path, layout: RankedLayout) -> Board:
    def rows() -> list[tuple[Any, ...]]:
        there = deltalake.DeltaTable(str(path)).to_pyarrow_table().to_pylist()
        names = (END, "sector", PLACE, "score", "id")
        return in_order([tuple(row[name] for name in names) for row in there])

    return Board(DeltaRankings(str(path), layout, None).write, rows)


def in_order(rows: list[Any]) -> list[tuple[Any, ...]]:
    minutes = [(round((end - NOON).total_seconds() / 60), *others) for end, *others in rows]
    return sorted(minutes, key=lambda row: (row[0], str(row[1]), row[2]))


@pytest.fixture(params=["postgres", "delta"])
def make(request: pytest.FixtureRequest, tmp_path: Path, postgres: str) -> Callable[..., Board]:
    """Makes a board of a kind for a layout."""

    def make_board(layout: RankedLayout) -> Board:
        if request.param == "postgres":
            return postgres_board(postgres, f"{abs(hash(str(tmp_path)))}", layout)
        return delta_board(tmp_path / "table", layout)

    return make_board


def test_a_batch_that_comes_again_changes_nothing(make: Callable[..., Board]) -> None:
    plain = layout()
    board = make(plain)
    first: list[Row] = [(0, "a", 1, 9.0, "x"), (0, "a", 2, 8.0, "y"), (0, None, 1, math.inf, None)]
    second: list[Row] = [(1, "a", 1, 9.0, "x"), (1, "b", 1, 1.0, "z")]
    for rows, batch in ((first, 0), (first, 0), (second, 1), (first, 0), (second, 1)):
        board.write(table(plain, rows), "stream", batch)
    assert board.rows() == sorted(
        [*first, *second], key=lambda row: (row[0], str(row[1]), row[2] or 0)
    )


def test_rankings_of_updates_are_replaced_and_become_shorter(make: Callable[..., Board]) -> None:
    updates = layout("updates", key=DoubleType())
    board = make(updates)
    nan = math.nan
    board.write(
        table(
            updates,
            [
                *((0, 1.0, rank, 10.0 - rank, f"i{rank}") for rank in (1, 2, 3)),
                *((0, nan, rank, 10.0 - rank, f"n{rank}") for rank in (1, 2)),
                *((0, None, rank, 10.0 - rank, f"u{rank}") for rank in (1, 2)),
                (0, 2.0, 1, 5.0, "other"),
                (1, 1.0, 1, 9.0, "i1"),
                (1, 2.0, 1, 9.0, "i1"),
            ],
        ),
        "stream",
        0,
    )
    board.write(
        table(
            updates,
            [
                (0, 1.0, 1, 11.0, "new"),
                (0, nan, 1, 11.0, "new"),
                (0, None, None, None, None),
                (1, 1.0, 1, 9.5, "i1"),
                (1, 1.0, 2, 9.0, "i2"),
                (1, 2.0, None, None, None),
            ],
            revision=2,
        ),
        "stream",
        1,
    )
    board.write(table(updates, []), "stream", 2)
    assert repr(board.rows()) == repr(
        [
            (0, 1.0, 1, 11.0, "new"),
            (0, 2.0, 1, 5.0, "other"),
            (0, nan, 1, 11.0, "new"),
            (1, 1.0, 1, 9.5, "i1"),
            (1, 1.0, 2, 9.0, "i2"),
        ]
    )


def test_a_batch_job_replaces_what_it_wrote(make: Callable[..., Board]) -> None:
    plain = layout(score=LongType())
    board = make(plain)
    largest = (1 << 63) - 1
    board.write(table(plain, [(0, "a", 1, 3, "x"), (0, "b", 1, 3, "x")]), None, 0)
    board.write(table(plain, [(0, "a", 1, largest, "y")]), None, 0)
    assert board.rows() == [(0, "a", 1, largest, "y")]


def test_rows_of_others_are_refused(make: Callable[..., Board]) -> None:
    """A new checkpoint would write every row once more; a batch would replace those of a stream."""
    plain = layout()
    rows = table(plain, [(0, "a", 1, 1.0, "x")])
    board = make(plain)
    board.write(rows, "stream", 0)
    for stream in ("another", None):
        with pytest.raises(DataError, match="another checkpoint"):
            board.write(rows, stream, 0)
    assert len(board.rows()) == 1


def test_a_text_that_a_table_cannot_hold_stops_nothing(make: Callable[..., Board]) -> None:
    plain = layout()
    board = make(plain)
    board.write(table(plain, [(0, "a\0b", 1, 1.0, "x\0")]), "stream", 0)
    ((_, key, _, _, id),) = board.rows()
    assert (key.replace("\0", "\ufffd"), id.replace("\0", "\ufffd")) == ("a\ufffdb", "x\ufffd")


def test_a_table_with_other_keys_is_refused(postgres: str) -> None:
    """Its index makes other places unique: rows would replace the wrong ones."""
    postgres_board(postgres, "keyed", layout())
    others = layout(keys=[])
    with pytest.raises(QueryError, match="has no unique index on query, window_end, place"):
        PostgresTable(postgres, "t_keyed", "q", others).prepare()
    nobody = PostgresTable(postgres, "nobody.board", "q", layout())
    wait = Patience("PostgreSQL", 0, nobody.down, (psycopg.Error,))
    with pytest.raises(DataError, match=r'PostgreSQL does not take the rankings: schema "nobody"'):
        wait.call_once(nobody.prepare)


def test_a_table_may_have_columns_that_its_owner_fills(postgres: str) -> None:
    """A serial key, a default: they are NOT NULL, and a batch knows nothing of them."""
    plain = layout()
    board = postgres_board(postgres, "owned", plain)
    with psycopg.connect(postgres) as connection:
        connection.execute("ALTER TABLE t_owned ADD COLUMN number bigserial PRIMARY KEY")
        connection.execute("ALTER TABLE t_owned ADD COLUMN at timestamptz NOT NULL DEFAULT now()")
    board.write(table(plain, [(0, "a", 1, 1.0, "x")]), "s", 0)
    assert [row[4] for row in board.rows()] == ["x"]


def test_texts_that_look_like_escapes_stay_what_they_are() -> None:
    texts = pa.chunked_array([["\\u0000", "a\0b", None]])
    assert postgres_sink._storable(texts, is_json=False) == ["\\u0000", "a\ufffdb", None]
    values = ["\0", "\\u0000", "\\\0x\0"]
    texts = pa.chunked_array([[None, *map(json.dumps, values)]])
    none, *written = postgres_sink._storable(texts, is_json=True)
    assert none is None
    assert list(map(json.loads, written)) == ["\ufffd", "\\u0000", "\\\ufffdx\ufffd"]


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"dbname": "nowhere"}, 'has not the database of the url: .*"nowhere" does not exist'),
        ({"user": "nobody"}, 'refuses the login: .*role "nobody" does not exist'),
    ],
)
def test_a_login_that_is_refused_is_not_waited_for(
    postgres: str, part: dict[str, str], problem: str
) -> None:
    url = psycopg.conninfo.make_conninfo(postgres, **part)
    board = PostgresTable(url, "board", "q", layout())
    with pytest.raises(QueryError, match=f"PostgreSQL {problem}"):
        Patience("PostgreSQL", 60, board.down, (psycopg.Error,), trouble).call(board.prepare)


@pytest.mark.usefixtures("hurried")
def test_a_login_that_is_refused_in_a_run_is_waited_for(postgres: str) -> None:
    """Whoever checks logins may be away, or a password may be changing."""
    plain = layout()
    with psycopg.connect(postgres, autocommit=True) as owner:
        owner.execute("CREATE ROLE guest SUPERUSER LOGIN")
        url = psycopg.conninfo.make_conninfo(postgres, user="guest")
        board = postgres_board(url, "guest", plain)
        rows = PostgresTable(url, "t_guest", "q", plain)
        batch = table(plain, [(0, "a", 1, 1.0, "x")])
        owner.execute("ALTER ROLE guest NOLOGIN")
        with OnWarning(lambda: owner.execute("ALTER ROLE guest LOGIN")) as log:
            wait = Patience("PostgreSQL", 60, rows.down, (psycopg.Error,), trouble)
            wait.call(lambda: rows.write(batch, "s", 0))
    assert "is not permitted to log in" in log.messages[0]
    assert [row[4] for row in board.rows()] == ["x"]


def test_words_of_other_refused_logins() -> None:
    at = 'connection failed: connection to server at "h", port 1 failed: FATAL:  '
    for words in ('password authentication failed for user "me"', "no pg_hba.conf entry for host"):
        refused = postgres_sink._refused_login(at + words)
        assert str(refused).startswith(
            f"PostgreSQL refuses the login: {at}{words}; expected a user"
        )
    assert postgres_sink._refused_login(f"{at}the database system is starting up") is None


@pytest.mark.usefixtures("hurried")
def test_a_server_that_hangs_is_cut_off(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that is stopped, or waits for its storage; here it waits for a lock."""
    plain = layout()
    board = postgres_board(postgres, "hung", plain)
    hung = PostgresTable(postgres, "t_hung", "q", plain)
    batch = table(plain, [(0, "a", 1, 1.0, "x")])

    def write() -> None:
        hung.write(batch, "s", 0)

    wait = Patience("PostgreSQL", 60, hung.down, (psycopg.Error,), trouble)
    locks = ExitStack()
    for name, seconds, words in (
        ("_BATCH", 0.3, "PostgreSQL cannot be reached, trying again in"),
        ("_LOCK", 1, "PostgreSQL does not get on, trying again in"),
    ):
        blocker = locks.enter_context(psycopg.connect(postgres))
        blocker.execute("LOCK TABLE t_hung")
        with monkeypatch.context() as patched, OnWarning(lambda: None) as log:
            patched.setattr(postgres_sink, name, seconds)
            with pytest.raises(ServerDownError):
                Patience("PostgreSQL", 0.01, hung.down, (psycopg.Error,), trouble).call(write)
        assert any(message.startswith(words) for message in log.messages), log.messages
        locks.close()
    assert log.messages
    wait.call(write)
    assert [row[4] for row in board.rows()] == ["x"]


def test_only_the_last_report_of_a_batch_counts() -> None:
    updates = layout("updates")
    rows: list[Row] = [(0, "a", 1, 1.0, "x"), (0, "a", 2, 0.5, "y"), (0, "b", 1, 1.0, "z")]
    earlier = table(updates, rows, revision=1)
    later = table(updates, [(0, "a", 1, 2.0, "w")], revision=2)
    last = updates._newest_revisions(pa.concat_tables([earlier, later]))
    assert sorted(last["id"].to_pylist()) == ["w", "z"]


def test_a_table_of_other_types_is_refused(tmp_path: Path, postgres: str, spark: Any) -> None:
    plain, exact = layout(), layout(score=DecimalType(18, 2))
    postgres_board(postgres, "typed", plain)
    with pytest.raises(QueryError, match="column 'score' of table t_typed is double precision"):
        PostgresTable(postgres, "t_typed", "q", exact).prepare()
    delta_board(tmp_path / "typed", plain).write(table(plain, [(0, "a", 1, 1.0, "x")]), None, 0)
    with pytest.raises(QueryError, match=r"column 'score' of the table in .* is double"):
        DeltaRankings(str(tmp_path / "typed"), exact, None).check(spark)
    DeltaRankings(str(tmp_path / "typed"), plain, None).check(spark)


def shown(server: servers.RedisServer) -> dict[str, list[tuple[int, Any, str]]]:
    """The rows of each board that has some, by rank, as the sorted set and the hash agree."""
    client = server.client()
    boards = {}
    for name in client.zrange("b#boards", 0, -1):
        rows = {member: json.loads(row) for member, row in client.hgetall(f"{name}:rows").items()}
        assert set(client.zrange(name, 0, -1)) == set(rows)
        boards[name] = sorted((row["rank"], row["score"], row["id"]) for row in rows.values())
    return boards


def test_boards_of_redis_show_the_newest_window(redis: servers.RedisServer) -> None:
    plain = layout()
    boards = RedisBoards(redis.url, "b", plain, changes=100, expire=None)
    write = boards.write
    write(
        table(plain, [(0, "a:b", 1, 9.0, "x"), (0, None, 1, 8.0, "y"), (0, "c", 1, 1.0, "z")]),
        "s",
        0,
    )
    assert set(shown(redis)) == {"b:a%3Ab", "b:(null)", "b:c"}
    # minute 1: c has no row any more; minute 2: only a:b has
    write(table(plain, [(1, "a:b", 1, 9.0, "x"), (1, None, 1, 8.0, "y")]), "s", 1)
    assert set(shown(redis)) == {"b:a%3Ab", "b:(null)"}
    second: list[Row] = [(2, "a:b", 1, 9.5, "w"), (2, "a:b", 2, 9.0, "x"), (1, "c", 1, 1.0, "z")]
    write(table(plain, second), "s", 2)
    newest = {"b:a%3Ab": [(1, 9.5, "w"), (2, 9.0, "x")]}
    assert shown(redis) == newest
    client = redis.client()
    assert client.hget("b:c:window", "end") == (NOON + timedelta(minutes=2)).isoformat()
    changes = [(e["name"], e["change"]) for _, e in client.xrange("b:a%3Ab:changes")]
    assert changes == [("x", "entered"), ("w", "entered"), ("x", "moved")]
    assert [e["change"] for _, e in client.xrange("b:c:changes")][-1] == "left"
    write(table(plain, [(0, "a:b", 1, 1.0, "old")]), "s", 1)  # an old batch, once more
    assert shown(redis) == newest
    with pytest.raises(DataError, match="another checkpoint"):
        write(table(plain, [(0, "a:b", 1, 1.0, "old")]), "other", 0)


def test_a_batch_replaces_all_boards_but_not_those_of_a_stream(redis: servers.RedisServer) -> None:
    plain = layout()
    boards = RedisBoards(redis.url, "b", plain, changes=10, expire=None)
    boards.write(table(plain, [(0, "a", 1, 1.0, "x"), (5, "b", 1, 1.0, "x")]), None, 0)
    assert set(shown(redis)) == {"b:a", "b:b"}
    boards.write(table(plain, [(0, "a", 1, 2.0, "y")]), None, 0)
    assert shown(redis) == {"b:a": [(1, 2.0, "y")]}
    boards.write(table(plain, []), None, 0)
    assert shown(redis) == {}
    assert not redis.client().exists("b:a", "b:a:rows", "b:a:window", "b:b:window")
    streamed = RedisBoards(redis.url, "s", plain, changes=0, expire=None)
    streamed.write(table(plain, [(9, "a", 1, 1.0, "x")]), "stream", 7)
    with pytest.raises(DataError, match="board 's' is that of a batch, or of a stream"):
        streamed.write(table(plain, [(0, "a", 1, 1.0, "old")]), None, 0)


def test_a_board_of_all_time_has_no_start(redis: servers.RedisServer) -> None:
    plain = layout(window_kind="all_time")
    rows = table(plain, [(0, "a", 1, 1.0, "x")])
    at = rows.column_names.index(START)
    no_start = pa.nulls(len(rows), rows.schema.field(START).type)
    boards = RedisBoards(redis.url, "b", plain, changes=0, expire=None)
    boards.write(rows.set_column(at, START, no_start), "s", 0)
    assert shown(redis) == {"b:a": [(1, 1.0, "x")]}
    assert redis.client().hgetall("b:a:window") == {"end": NOON.isoformat(), "batch": "0"}


@pytest.mark.parametrize("moment", [-(1 << 56), 1 << 58])
def test_moments_that_clients_cannot_hold(moment: int, caplog: pytest.LogCaptureFixture) -> None:
    """A stream goes on without them, unless they are the place of a row."""
    times = pa.array([None, 0, moment], pa.timestamp("us", "UTC"))
    rows = pa.table({"ts": times, "n": [1, 2, 3]})
    written = storable_moments(rows, [START, END])
    assert written["ts"].to_pylist() == [None, datetime(1970, 1, 1, tzinfo=UTC), None]
    assert caplog.messages == [
        "column ts has 1 moment before the year 1 or after the year 9999: NULL is written"
    ]
    assert storable_moments(rows.slice(0, 2), [START, END]).equals(rows.slice(0, 2))
    fix = r"the key ts has a moment before .* begin a new checkpoint and a new sink, with a where="
    with pytest.raises(DataError, match=fix):
        storable_moments(rows, ["ts"])


def test_a_poisoned_record_stops_no_board(redis: servers.RedisServer) -> None:
    """A text with NUL, and a moment that no client can hold."""
    plain = layout()
    rows = table(plain, [(0, "a\0b", 1, 1.0, "x\0"), (0, "a\0b", 2, 0.5, "y")])
    rows = rows.append_column("ts", pa.array([1 << 58, 0], pa.timestamp("us", "UTC")))
    boards = RedisBoards(redis.url, "b", plain, changes=10, expire=None)
    boards.write(storable_moments(rows, (START, END, "sector")), "s", 0)
    assert shown(redis) == {"b:a%00b": [(1, 1.0, "x\0"), (2, 0.5, "y")]}
    written = redis.client().hgetall("b:a%00b:rows")
    moments = [json.loads(written[name])["ts"] for name in ("x\0", "y")]
    assert moments == [None, "1970-01-01T00:00:00+00:00"]


def test_scores_beyond_doubles_are_exact_in_the_rows(redis: servers.RedisServer) -> None:
    plain = layout(score=LongType())
    boards = RedisBoards(redis.url, "b", plain, changes=0, expire=60)
    largest = (1 << 53) + 1
    rows: list[Row] = [(0, "a", 1, largest, "x"), (0, "a", 2, largest - 1, "y")]
    boards.write(table(plain, rows), None, 0)
    assert shown(redis) == {"b:a": [(1, str(largest), "x"), (2, str(largest - 1), "y")]}
    assert redis.client().ttl("b:a") > 0


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_FIRST", 0.01)


class OnWarning(logging.Handler):
    """Does something when a server is first reported as down."""

    def __init__(self, action: Callable[[], None]) -> None:
        super().__init__()
        self.action = action
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        if len(self.messages) == 1:
            self.action()

    def __enter__(self) -> OnWarning:
        patience.LOG.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        patience.LOG.removeHandler(self)


@pytest.mark.usefixtures("hurried")
def test_a_server_that_was_stopped_is_waited_for(redis: servers.RedisServer) -> None:
    plain = layout()
    boards = RedisBoards(redis.url, "b", plain, changes=0, expire=None)
    wait = Patience("Redis", 60, boards.down)
    batch = table(plain, [(0, "a", 1, 1.0, "x")])
    redis.stop()
    with OnWarning(redis.start) as log:
        wait.call(lambda: boards.write(batch, "s", 0))
    assert "Redis cannot be reached, trying again" in log.messages[0]
    assert "Redis is there again after" in log.messages[-1]
    assert shown(redis) == {"b:a": [(1, 1.0, "x")]}


@pytest.mark.usefixtures("hurried")
def test_a_redis_that_is_full_shows_the_old_board_until_there_is_room(
    redis: servers.RedisServer,
) -> None:
    plain = layout()
    boards = RedisBoards(redis.url, "b", plain, changes=0, expire=None)
    boards.write(table(plain, [(0, "a", 1, 1.0, "x")]), "s", 0)
    client = redis.client()
    client.config_set("maxmemory", 1)
    newer = table(plain, [(1, "a", 1, 2.0, "y")])
    with pytest.raises(ServerDownError, match="maxmemory"):
        Patience("Redis", 0, boards.down).call(lambda: boards.write(newer, "s", 1))
    assert shown(redis) == {"b:a": [(1, 1.0, "x")]}
    with OnWarning(lambda: client.config_set("maxmemory", 0)):
        Patience("Redis", 60, boards.down).call(lambda: boards.write(newer, "s", 1))
    assert shown(redis) == {"b:a": [(1, 2.0, "y")]}


@pytest.mark.usefixtures("hurried")
def test_a_full_disk_of_postgres_leaves_no_half_batch(postgres: str) -> None:
    """The server says that its disk is full, in the middle of a batch."""
    plain = layout()
    board = postgres_board(postgres, "full", plain)
    table_of_rows = PostgresTable(postgres, "t_full", "q", plain)
    down, errors = table_of_rows.down, (psycopg.Error,)
    wait = Patience("PostgreSQL", 60, down, errors, trouble)
    with psycopg.connect(postgres) as connection:
        connection.execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "IF NEW.id = 'y' THEN RAISE 'no space left on device' USING ERRCODE = 'disk_full'; "
            "END IF; RETURN NEW; END $$"
        )
        connection.execute(
            "CREATE TRIGGER full_disk BEFORE INSERT ON t_full "
            "FOR EACH ROW EXECUTE FUNCTION full_disk()"
        )
    seen = []

    def free() -> None:
        seen.extend(board.rows())
        with psycopg.connect(postgres) as connection:
            connection.execute("DROP TRIGGER full_disk ON t_full")

    batch = table(plain, [(0, "a", 1, 2.0, "x"), (0, "a", 2, 1.0, "y")])
    with pytest.raises(ServerDownError, match="PostgreSQL has a full disk: no space") as error:
        Patience("PostgreSQL", 0, down, errors, trouble).call(
            lambda: table_of_rows.write(batch, "s", 0)
        )
    words = "the query stopped: PostgreSQL has a full disk: no space left on device; expected room"
    raised = RuntimeError(f"Traceback ...\nskyband.errors.ServerDownError: {error.value}")
    assert str(failures.reworded(raised, None)).startswith(words)
    with OnWarning(free) as log:
        wait.call(lambda: table_of_rows.write(batch, "s", 0))
    assert log.messages[0].startswith("PostgreSQL has a full disk, trying again in")
    assert seen == []
    assert board.rows() == [(0, "a", 1, 2.0, "x"), (0, "a", 2, 1.0, "y")]


@pytest.mark.usefixtures("hurried")
def test_a_postgres_that_was_stopped_is_waited_for() -> None:
    plain = layout()
    with servers.postgres_folder() as folder, ExitStack() as stack:
        url = stack.enter_context(servers.postgres(folder))
        board = postgres_board(url, "away", plain)
        table_of_rows = PostgresTable(url, "t_away", "q", plain)
        board.write(table(plain, [(0, "a", 1, 1.0, "x")]), "s", 0)
        stack.close()

        def start() -> None:
            assert stack.enter_context(servers.postgres(folder)) == url

        batch = table(plain, [(1, "a", 1, 2.0, "y")])
        with OnWarning(start) as log:
            wait = Patience("PostgreSQL", 60, table_of_rows.down)
            wait.call(lambda: table_of_rows.write(batch, "s", 1))
        assert "PostgreSQL cannot be reached" in log.messages[0]
        assert [row[4] for row in board.rows()] == ["x", "y"]


def test_waiting_ends_when_a_run_is_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ConnectionError("nobody is there")

    with OnWarning(patience.STOPPING.set), pytest.raises(ServerDownError, match="nobody is there"):
        Patience("Redis", 1e9, (ConnectionError,)).call(fail)
    patience.STOPPING.clear()


@pytest.mark.usefixtures("hurried")
def test_a_full_disk_leaves_a_delta_table_as_it_was(tmp_path: Path) -> None:
    """Files cannot grow: a commit is whole or not there."""
    import resource

    plain = layout()
    board = delta_board(tmp_path / "table", plain)
    board.write(table(plain, [(0, "a", 1, 1.0, "x")]), "s", 0)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    newer = table(plain, [(1, "a", rank, -float(rank), f"y{rank}") for rank in range(1, 500)])

    def free() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with OnWarning(free) as log:
            Patience("the Delta table", 60, (OSError,)).call(lambda: board.write(newer, "s", 1))
    finally:
        free()
    assert "the Delta table cannot be reached" in log.messages[0]
    assert len(board.rows()) == 500
