"""The rows of a job's source, as a stream or all at once."""

from __future__ import annotations

from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband.errors import DataError, QueryError
from skyband.spark.jobs.file import FILES, Job, Source, Value
from skyband.spark.sessions import said

_GUESS = {
    "csv": {"header": "true", "inferSchema": "true"},
    "json": {"inferTimestamp": "true"},
}
"""How formats without types are read if the job does not say."""


def rows(spark: SparkSession, job: Job) -> DataFrame:
    """The DataFrame that a job reads."""
    source = job.source
    options = {name: text(value) for name, value in source.options.items()}
    kind = source.format.lower()
    if source.ddl is None:
        options = {**_GUESS.get(kind, {}), **options}
    elif kind == "csv":
        options.setdefault("header", "true")
    path = None if source.path is None else job.place(source.path)
    reader: Any = spark.read if job.batch else spark.readStream
    reader = reader.format(source.format).options(**options)
    if source.ddl is not None:
        try:
            reader = reader.schema(source.ddl)
        except ParseException as error:
            raise _bad_ddl("schema", source.ddl, error) from None
    elif kind in FILES and not job.batch:
        reader = reader.schema(_inferred(spark, source, options, path or ""))
    found: DataFrame = reader.load(path)
    return found if source.fields is None else _parsed(found, source.fields)


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


def _parsed(rows: DataFrame, fields: str) -> DataFrame:
    """The fields of JSON texts in the column ``value``, as Kafka and text files have it."""
    if "value" not in rows.columns:
        raise DataError(
            f"source.json is given, but the source has {', '.join(rows.columns)}",
            "a column value that holds JSON texts, as of Kafka or text files",
            "leave source.json out",
        )
    try:
        found = F.from_json(F.col("value").cast("string"), fields)
        return rows.select(found.alias("found")).select("found.*")
    except (AnalysisException, ParseException) as error:
        raise _bad_ddl("json", fields, error) from None


def _bad_ddl(name: str, ddl: str, error: Exception) -> QueryError:
    return QueryError(
        f"source.{name} is {ddl!r}: {said(error)}",
        "columns and their types, such as 'ts timestamp, price double'",
    )


def text(value: Value) -> str:
    """A value of YAML as Spark takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
