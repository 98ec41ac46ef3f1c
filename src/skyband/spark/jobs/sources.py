"""Where a job's rows come from: the ``source`` of a job file, and a table of kinds of sources.

A new kind is an entry in :data:`SOURCES`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import reduce
from io import StringIO
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from skyband.errors import DataError, QueryError
from skyband.spark.columns import quoted
from skyband.spark.connectors import missing
from skyband.spark.jobs.progress import RECORDS
from skyband.spark.jobs.queries import Part
from skyband.spark.scan.source import ParquetSource
from skyband.spark.sessions import FAILURES, spark_message
from skyband.spark.sinks.kafka import SERVERS

if TYPE_CHECKING:
    from skyband.spark.jobs.file import Job

FILE_FORMATS = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
"""Formats that are read from and written to a path."""

Value = str | int | float | bool


class Source(Part):
    """Where rows come from."""

    format: str = Field(default="table", description="a format that Spark reads, such as parquet")
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
    avro: str | None = Field(
        default=None, description="the schema of Avro records in the column value, or its file"
    )
    table: str | None = Field(default=None, description="a table of the catalog")
    bad_records: str | None = Field(
        default=None, description="a directory for records that cannot be parsed"
    )
    options: dict[str, Value] = Field(default={}, description="options of the format, by name")
    scan: bool = Field(
        default=True,
        description="whether tasks may read Parquet files by themselves, which is fast",
    )

    @property
    def has_records(self) -> bool:
        """Whether rows are made of the records in a column ``value``."""
        return self.fields is not None or self.avro is not None


RECORD = ("key", "topic", "partition", "offset", "timestamp")
"""What a record of Kafka has beside its value, and a row beside the fields of that."""

_TOPICS = ("subscribe", "subscribePattern", "assign")  # options that say which topics are read
BAD, _CORRUPT = "_skyband_bad", "_skyband_text"


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
    # where Spark would begin, at the end, a first run reads nothing
    SourceKind(("kafka",), options={"startingOffsets": "earliest"}),
    SourceKind(()),  # all else: it brings its columns, a path is its own affair
)


def kind_of(source: Source) -> SourceKind:
    """The first entry of the table that a source fits."""
    name = source.format.lower()
    return next(kind for kind in SOURCES if name in kind.formats or not kind.formats)


def check(job: Job) -> None:
    """Refuse a source that has no path but needs one, or has one that a stream cannot read."""
    source = job.source
    if source.fields is not None and source.avro is not None:
        raise QueryError("both source.json and source.avro are given", "one of them")
    if source.bad_records is not None and not source.has_records:
        raise QueryError("source.bad_records is given", "it with source.json or source.avro")
    if (source.table is None) == (source.format == "table"):
        raise QueryError(
            f"source.table is {source.table!r} with format {source.format!r}",
            "a format that Spark reads, or a table",
            "leave source.format out with source.table",
        )
    of_path = re.fullmatch(r"\s*delta\s*\.\s*`(.+)`\s*", source.table or "", re.IGNORECASE)
    if of_path is not None and not job.batch:
        raise QueryError(
            f"source.table is {source.table}, which a batch can read but no stream",
            "a table of the catalog",
            f"write format: delta and path: {of_path[1]}",
        )
    _check_kafka(source)
    if source.bad_records is not None and job.batch:
        place = job.local(source.bad_records)
        if place is not None and place.exists():
            raise QueryError(
                f"source.bad_records: there is something at {place} already",
                "a new directory: a batch is written once",
                "remove it, or name another",
            )
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


def _check_kafka(source: Source) -> None:
    if source.format.lower() != "kafka":
        return
    if SERVERS not in source.options:
        raise QueryError(
            f"source.options.{SERVERS} is missing",
            "the addresses of brokers",
            f"write options: {{{SERVERS}: host:9092, subscribe: TOPIC}}",
        )
    given = [name for name in _TOPICS if name in source.options]
    if len(given) != 1:
        raise QueryError(
            f"source.options has {' and '.join(given) or 'no topic'}",
            f"one of {', '.join(_TOPICS)}",
            "write subscribe: TOPIC",
        )


def _exists(place: Path) -> bool:
    """Whether a path exists, or the directory before its first pattern."""
    parts = place.parts
    fixed = next((i for i, part in enumerate(parts) if re.search(r"[*?{\[]", part)), len(parts))
    return Path(*parts[:fixed]).exists()


def rows(spark: SparkSession, job: Job, counts: Observation | None = None) -> DataFrame:
    """Read the source, as a stream or as a batch; ``counts`` observes the records of a batch.

    What is observed also keeps Spark from moving the filter below the parser: it would parse each
    record once to drop the bad ones and once more for the fields.
    """
    frame = _read(spark, job)
    if not job.source.has_records:
        return frame
    records = _parsed(frame, job)
    counted = records.observe(counts or RECORDS, F.count_if(BAD).alias("bad"))
    return counted.filter(~F.col(BAD)).drop(BAD)


def parquet_source(job: Job, rows: DataFrame) -> ParquetSource | None:
    """The Parquet files that the rows of a job are read from, if tasks may read them."""
    if not may_be_scanned(job):
        return None
    source = job.source
    return ParquetSource(rows, job.place(source.path or ""), option_texts(source.options))


def may_be_scanned(job: Job) -> bool:
    """Whether tasks may read the files of a job by themselves, if they can."""
    source = job.source
    return source.format.lower() == "parquet" and not source.has_records and source.scan


def bad_records(spark: SparkSession, job: Job) -> DataFrame:
    """The records of the source that cannot be parsed, as they came."""
    frame = _read(spark, job)
    bad = _record(frame, job)[1]
    return frame.filter(bad)


def _read(spark: SparkSession, job: Job) -> DataFrame:
    source, kind = job.source, kind_of(job.source)
    reader: Any = spark.read if job.batch else spark.readStream
    if source.table is not None:
        table: DataFrame = reader.options(**option_texts(source.options)).table(source.table)
        return table
    inferring = kind.inferring if source.ddl is None else {}
    options = {**kind.options, **inferring, **option_texts(source.options)}
    path = None if source.path is None else job.place(source.path)
    reader = reader.format(source.format).options(**options)
    if source.ddl is not None:
        try:
            reader = reader.schema(source.ddl)
        except ParseException as error:
            raise _bad_ddl("schema", source.ddl, error) from None
    elif kind.columns_in_files and not job.batch:
        reader = reader.schema(_inferred(spark, source, options, path or ""))
    frame: DataFrame = reader.load(path)
    return frame


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


def _parsed(frame: DataFrame, job: Job) -> DataFrame:
    """The fields of the records in the column ``value``, what a record has beside, and ``BAD``.

    Where a field has the name of what is beside, the field counts.
    """
    record, bad = _record(frame, job)
    beside = [F.col(name) for name in RECORD if name in frame.columns]
    rows = frame.select(record.alias("record"), bad.alias(BAD), *beside)
    fields = [name for name in rows.select("record.*").columns if name != _CORRUPT]
    taken = {name.lower() for name in fields}
    columns = [F.col(f"record.{quoted(name)}") for name in fields]
    for name in RECORD:
        if name in frame.columns and name not in taken:
            text = frame.schema[name].dataType == BinaryType()
            columns.append((F.col(name).cast("string") if text else F.col(name)).alias(name))
    return rows.select(*columns, BAD)


def _record(frame: DataFrame, job: Job) -> tuple[Column, Column]:
    """The record in the column ``value``, as Kafka and text files have it; whether it is bad."""
    source = job.source
    if "value" not in frame.columns:
        name = "json" if source.fields is not None else "avro"
        raise DataError(
            f"source.{name} is given, but the source has {', '.join(frame.columns)}",
            "a column value that holds records, as of Kafka or text files",
            f"leave source.{name} out",
        )
    if source.fields is None:
        return _avro_record(frame, job)
    try:
        wanted = DataType.fromDDL(source.fields)
    except ParseException as error:
        raise _bad_ddl("json", source.fields, error) from None
    if not isinstance(wanted, StructType):
        wanted = StructType([StructField("value", wanted)])
    with_text = StructType([*wanted.fields, StructField(_CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    record = F.from_json(F.col("value").cast("string"), with_text, options)
    return record, record.isNull() | record[_CORRUPT].isNotNull()


def _avro_record(frame: DataFrame, job: Job) -> tuple[Column, Column]:
    from pyspark.sql.avro.functions import from_avro

    schema = str(job.source.avro)
    if not schema.lstrip().startswith("{"):
        file = job.home / schema
        try:
            schema = file.read_text(encoding="utf-8")
        except OSError as error:
            raise QueryError(
                f"source.avro: {file} cannot be read: {error.strerror}",
                "a schema of Avro in JSON, or the path of a file that holds one",
            ) from None
    with redirect_stdout(StringIO()):  # says at length that a jar is missing
        try:
            record = from_avro(F.col("value"), schema, {"mode": "PERMISSIVE"})
        except TypeError:
            raise missing("avro") from None
    try:
        type = frame.select(record.alias("record")).schema["record"].dataType
    except FAILURES as error:
        if "AVRO_NOT_LOADED" in str(error):
            raise missing("avro") from None
        raise QueryError(
            f"source.avro is not a schema of Avro: {spark_message(error)}",
            "a schema of Avro in JSON, or the path of a file that holds one",
        ) from None
    fields = [record[name].isNull() for name in getattr(type, "names", ())]
    # Spark makes a record without any values of one that it cannot read
    return record, record.isNull() | (reduce(and_, fields) if fields else F.lit(False))


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
