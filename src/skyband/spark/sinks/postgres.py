"""PostgreSQL: ranked windows in a table, each batch in one transaction, exactly once."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from skyband.durations import microseconds
from skyband.errors import DataError, QueryError
from skyband.spark.sinks.patience import LOG, UNREACHABLE, Patience, Trouble
from skyband.spark.sinks.ranked_batch import (
    PLACE,
    BatchWriter,
    OutputColumn,
    RankedLayout,
    batch_writer,
    checkpoint_of,
)

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa
    from psycopg import sql

NAME, BATCHES = "query", "skyband_batches"
_LOCK, _STATEMENT, _BATCH = 60, 1800, 3600  # seconds until they count as hanging
_WORD = 60.0  # seconds of a batch until the log says so, again and again
_CONNECTION = {
    "connect_timeout": 10,  # seconds
    # a machine that is gone says nothing
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 6,
    "tcp_user_timeout": 90_000,  # milliseconds
}
_NO_LOGIN = re.compile(
    r"(?i)authentication failed|no password supplied|no pg_hba\.conf entry|pg_hba\.conf rejects"
    r'|role ".*" does not exist|not permitted to log in|permission denied for database'
    r"|server does not support SSL"
)
_NO_DATABASE = re.compile(r'database ".*" does not exist')
_NUL_IN_JSON = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")  # not after an escaped backslash
_REPLACEMENT = "\ufffd"
_OLDEST_SERVER = 15  # the first that can say that NULL is one value among keys

_TYPES: dict[type[DataType], str] = {
    ByteType: "smallint",
    ShortType: "smallint",
    IntegerType: "integer",
    LongType: "bigint",
    FloatType: "real",
    DoubleType: "double precision",
    StringType: "text",
    BooleanType: "boolean",
    BinaryType: "bytea",
    DateType: "date",
    TimestampType: "timestamp with time zone",
    TimestampNTZType: "timestamp without time zone",
}


def to_postgres(
    leaders: DataFrame,
    url: str,
    table: str,
    *,
    name: str,
    checkpoint: str | PathLike[str] | None = None,
    patience: str = "10 minutes",
) -> BatchWriter:
    """Make a writer of ranked windows into a table of PostgreSQL, for ``foreachBatch``.

    The rows of a batch and its number are written in one transaction, so each batch counts once,
    also if it is run again after a crash. A row replaces the one of the same ``name``, window end,
    keys and place in the ranking. The table is made if there is none, and checked if there is:
    before anything runs.

    ``url`` is as ``postgresql://user@host/database``; ``name`` tells the rows of this query from
    those of others in the table; ``checkpoint`` is that of the stream, None for a batch.
    ``patience`` says how long to wait for a server that is down.

    Example::

        write = to_postgres(leaders, url, "board", name="trades", checkpoint=checkpoint)
        leaders.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).start()
    """
    layout = RankedLayout.of(leaders)
    where = checkpoint_of(leaders, checkpoint)
    board = PostgresTable(url, table, name, layout)
    limit = microseconds(patience, "patience") / 1e6
    wait = Patience("PostgreSQL", limit, board.down, (_client().Error,), trouble)
    wait.call_once(board.prepare)

    return batch_writer(layout, where, wait, board.write)


def trouble(error: Exception) -> Trouble:
    """Why the server is waited for: it cannot be reached, or it answers that it cannot go on."""
    state = getattr(error, "sqlstate", None) or ""
    if state == "53100":
        return Trouble("has a full disk", "room on the disk of its server", "make room there")
    if state in ("55P03", "57014"):
        return Trouble("does not get on", "a server that writes", "see what holds its locks")
    return UNREACHABLE


@contextmanager
def watched(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Say in the log that a batch takes long, and cut the connection to a server that hangs.

    A server that is stopped, or whose storage is, keeps no time itself, and its machine answers
    for it: the client would wait for ever. What was not committed is written again.
    """
    ended = threading.Event()
    descriptor = os.dup(connection.fileno())

    def watch() -> None:
        waited = 0.0
        while not ended.wait(min(_WORD, _BATCH)):
            waited += min(_WORD, _BATCH)
            LOG.warning("PostgreSQL is at a batch for %.0f seconds", waited)
            if waited >= _BATCH:
                with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as line:
                    line.shutdown(socket.SHUT_RDWR)
                return

    watching = threading.Thread(target=watch, name="skyband postgres", daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()
        os.close(descriptor)


class PostgresTable:
    """A table of ranked windows, and beside it the number of the last batch of each stream."""

    def __init__(self, url: str, table: str, name: str, layout: RankedLayout) -> None:
        self.url = url
        self.table = table
        self.name = name
        self.layout = layout
        if not name:
            raise QueryError("name is empty", "a name for the rows of this query", "name='trades'")
        if not table or len(table.split(".")) > 2:
            raise QueryError(f"table is {table!r}", "a table, or schema.table", "table='board'")
        if self._name_column in (column.name for column in layout.columns):
            raise QueryError(
                f"the result has a column {self._name_column!r}, which the table needs for itself",
                "another name",
                "rename it before top_k",
            )

    @property
    def down(self) -> tuple[type[Exception], ...]:
        """The errors that say that there is no server, or none any more."""
        return (_client().OperationalError,)

    @property
    def _name_column(self) -> str:
        """The column of the name: queries of a workload have one of their own."""
        return "job" if NAME in self.layout.groups else NAME

    @property
    def columns(self) -> tuple[OutputColumn, ...]:
        """All columns of the table."""
        return (OutputColumn(self._name_column, StringType()), *self.layout.columns)

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns of which no two rows of the table agree."""
        return (self._name_column, *self.layout.identity)

    def prepare(self) -> None:
        """Make the table, or check the one that is there."""
        with self._connected(begins=True) as connection, watched(connection):
            self._limit(connection)
            version = connection.info.server_version // 10_000
            if version < _OLDEST_SERVER:
                raise QueryError(
                    f"PostgreSQL {version}",
                    f"PostgreSQL {_OLDEST_SERVER} or newer",
                    "update the server",
                )
            there = self._columns_there(connection)
            if there:
                self._check(there)
                self._check_index(connection)
            else:
                self._make(connection)
            if not self._exists(connection, self._batches):
                self._make_batches(connection)

    def _columns_there(self, connection: psycopg.Connection[Any]) -> dict[str, str]:
        rows = connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
            [self._identifier.as_string(connection)],
        )
        return dict(rows.fetchall())

    def _check(self, there: dict[str, str]) -> None:
        """Refuse a table whose columns are not those of the query."""
        for column in self.columns:
            wanted, type = _sql_type(column), there.get(column.name)
            if type is None:
                raise QueryError(
                    f"table {self.table} has no column {column.name!r}",
                    f"a column of {wanted}",
                    f"name another table, or ALTER TABLE {self.table} ADD COLUMN",
                )
            if type != wanted:
                raise QueryError(
                    f"column {column.name!r} of table {self.table} is {type}",
                    wanted,
                    "name another table: the query has other types than it",
                )

    def _check_index(self, connection: psycopg.Connection[Any]) -> None:
        """Refuse a table in which places are not unique: rows could not replace each other."""
        unique = connection.execute(
            "SELECT 1 FROM pg_index AS i WHERE i.indrelid = to_regclass(%s) AND i.indisunique "
            "AND i.indnullsnotdistinct AND (SELECT array_agg(a.attname::text ORDER BY k.at) "
            "FROM unnest(i.indkey) WITH ORDINALITY AS k(number, at) JOIN pg_attribute AS a "
            "ON a.attrelid = i.indrelid AND a.attnum = k.number) = %s::text[]",
            [self._identifier.as_string(connection), list(self.identity)],
        ).fetchone()
        if unique is None:
            places = ", ".join(self.identity)
            raise QueryError(
                f"table {self.table} has no unique index on {places}",
                "one that treats NULLs as equal: a row replaces the one at its place",
                f"name another table, or CREATE UNIQUE INDEX ON {self.table} ({places}) "
                "NULLS NOT DISTINCT",
            )

    def _exists(self, connection: psycopg.Connection[Any], table: sql.Identifier) -> bool:
        name = table.as_string(connection)
        row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [name]).fetchone()
        return row is not None and bool(row[0])

    def _make(self, connection: psycopg.Connection[Any]) -> None:
        from psycopg import sql

        columns = [
            sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(_sql_type(column)))
            for column in self.columns
        ]
        table = sql.SQL("CREATE TABLE {} ({})").format(self._identifier, _listed(columns))
        index = sql.SQL("CREATE UNIQUE INDEX ON {} ({}) NULLS NOT DISTINCT")
        connection.execute(table)
        connection.execute(index.format(self._identifier, _names(self.identity)))

    def _make_batches(self, connection: psycopg.Connection[Any]) -> None:
        from psycopg import sql

        columns = "board text, name text, stream text, batch bigint, PRIMARY KEY (board, name)"
        connection.execute(
            sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(self._batches, sql.SQL(columns))
        )

    @property
    def _identifier(self) -> sql.Identifier:
        from psycopg import sql

        return sql.Identifier(*self.table.split("."))

    @property
    def _batches(self) -> sql.Identifier:
        from psycopg import sql

        return sql.Identifier(*self.table.split(".")[:-1], BATCHES)

    def write(self, ranked: pa.Table, stream: str | None, batch: int) -> None:
        """Write a batch and its number in one transaction, unless it was written before."""
        from psycopg import sql

        with self._connected() as connection, watched(connection):
            self._limit(connection)
            if not self._is_next(connection, stream, batch):
                return
            if stream is None:
                mine = sql.SQL("DELETE FROM {} WHERE {} = %s").format(
                    self._identifier, sql.Identifier(self._name_column)
                )
                connection.execute(mine, [self.name])
            self._copy(connection, ranked)
            if self.layout.emit == "updates":
                self._delete_places_beyond(connection)
            connection.execute(self._upsert())
            connection.commit()  # watched, for that is where storage hangs

    def _limit(self, connection: psycopg.Connection[Any]) -> None:
        """Let the server give up what hangs, unless it or the url has limits of its own."""
        limits = {"lock_timeout": _LOCK, "statement_timeout": _STATEMENT}
        for name, seconds in limits.items():
            connection.execute(
                "SELECT set_config(%s, %s, true) WHERE current_setting(%s) = '0'",
                [name, f"{seconds}s", name],
            )

    def _is_next(self, connection: psycopg.Connection[Any], stream: str | None, batch: int) -> bool:
        """Note the number of a batch; False if the same stream has written it before."""
        from psycopg import sql

        key = [self.table, self.name]
        insert = sql.SQL("INSERT INTO {} VALUES (%s, %s, %s, -1) ON CONFLICT DO NOTHING")
        connection.execute(insert.format(self._batches), [*key, stream])
        select = "SELECT stream, batch FROM {} WHERE board = %s AND name = %s FOR UPDATE"
        before = connection.execute(sql.SQL(select).format(self._batches), key).fetchone()
        assert before is not None
        if before[0] != stream:
            raise DataError(
                f"table {self.table} holds rows of another checkpoint under the name {self.name!r}",
                "a name of its own for each stream",
                "choose another name, or delete those rows and their line in skyband_batches",
            )
        if stream is not None and batch <= before[1]:
            return False
        update = sql.SQL("UPDATE {} SET batch = %s WHERE board = %s AND name = %s")
        connection.execute(update.format(self._batches), [batch, *key])
        return True

    def _copy(self, connection: psycopg.Connection[Any], ranked: pa.Table) -> None:
        """Bring the rows into a table of this transaction."""
        from psycopg import sql

        names = [column.name for column in self.columns]
        # of a table that others made only our columns: theirs may be NOT NULL, with a default
        make = "CREATE TEMPORARY TABLE skyband_batch ON COMMIT DROP AS SELECT {} FROM {} "
        empty = sql.SQL(make + "WITH NO DATA").format(_names(names), self._identifier)
        connection.execute(empty)
        text = sql.SQL("COPY skyband_batch ({}) FROM STDIN").format(_names(names))
        with connection.cursor() as cursor, cursor.copy(text) as copy:
            for part in ranked.to_batches():
                columns = [_storable(part.column(c.name), c.nested) for c in self.columns[1:]]
                for row in zip(*columns, strict=True):
                    copy.write_row((self.name, *row))

    def _delete_places_beyond(self, connection: psycopg.Connection[Any]) -> None:
        """Delete what a ranking that became shorter had beyond its end."""
        from psycopg import sql

        ranking = self.identity[:-1]
        same = sql.SQL(" AND ").join(
            sql.SQL("board.{0} IS NOT DISTINCT FROM now.{0}").format(sql.Identifier(name))
            for name in ranking
        )
        place = sql.Identifier(PLACE)
        connection.execute(
            sql.SQL(
                "DELETE FROM {} AS board USING (SELECT {}, max({}) AS places FROM skyband_batch "
                "GROUP BY {}) AS now WHERE {} AND board.{} > now.places"
            ).format(self._identifier, _names(ranking), place, _names(ranking), same, place)
        )
        connection.execute(sql.SQL("DELETE FROM skyband_batch WHERE {} = 0").format(place))

    def _upsert(self) -> sql.Composed:
        from psycopg import sql

        names = [column.name for column in self.columns]
        others = [name for name in names if name not in self.identity]
        sets = [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in others]
        return sql.SQL(
            "INSERT INTO {} ({}) SELECT {} FROM skyband_batch ON CONFLICT ({}) DO UPDATE SET {}"
        ).format(
            *(self._identifier, _names(names), _names(names)),
            *(_names(self.identity), _listed(sets)),
        )

    def _connected(self, begins: bool = False) -> psycopg.Connection[Any]:
        """A connection whose block is one transaction.

        A login that is refused when a run ``begins`` is a mistake. Later it is waited for, like a
        server that is down: whoever checks logins may be away, or a password may be changing.
        """
        client = _client()
        try:
            options = client.conninfo.conninfo_to_dict(self.url)
            connection: psycopg.Connection[Any] = client.connect(
                self.url, **{n: v for n, v in _CONNECTION.items() if n not in options}
            )
        except client.OperationalError as error:
            raise (_refused_login(str(error)) if begins else None) or error from None
        except client.ProgrammingError as error:
            raise QueryError(
                f"the url of PostgreSQL cannot be read: {_without_secrets(str(error))}",
                "postgresql://user@host:5432/database",
            ) from None
        return connection


def _client() -> Any:
    try:
        import psycopg
    except ImportError:
        raise QueryError(
            "the package psycopg is not installed",
            "the client of PostgreSQL",
            'pip install "skyband[postgres]"',
        ) from None
    return psycopg


def _refused_login(text: str) -> QueryError | None:
    """What the server says of a login that no waiting mends; None if it says something else.

    Before a login it sends no codes, but words.
    """
    lines = text.strip().splitlines()
    for line in map(_without_secrets, lines):
        if _NO_DATABASE.search(line):
            return QueryError(
                f"PostgreSQL has not the database of the url: {line}",
                "a database that is there",
                "make it, or name another in the url",
            )
        if _NO_LOGIN.search(line):
            return QueryError(
                f"PostgreSQL refuses the login: {line}",
                "a user, and a password, that the server lets in",
                "mend the url, or pg_hba.conf of the server",
            )
    return None


def _storable(column: pa.ChunkedArray, is_json: bool) -> list[Any]:
    """Values that PostgreSQL takes: its texts hold no NUL, so the replacement character does.

    One such text must not stop a stream for good. JSON writes it as an escape.
    """
    values = column.to_pylist()
    if is_json:
        return [value and _NUL_IN_JSON.sub(r"\1\\ufffd", value) for value in values]
    return [
        value.replace("\0", _REPLACEMENT) if isinstance(value, str) else value for value in values
    ]


def _sql_type(column: OutputColumn) -> str:
    if column.nested:
        return "jsonb"
    if isinstance(column.type, DecimalType):
        return f"numeric({column.type.precision},{column.type.scale})"
    return _TYPES[type(column.type)]


def _names(names: Any) -> sql.Composed:
    from psycopg import sql

    return _listed([sql.Identifier(name) for name in names])


def _listed(parts: Any) -> sql.Composed:
    from psycopg import sql

    joined: sql.Composed = sql.SQL(", ").join(parts)
    return joined


def _without_secrets(text: str) -> str:
    """A text without the passwords of the urls in it."""
    return re.sub(r"(://[^:/@\s]*):[^@\s]*@", r"\1:***@", text)
