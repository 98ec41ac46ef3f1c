"""Opening files through DuckDB: their columns, their rows in order, their rows by number."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from skyband.cli.input.arrow_files import ArrowFiles
from skyband.cli.input.files import (
    EXPECTED,
    PATTERN,
    STDIN,
    Kind,
    kind_of,
    known_suffixes,
    named_files,
    one_kind,
)
from skyband.errors import DataError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from skyband.order import Ints

T = TypeVar("T")

BATCH = 65_536
"""Rows per record batch."""

_FARTHEST = 1 << 60  # from the epoch
_ARROW = "arrow_rows"
# it makes the reader of CSV files cast, which then fails where TRY_CAST gives NULL
_UNWANTED = ("type_pushdown",)
# DuckDB would guess lines to skip and comment signs, and drop rows without a word
_READERS: dict[Kind, str] = {
    "csv": "read_csv({}, header = true, skip = 0, comment = '', hive_partitioning = false{})",
    "parquet": "read_parquet({}, hive_partitioning = false)",
    "json": "read_json({}, hive_partitioning = false{})",
    "arrow": _ARROW,
}


class MisreadError(DataError):
    """A value that does not fit the type which the first rows suggested for its column."""


@dataclass(frozen=True)
class Column:
    """A column of the file, or of an expression over them: its name and its DuckDB type."""

    name: str
    type: str
    expression: str | None = None

    @property
    def quoted(self) -> str:
        """The name as SQL."""
        return identifier(self.name)

    @property
    def sql(self) -> str:
        """What it is over the columns of the file."""
        return self.quoted if self.expression is None else self.expression


class FileSource:
    """Files of one kind and schema, read as often as needed, always in the same way.

    Rows for which ``where`` is not true are not there: nothing counts or numbers them.
    ``sample`` is how many rows decide the column types of CSV and JSON files; -1 means all.

    Use it as a context manager: it holds a temporary directory, for standard input and for sorts
    larger than memory.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.piped = list(names) == [STDIN]
        self.shown = "standard input" if self.piped else names[0]
        self.where: str | None = None
        self._directory = tempfile.TemporaryDirectory(prefix="skyband-")
        try:
            self.files = [self._spooled()] if self.piped else named_files(names)
            if len(names) > 1:
                self.shown = f"{names[0]} and {len(self.files) - 1} more"
            self.kind = one_kind(self.files, [kind_of(file) for file in self.files])
            self._paths = [self._plain(at, file) for at, file in enumerate(self.files)]
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
            raise DataError("standard input is empty", EXPECTED)
        return path

    def _plain(self, at: int, file: Path) -> Path:
        """A file, or a link to it if DuckDB would take its name for a pattern."""
        if not PATTERN & set(str(file)):
            return file
        link = Path(self._directory.name) / f"input-{at}{known_suffixes(file)}"
        link.symlink_to(file)
        return link

    def _connect(self) -> duckdb.DuckDBPyConnection:
        """A connection that can read these files and nothing else."""
        import duckdb

        connection = duckdb.connect(":memory:", config={"temp_directory": self._directory.name})
        rules = connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()
        unwanted = [name for (name,) in rules if name in _UNWANTED]
        for setting in (
            f"disabled_optimizers = {literal(','.join(unwanted))}",
            "TimeZone = 'UTC'",
            "preserve_insertion_order = true",
            "python_enable_replacements = false",
            f"allowed_paths = {_listed(self._paths)}",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            connection.execute(f"SET {setting}")
        if self.kind == "arrow":
            connection.register(_ARROW, ArrowFiles(self.files))
        return connection

    @property
    def bytes(self) -> int:
        """How large the files are."""
        return sum(file.stat().st_size for file in self.files)

    @property
    def scan(self) -> str:
        """The rows as something to select from."""
        rows = self._reader(self._paths)
        return rows if self.where is None else f"(SELECT * FROM {rows} WHERE {self.where})"

    def _reader(self, paths: Sequence[Path]) -> str:
        """The rows of files as a SQL table function; types of columns fit all of them."""
        more = "" if self._sample is None else f", sample_size = {self._sample}"
        if len(paths) > 1:
            more += ", union_by_name = true"
        return _READERS[self.kind].format(_listed(paths), more)

    def _columns(self) -> tuple[Column, ...]:
        if len(self.files) > 1:
            self._check_alike()
        return self._columns_of(self._paths, self.shown)

    def _columns_of(self, paths: Sequence[Path], shown: str) -> tuple[Column, ...]:
        try:
            relation = self.bind(f"SELECT * FROM {self._reader(paths)}")
        except _duckdb_error() as error:
            raise DataError(
                f"{shown} cannot be read as {self.kind}: {duckdb_message(error)}", EXPECTED
            ) from None
        return tuple(
            Column(name, str(type))
            for name, type in zip(relation.columns, relation.types, strict=True)
        )

    def _check_alike(self) -> None:
        """Refuse files of different columns; objects of JSON need not have all of them."""
        if self.kind == "json":
            return
        first, *others = (self._schema(*pair) for pair in zip(self.files, self._paths, strict=True))
        for file, schema in zip(self.files[1:], others, strict=True):
            if schema != first:
                raise DataError(
                    f"{str(file)!r} has the columns {', '.join(schema)}",
                    f"those of {self.files[0].name!r}: {', '.join(first)}",
                    "name files of the same columns",
                )

    def _schema(self, file: Path, path: Path) -> list[str]:
        """The columns of one file; those of CSV have no types until all files are read."""
        if self.kind == "arrow":
            schema = ArrowFiles([file]).schema_of(file)
            return [f"{field.name} {field.type}" for field in schema]
        columns = self._columns_of([path], str(file))
        named = self.kind == "csv"
        return [column.name if named else f"{column.name} {column.type}" for column in columns]

    @property
    def certain(self) -> bool:
        """Whether the column types are known, not concluded from the first rows."""
        return self.kind in ("parquet", "arrow") or self._sample == -1

    def read(self, reading: Callable[[FileSource], T]) -> T:
        """Do what reads the file; again, with column types from all rows, if they were misjudged.

        Types are concluded from the first rows, and a :class:`MisreadError` shows them to be wrong.
        """
        try:
            return reading(self)
        except MisreadError:
            self._sample = -1
            self.where = None
            self.columns = self._columns()
            return reading(self)

    @property
    def empty(self) -> bool:
        """Whether there is no row, and therefore nothing from which to conclude column types."""
        if self.kind in ("parquet", "arrow"):
            return False
        return self._row(f"SELECT 1 FROM {self._reader(self._paths)} LIMIT 1") is None

    @property
    def known_rows(self) -> int | None:
        """How many rows there are, if the file says so."""
        if self.kind != "parquet" or self.where is not None:
            return None
        return self.count_rows()

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
        values = [f"{sql} AS {name}" for name, sql in numbers.items()]
        if time is None and not keys and not objects:
            return self._stream(f"SELECT {', '.join(values)} FROM {self.scan} WHERE {where}")
        inner = ["row_number() OVER () - 1 AS row", *values]
        outer, order = ["row", *numbers], ["row"]
        if time is not None:
            inner.append(f"{time} AS time")
            outer.append("time")
            order.insert(0, "time NULLS FIRST")
        apart = [*keys, *(objects or [])]
        inner += [f"{column.sql} AS apart_{at}" for at, column in enumerate(apart)]
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

    def pick(self, rows: Ints, expressions: list[str], derived: Sequence[Column] = ()) -> pa.Table:
        """These expressions, for the rows of these numbers (ascending), in their order.

        They are over the columns of the file, and ``derived`` ones.
        """
        number = self._free("row", derived)
        more = "".join(f", {column.sql} AS {column.quoted}" for column in derived)
        numbered = f"SELECT row_number() OVER () - 1 AS {number}, *{more} FROM {self.scan}"
        return self._picked(rows, expressions, number, numbered)

    def pick_objects(
        self, objects: Ints, apart: list[Column], expressions: list[str], where: str
    ) -> pa.Table:
        """These expressions over what tells objects apart, for those of these numbers (ascending).

        ``apart`` and ``where`` are as in :meth:`rows`: the columns of keys, then of objects.
        """
        number = self._free("object", apart)
        names = ", ".join(dict.fromkeys(f"{column.sql} AS {column.quoted}" for column in apart))
        by = ", ".join(f"{column.quoted} NULLS FIRST" for column in apart)
        distinct = f"SELECT DISTINCT {names} FROM {self.scan} WHERE {where}"
        numbered = f"SELECT dense_rank() OVER (ORDER BY {by}) - 1 AS {number}, * FROM ({distinct})"
        return self._picked(objects, expressions, number, numbered)

    def _free(self, name: str, others: Sequence[Column]) -> str:
        """A name that no column of the file has, nor any other."""
        taken = {column.name.lower() for column in (*self.columns, *others)}
        while name in taken:
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


def _listed(paths: Sequence[Path]) -> str:
    return f"[{', '.join(literal(str(path)) for path in paths)}]"


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
