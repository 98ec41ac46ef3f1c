"""Parquet files as a source of queries: Spark discovers them, tasks read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from os import PathLike, fspath
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from skyband.errors import QueryError

PIECE = 128 << 20
"""Bytes of a file that a task reads at a time."""

_FILES = "path string, modificationTime timestamp, length bigint, content binary"
_SHARED_OPTIONS = (
    "cleansource",
    "filenameonly",
    "latestfirst",
    "maxbytespertrigger",
    "maxcachedfiles",
    "maxfileage",
    "maxfilespertrigger",
    "modifiedafter",
    "modifiedbefore",
    "pathglobfilter",
    "recursivefilelookup",
    "sourcearchivedir",
)
"""Options of Spark's sources of files, whatever files hold."""
_CONFIGURED = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
"""How Spark must be configured to read as tasks do."""
_PER_CORE = 4  # tasks that read, for each core or shuffle partition, whatever there are more of


@dataclass(frozen=True)
class ParquetSource:
    """Parquet files that queries read by themselves where they can: see :func:`parquet`.

    ``frame`` is what Spark reads: it says which columns there are, and takes over where a query
    asks for more than tasks can evaluate exactly.
    """

    frame: DataFrame
    path: str
    options: Mapping[str, str]

    @property
    def why_not(self) -> str | None:
        """Why tasks cannot read the files, in words; None if they can."""
        for name in self.options:
            if name.lower() not in _SHARED_OPTIONS and name.lower() != "mergeschema":
                return f"the option {name} is for Spark's own reader"
        for name, expected in _CONFIGURED.items():
            value = self.frame.sparkSession.conf.get(name)
            if value is not None and value.upper() != expected.upper():
                return f"{name} is {value}"
        extra = set(self._files.columns) - {"path", "modificationTime", "length", "content"}
        if extra:
            return f"folders hold the column {min(extra)}"
        return self._why_not_opened

    def pieces(self, partitions: int) -> DataFrame:
        """Pieces of all files, spread over tasks: path, first and last byte, and the clock."""
        last = F.col("length") - 1
        low = F.explode(F.sequence(F.lit(0).cast("bigint"), last, F.lit(PIECE).cast("bigint")))
        # Spark skips files without a byte, too: writers that are killed leave such
        files = self._files.filter("length > 0")
        # one task deals the pieces out evenly; each of several would begin with a task by chance
        pieces = files.coalesce(1).select("path", low.alias("low"))
        clock = F.unix_micros(F.current_timestamp())
        return pieces.select(
            "path", "low", (F.col("low") + PIECE).alias("high"), clock.alias("now")
        ).repartition(_PER_CORE * max(partitions, _cores(self.frame.sparkSession)))

    @cached_property
    def _why_not_opened(self) -> str | None:
        """Why Arrow cannot open the files, in words; tried once, and where tasks run."""
        from skyband.spark.scan.file_systems import (  # imports PyArrow
            needs_trial,
            tried,
            why_not_opened,
        )

        spark = self.frame.sparkSession
        default = _default_file_system(spark)
        if not needs_trial(self.path, default):
            return why_not_opened(self.path, default)
        trial = partial(tried, self.path, default)
        reason: str | None = (
            spark.range(0, 1, 1, 1).mapInArrow(trial, "reason string").collect()[0]["reason"]
        )
        return reason

    @cached_property
    def _files(self) -> DataFrame:
        """The files, listed once, whose content nobody reads."""
        shared = {n: value for n, value in self.options.items() if n.lower() in _SHARED_OPTIONS}
        spark = self.frame.sparkSession
        reader: Any = spark.readStream if self.frame.isStreaming else spark.read
        files: DataFrame = (
            reader.format("binaryFile").schema(_FILES).options(**shared).load(self.path)
        )
        return files


def _default_file_system(spark: SparkSession) -> str:
    """The file system of paths without a scheme; Spark Connect tells what was set in Spark."""
    if is_remote():
        return spark.conf.get("spark.hadoop.fs.defaultFS", None) or "file:///"
    context: Any = spark.sparkContext
    return str(context._jsc.hadoopConfiguration().get("fs.defaultFS"))


def _cores(spark: SparkSession) -> int:
    """How many tasks run at a time; 1 over Spark Connect, which does not tell."""
    return 1 if is_remote() else spark.sparkContext.defaultParallelism


def parquet(
    spark: SparkSession,
    path: str | PathLike[str],
    *,
    schema: str | StructType | None = None,
    stream: bool = False,
    options: Mapping[str, str] | None = None,
) -> ParquetSource:
    """Parquet files as a source that :func:`top_k` and its sisters take in place of a DataFrame.

    Spark discovers the files, exactly once in a stream; tasks read them with Arrow and hand on only
    what may win, or what rows come to, which is several times as fast. The answers are those that a
    DataFrame of the files would get; where a query asks for what tasks cannot evaluate exactly,
    Spark reads the files as ever. ``skyband explain`` says which, as the log ``skyband.scan`` does.

    ``schema`` is that of the files; a ``stream`` without one takes that of the files that are there
    now. ``options`` are those of ``spark.read`` and ``spark.readStream``.

    Example::

        trades = parquet(spark, "in/", stream=True, options={"maxFilesPerTrigger": "100"})
        leaders = top_k(trades, k=10, by="price * volume", time="ts", window="1 hour")
    """
    if not isinstance(path, (str, PathLike)) or not fspath(path):
        raise QueryError(f"path is {path!r}", "a directory of Parquet files", "write path='in/'")
    given = dict(options or {})
    if stream and schema is None:
        schema = spark.read.options(**given).parquet(fspath(path)).schema
    reader: Any = spark.readStream if stream else spark.read
    if schema is not None:
        reader = reader.schema(schema)
    frame = reader.options(**given).parquet(fspath(path))
    return ParquetSource(frame, str(fspath(path)), given)
