"""Where a job's rows come from: the ``source`` of a job file, and a table of kinds of sources.

A new kind is an entry in :data:`SOURCES`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband.errors import DataError, QueryError
from skyband.spark.jobs.queries import Part
from skyband.spark.sessions import spark_message

if TYPE_CHECKING:
    from skyband.spark.jobs.file import Job

FILE_FORMATS = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
"""Formats that are read from and written to a path."""

Value = str | int | float | bool


class Source(Part):
    """Where rows come from."""

    format: str = Field(description="a format that Spark reads, such as parquet")
    path: str | None = Field(
        default=None, description="a directory, a file or a pattern such as in/*.csv"
    )
    ddl: str | None = Field(
        default=None, alias="schema", description="columns, such as 'ts timestamp, price double'"
    )
    fields: str | None = Field(
        default=None,
        alias="json",
        description="the fields of JSON texts in the column value, such as 'ts timestamp, n int'",
    )
    options: dict[str, Value] = Field(default={}, description="options of the format, by name")


@dataclass(frozen=True)
class SourceKind:
    """What a source needs, and how it is read unless the job says otherwise.

    ``formats`` are as a job file names them; a kind without any takes all that no other does.
    ``columns_in_files`` promises that files say which columns there are: a stream without a schema
    takes that of the files that are there when it starts. ``options`` always hold, ``inferring``
    those of a source without a schema; the job's own win.
    """

    formats: tuple[str, ...]
    needs_path: bool = False
    columns_in_files: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    inferring: Mapping[str, str] = field(default_factory=dict)


SOURCES = (
    SourceKind(
        ("csv",),
        needs_path=True,
        columns_in_files=True,
        options={"header": "true"},
        inferring={"inferSchema": "true"},
    ),
    SourceKind(
        ("json",), needs_path=True, columns_in_files=True, inferring={"inferTimestamp": "true"}
    ),
    SourceKind(FILE_FORMATS, needs_path=True, columns_in_files=True),
    SourceKind(()),  # Kafka and all else: it brings its columns, a path is its own affair
)


def kind_of(source: Source) -> SourceKind:
    """The first entry of the table that a source fits."""
    name = source.format.lower()
    return next(kind for kind in SOURCES if name in kind.formats or not kind.formats)


def check(job: Job) -> None:
    """Refuse a source that has no path but needs one, or has one that a stream cannot read."""
    source = job.source
    if source.path is None:
        if kind_of(source).needs_path:
            raise QueryError(f"source.path is missing for {source.format}", "a directory of files")
        return
    place = job.local(source.path)
    if place is None:
        return
    if not _exists(place):
        raise QueryError(
            f"source.path: there is nothing at {place}", "files, or a directory for them"
        )
    if place.is_file() and not job.batch:
        raise QueryError(
            f"source.path is one file, {place}",
            "a directory that the stream reads file by file, or a pattern",
            f"write path: {Path(source.path).parent / '*'}{place.suffix}, or trigger: batch",
        )


def _exists(place: Path) -> bool:
    """Whether a path exists, or the directory before its first pattern."""
    parts = place.parts
    fixed = next((i for i, part in enumerate(parts) if re.search(r"[*?{\[]", part)), len(parts))
    return Path(*parts[:fixed]).exists()


def rows(spark: SparkSession, job: Job) -> DataFrame:
    """Read the source, as a stream or as a batch."""
    source, kind = job.source, kind_of(job.source)
    inferring = kind.inferring if source.ddl is None else {}
    options = {**kind.options, **inferring, **option_texts(source.options)}
    path = None if source.path is None else job.place(source.path)
    reader: Any = spark.read if job.batch else spark.readStream
    reader = reader.format(source.format).options(**options)
    if source.ddl is not None:
        try:
            reader = reader.schema(source.ddl)
        except ParseException as error:
            raise _bad_ddl("schema", source.ddl, error) from None
    elif kind.columns_in_files and not job.batch:
        reader = reader.schema(_inferred(spark, source, options, path or ""))
    frame: DataFrame = reader.load(path)
    return frame if source.fields is None else _parsed(frame, source.fields)


def _inferred(spark: SparkSession, source: Source, options: dict[str, str], path: str) -> Any:
    """The columns of the files that are there now."""
    try:
        return spark.read.format(source.format).options(**options).load(path).schema
    except AnalysisException as error:
        if error.getCondition() not in ("UNABLE_TO_INFER_SCHEMA", "PATH_NOT_FOUND"):
            raise
        raise DataError(
            f"source.path {path} holds no files to learn the columns from",
            "files, or source.schema",
            "write schema: 'ts timestamp, price double, ...'",
        ) from None


def _parsed(frame: DataFrame, fields: str) -> DataFrame:
    """The fields of JSON texts in the column ``value``, as Kafka and text files have it."""
    if "value" not in frame.columns:
        raise DataError(
            f"source.json is given, but the source has {', '.join(frame.columns)}",
            "a column value that holds JSON texts, as of Kafka or text files",
            "leave source.json out",
        )
    try:
        record = F.from_json(F.col("value").cast("string"), fields)
        return frame.select(record.alias("record")).select("record.*")
    except (AnalysisException, ParseException) as error:
        raise _bad_ddl("json", fields, error) from None


def _bad_ddl(name: str, ddl: str, error: Exception) -> QueryError:
    return QueryError(
        f"source.{name} is {ddl!r}: {spark_message(error)}",
        "columns and their types, such as 'ts timestamp, price double'",
    )


def option_texts(values: Mapping[str, Value]) -> dict[str, str]:
    """Values of YAML as Spark takes them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in values.items()
    }
