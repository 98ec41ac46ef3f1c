"""Opening a file through DuckDB: its columns, its rows in arrival order, its rows by number."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from skyband.errors import DataError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from skyband.order import Ints

Kind = Literal["csv", "parquet", "json"]
T = TypeVar("T")

BATCH = 65_536
"""Rows per record batch."""

_FARTHEST = 1 << 60  # from the epoch
_SUFFIXES: dict[str, Kind] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_PACKED = (".gz", ".zst")
# it makes the reader of CSV files cast, which then fails where TRY_CAST gives NULL
_UNWANTED = ("type_pushdown",)
# DuckDB would guess lines to skip and comment signs, and drop rows without a word
_READERS: dict[Kind, str] = {
    "csv": "read_csv({}, header = true, skip = 0, comment = '', hive_partitioning = false{})",
    "parquet": "read_parquet({}, hive_partitioning = false)",
    "json": "read_json({}, hive_partitioning = false{})",
}


class MisreadError(DataError):
    """A value that does not fit the type which the first rows suggested for its column."""


@dataclass(frozen=True)
class Column:
    """A column of the file: its name and its DuckDB type."""

    name: str
    type: str

    @property
    def quoted(self) -> str:
        """The name as SQL."""
        return identifier(self.name)


class FileSource:
    """One file, read as often as needed, always in the same way.

    ``sample`` is how many rows decide the column types of CSV and JSON files; -1 means all.

    Use it as a context manager: it holds a temporary directory, for standard input and for sorts
    larger than memory.
    """

    def __init__(self, path: str) -> None:
        self.shown = "standard input" if path == "-" else path
        self._directory = tempfile.TemporaryDirectory(prefix="skyband-")
        try:
            self._path = self._spooled() if path == "-" else self._plain(_existing(path))
            self.kind = _kind(self._path)
            self._connection = self._connect()
            self._sample: int | None = None
            self.columns = self._columns()
        except BaseException:
            self._directory.cleanup()
            raise

    def __enter__(self) -> FileSource:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._directory.cleanup()

    def scratch(self) -> Path:
        """A new directory for files that are needed as long as this one."""
        return Path(tempfile.mkdtemp(dir=self._directory.name))

    def _spooled(self) -> Path:
        path = Path(self._directory.name) / "input"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        if not path.stat().st_size:
            raise DataError("standard input is empty", "CSV with a header, or JSON lines")
        return path

    def _plain(self, path: Path) -> Path:
        """The path, or a link to it if DuckDB would take its name for a pattern."""
        if not set("*?[") & set(str(path)):
            return path
        known = [suffix for suffix in path.suffixes if suffix.lower() in (*_SUFFIXES, *_PACKED)]
        link = Path(self._directory.name) / "".join(["input", *known[-2:]])
        link.symlink_to(path)
        return link

    def _connect(self) -> duckdb.DuckDBPyConnection:
        """A connection that can read this one file and nothing else."""
        import duckdb

        connection = duckdb.connect(":memory:", config={"temp_directory": self._directory.name})
        rules = connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()
        unwanted = [name for (name,) in rules if name in _UNWANTED]
        for setting in (
            f"disabled_optimizers = {literal(','.join(unwanted))}",
            "TimeZone = 'UTC'",
            "preserve_insertion_order = true",
            "python_enable_replacements = false",
            f"allowed_paths = [{literal(str(self._path))}]",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            connection.execute(f"SET {setting}")
        return connection

    @property
    def scan(self) -> str:
        """The file as a SQL table function."""
        sample = "" if self._sample is None else f", sample_size = {self._sample}"
        return _READERS[self.kind].format(literal(str(self._path)), sample)

    def _columns(self) -> tuple[Column, ...]:
        try:
            relation = self.bind(f"SELECT * FROM {self.scan}")
        except _duckdb_error() as error:
            raise DataError(
                f"{self.shown} cannot be read as {self.kind}: {duckdb_message(error)}",
                "CSV with a header, Parquet or JSON lines",
            ) from None
        return tuple(
            Column(name, str(type))
            for name, type in zip(relation.columns, relation.types, strict=True)
        )

    @property
    def certain(self) -> bool:
        """Whether the column types are known, not concluded from the first rows."""
        return self.kind == "parquet" or self._sample == -1

    def read(self, reading: Callable[[FileSource], T]) -> T:
        """Do what reads the file; again, with column types from all rows, if they were misjudged.

        Types are concluded from the first rows, and a :class:`MisreadError` shows them to be wrong.
        """
        try:
            return reading(self)
        except MisreadError:
            self._sample = -1
            self.columns = self._columns()
            return reading(self)

    @property
    def empty(self) -> bool:
        """Whether there is no row, and therefore nothing from which to conclude column types."""
        if self.kind == "parquet":
            return False
        return self._row(f"SELECT 1 FROM {self.scan} LIMIT 1") is None

    @property
    def known_rows(self) -> int | None:
        """How many rows there are, if the file says so."""
        return self.count_rows() if self.kind == "parquet" else None

    def count_rows(self) -> int:
        """Count the rows, which takes a while unless the file says how many there are."""
        return int(self.single(f"SELECT count(*) FROM {self.scan}")[0])

    def bind(self, sql: str) -> duckdb.DuckDBPyRelation:
        """Check a SELECT, without running it."""
        return self._connection.sql(sql)

    def parse(self, sql: str) -> str:
        """A SELECT as a syntax tree in JSON."""
        return str(self.single(f"SELECT json_serialize_sql({literal(sql)})")[0])

    def column(self, name: str) -> Column | None:
        """A column by name, as SQL compares names: whatever the case."""
        alike = [column for column in self.columns if column.name.lower() == name.lower()]
        exact = [column for column in alike if column.name == name]
        return next(iter(exact or alike), None)

    def closest(self, name: str) -> str | None:
        """The column that someone may have meant by a name, if one is like it."""
        lower = {column.name.lower(): column.name for column in reversed(self.columns)}
        close = get_close_matches(name.lower(), lower, 1, 0.5)
        return lower[close[0]] if close else None

    def no_column(self, name: str, option: str) -> DataError:
        """The error to raise for a column that is not there."""
        names = [column.name for column in self.columns]
        close = self.closest(name)
        fix = "use one of its columns" if close is None else f"did you mean {close!r}?"
        if self.kind == "csv" and len(names) == 1 and any(sign in names[0] for sign in ",;\t|"):
            fix = "its lines do not all have the same number of fields: repair the file"
        return DataError(
            f"{option}: {self.shown} has no column {name!r}",
            f"one of {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}",
            fix,
        )

    def described(self) -> str:
        """The columns with their types, or the first of many."""
        known = ", ".join(f"{column.name} {column.type}" for column in self.columns[:20])
        return known + (", ..." if len(self.columns) > 20 else "")

    def rows(
        self,
        numbers: Mapping[str, str],
        time: str | None,
        keys: list[Column],
        objects: list[Column] | None = None,
        where: str = "true",
    ) -> Iterator[pa.RecordBatch]:
        """Record batches of ``numbers`` and, where asked for, ``key``, ``time`` and ``row``.

        ``numbers`` holds names of columns and the SQL of each, such as that of the score.
        Without time, keys and objects the rows come in the order of the file. Otherwise ``row`` is
        the 0-based number in that order, and rows are sorted by key, time and row; keys are
        numbered from 0 in their natural order, NULL first. So are objects, in the order of keys
        and then of the columns by which they are told apart: ``object``. Rows for which ``where``
        is not true are not there at all.
        """
        values = [f"CAST(({sql}\n) AS DOUBLE) AS {name}" for name, sql in numbers.items()]
        if time is None and not keys and not objects:
            return self._stream(f"SELECT {', '.join(values)} FROM {self.scan} WHERE {where}")
        inner = ["row_number() OVER () - 1 AS row", *values]
        outer, order = ["row", *numbers], ["row"]
        if time is not None:
            inner.append(f"{time} AS time")
            outer.append("time")
            order.insert(0, "time NULLS FIRST")
        apart = [*keys, *(objects or [])]
        inner += [f"{column.quoted} AS apart_{at}" for at, column in enumerate(apart)]
        by = [f"apart_{at} NULLS FIRST" for at in range(len(apart))]
        if keys:
            outer.append(f"dense_rank() OVER (ORDER BY {', '.join(by[: len(keys)])}) - 1 AS key")
            order.insert(0, "key")
        if objects:
            outer.append(f"dense_rank() OVER (ORDER BY {', '.join(by)}) - 1 AS object")
        return self._stream(
            f"SELECT {', '.join(outer)} "
            f"FROM (SELECT {', '.join(inner)} FROM {self.scan} WHERE {where}) "
            f"ORDER BY {', '.join(order)}"
        )

    def pick(self, rows: Ints, expressions: list[str]) -> pa.Table:
        """These expressions, for the rows of these numbers (ascending), in their order."""
        number = self._free("row")
        numbered = f"SELECT row_number() OVER () - 1 AS {number}, * FROM {self.scan}"
        return self._picked(rows, expressions, number, numbered)

    def pick_objects(
        self, objects: Ints, apart: list[Column], expressions: list[str], where: str
    ) -> pa.Table:
        """These expressions over what tells objects apart, for those of these numbers (ascending).

        ``apart`` and ``where`` are as in :meth:`rows`: the columns of keys, then of objects.
        """
        number = self._free("object")
        names = ", ".join(dict.fromkeys(column.quoted for column in apart))
        by = ", ".join(f"{column.quoted} NULLS FIRST" for column in apart)
        distinct = f"SELECT DISTINCT {names} FROM {self.scan} WHERE {where}"
        numbered = f"SELECT dense_rank() OVER (ORDER BY {by}) - 1 AS {number}, * FROM ({distinct})"
        return self._picked(objects, expressions, number, numbered)

    def _free(self, name: str) -> str:
        """A name that no column has."""
        while self.column(name) is not None:
            name = f"_{name}"
        return name

    def _picked(
        self, numbers: Ints, expressions: list[str], number: str, numbered: str
    ) -> pa.Table:
        import pyarrow as pa

        # pa.array would import pandas, if it is there, only to ask whether this is a Series
        wanted = pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
        self._connection.register("wanted", pa.table({number: wanted}))
        batches = self._stream(
            f"SELECT {number}, {', '.join(expressions)} FROM ({numbered}) "
            f"SEMI JOIN wanted USING ({number}) ORDER BY {number}"
        )
        table = pa.Table.from_batches(batches)
        self._connection.unregister("wanted")
        return table.drop_columns([number])

    def single(self, sql: str) -> tuple[Any, ...]:
        """The only row of a SELECT."""
        try:
            row = self._row(sql)
        except _duckdb_error() as error:
            raise self._misread(error) from None
        assert row is not None
        return row

    def all(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a SELECT that has few."""
        try:
            return self._connection.execute(sql).fetchall()
        except _duckdb_error() as error:
            raise self._misread(error) from None

    def _row(self, sql: str) -> tuple[Any, ...] | None:
        rows = self._connection.execute(sql).fetchall()  # all: an open result blocks the connection
        return tuple(rows[0]) if rows else None

    def _stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.bind(sql).to_arrow_reader(BATCH)
        except (_duckdb_error(), OSError) as error:
            raise self._misread(error) from None

    def _misread(self, error: Exception) -> DataError:
        kind = DataError if self.certain else MisreadError
        message, fix = duckdb_message(error), ""
        if "verflow" in message:
            fix = "cast the columns of the expression to DOUBLE"
        elif "ould not convert" in message or "ailed to cast" in message:
            fix = "use TRY_CAST, which gives NULL for what cannot be converted"
        return kind(f"{self.shown}: {message}", fix=fix)


def require_reach(oldest: int, newest: int) -> None:
    """Refuse times that window arithmetic could not carry."""
    if max(-oldest, newest) >= _FARTHEST:
        raise DataError("a time beyond 2**60", "times closer to zero", "subtract a common start")


def identifier(name: str) -> str:
    """A name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as SQL."""
    return "'" + text.replace("'", "''") + "'"


def duckdb_message(error: Exception) -> str:
    """What DuckDB says, without the kind of the error and the excerpts that follow."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    parts = [lines[0].partition(" Error: ")[2] or lines[0]]
    if parts[0].startswith("CSV Error"):
        parts += [line for line in lines[1:] if not line.startswith("Original Line")][:1]
    return "; ".join(line.strip().rstrip("!.") for line in parts)


def _duckdb_error() -> type[Exception]:
    import duckdb

    return duckdb.Error


def _existing(path: str) -> Path:
    file = Path(path)
    if not file.is_file():
        near = file.parent if file.parent.is_dir() else Path()
        names = [other.name for other in near.iterdir() if other.is_file()]
        close = get_close_matches(file.name, names, 1)
        fix = f"did you mean {str(near / close[0])!r}?" if close else "check the path"
        problem = f"{path!r} is a directory" if file.is_dir() else f"there is no file {path!r}"
        raise DataError(problem, "a CSV, Parquet or JSON lines file, or - for standard input", fix)
    if not os.access(file, os.R_OK):
        raise DataError(f"{path!r} may not be read", "a readable file", "check its permissions")
    if not file.stat().st_size:
        raise DataError(f"{path!r} is empty", "CSV with a header, Parquet or JSON lines")
    return file.absolute()


def _kind(path: Path) -> Kind:
    """The kind of a file by its suffix, else by its first bytes."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    if suffixes and suffixes[-1] in _SUFFIXES:
        return _SUFFIXES[suffixes[-1]]
    with path.open("rb") as file:
        head = file.read(4096)
    if head.startswith(b"PAR1"):
        return "parquet"
    return "json" if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") else "csv"
