"""Why a query failed: errors of Spark as ours, which say what is expected and how to go on."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

from skyband.errors import DataError, QueryError, SkybandError, SnapshotError
from skyband.spark.connectors import lacking
from skyband.spark.families import families
from skyband.spark.sessions import refusal

_RAISED = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?(\w+(?:Error|Exception): .+)$", re.MULTILINE)
_SERVER = re.compile(r"(PostgreSQL|Redis) ")  # what is full or slow is theirs, not ours
_NEW = "start a new checkpoint, or restore this one from a copy"


class Cause(NamedTuple):
    """A pattern in what Spark says, and the error that it means.

    What a named group of the pattern matches becomes part of the message, else the path that
    stands in the same line.
    """

    pattern: str
    error: type[SkybandError]
    problem: str
    expected: str
    fix: str


_CAUSES = (
    Cause(
        r"DIVIDE_BY_ZERO|REMAINDER_BY_ZERO",
        DataError,
        "the score divides by zero",
        "a score for every row",
        "write try_divide(a, b) instead of a / b in {score}",
    ),
    Cause(
        r"CAST_INVALID_INPUT|CAST_OVERFLOW|CANNOT_PARSE",
        DataError,
        "the score casts a value that does not fit",
        "a score for every row",
        "write try_cast(x AS double) instead of cast(x AS double) in {score}",
    ),
    Cause(
        r"ARITHMETIC_OVERFLOW|BINARY_ARITHMETIC_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE",
        DataError,
        "the score is too large for its type",
        "a score for every row",
        "compute with doubles: cast a column to double first",
    ),
    Cause(
        r"holds state of version|state of version \d|STATE_STORE_\w+_SCHEMA_NOT_COMPATIBLE",
        SnapshotError,
        "the checkpoint holds the state of another release or query",
        "the release and the query that began it",
        _NEW,
    ),
    Cause(
        r"CONCURRENT_(STREAM|QUERY)|Concurrent update to the (commit )?log"
        r"|Multiple streaming queries are concurrently using",
        QueryError,
        "another run uses the same checkpoint",
        "one run at a time",
        "stop the other run, or give this job a checkpoint of its own",
    ),
    Cause(
        r"No space left on device|Disk quota exceeded",
        SkybandError,
        "the disk is full",
        "room for results, checkpoint and temporary files",
        "free some space and run again: the stream goes on where it was",
    ),
    Cause(
        r"FILE_NOT_EXIST|FileNotFoundException|does not exist.*part-",
        DataError,
        "a file of the source or the checkpoint is gone",
        "files that stay until they are read",
        "restore it; or set the option ignoreMissingFiles to true in source.options",
    ),
    Cause(
        r"FAILED_READ_FILE|is not a Parquet file|MALFORMED_RECORD|MALFORMED_CSV",
        DataError,
        "a file of the source cannot be read",
        "files in the source's format that are complete: write elsewhere, then rename",
        "remove it; or set the option ignoreCorruptFiles to true in source.options",
    ),
    Cause(
        r"CANNOT_LOAD_STATE_STORE|STATE_STORE|CHECKPOINT|Malformed log file|Incomplete log file"
        r"|batch \d+ doesn't exist|OffsetSeqLog|CommitLog|HDFSMetadataLog|MISSING_METADATA_FILE"
        r"|OFFSET_LOG|METADATA_FILE|log file was malformed|Unable to find batch"
        r"|Unexpected end-of-input|Unexpected character|Unrecognized token",
        SnapshotError,
        "the checkpoint is damaged",
        "what Spark wrote there",
        _NEW,
    ),
    Cause(
        r"PATH_NOT_FOUND",
        DataError,
        "there is nothing at the source's path",
        "files, or a directory for them",
        "",
    ),
    Cause(
        r"TABLE_OR_VIEW_NOT_FOUND\] The table or view (?P<table>\S+)",
        QueryError,
        "there is no such table",
        "a table or view of the catalog",
        "check source.table, and the catalog that session.settings name",
    ),
    Cause(
        r"bigger than (spark\.driver\.maxResultSize|local result size limit)",
        SkybandError,
        "the rankings of one batch are more than the driver takes",
        "batches that fit: databases are written by the driver",
        "read less at a time (maxFilesPerTrigger, maxOffsetsPerTrigger in source.options), or "
        "raise session.memory and spark.driver.maxResultSize",
    ),
    Cause(
        r"PATH_ALREADY_EXISTS",
        QueryError,
        "there is something at the sink's path already",
        "a new directory: a batch is written once",
        "remove it, or name another sink.path",
    ),
    Cause(
        r"(DATA_SOURCE_NOT_FOUND|Failed to find (the )?data source).*kafka",
        QueryError,
        *lacking("kafka"),
    ),
    Cause(
        r"(DATA_SOURCE_NOT_FOUND|Failed to find (the )?data source).*delta",
        QueryError,
        *lacking("delta"),
    ),
    Cause(
        r"AVRO_NOT_LOADED|(DATA_SOURCE_NOT_FOUND|Failed to find (the )?data source).*avro",
        QueryError,
        *lacking("avro"),
    ),
    Cause(
        r"UnknownTopicOrPartitionException|Topic (?P<topic>\S+) not present in metadata",
        DataError,
        "a topic of Kafka is not there",
        "topics that exist",
        "make it, with as many partitions as it needs",
    ),
    Cause(
        r"KAFKA_DATA_LOSS|Some data may have been lost|OffsetOutOfRangeException",
        DataError,
        "Kafka has deleted records that were not read yet",
        "a topic that keeps its records until they are read",
        "let it keep them longer; to go on without them, set failOnDataLoss to false in "
        "source.options",
    ),
    Cause(
        r"org\.apache\.kafka\.common\.errors\.(Timeout|Disconnect|Network|BrokerNotAvailable)"
        r"\w*Exception|No resolvable bootstrap urls|Failed to (construct|create new) kafka"
        r"|KafkaAdminClient|Timed out waiting for a node assignment",
        DataError,
        "Kafka cannot be reached",
        "a broker that answers",
        "start it and run again: the stream goes on where it was",
    ),
    Cause(
        r"PYTHON_VERSION_MISMATCH.*?version: (?P<version>\d+\.\d+)",
        SkybandError,
        "executors have another Python than the driver",
        f"Python {sys.version_info.major}.{sys.version_info.minor}",
        "name such a Python of theirs in the environment: PYSPARK_PYTHON",
    ),
    Cause(
        r"Cannot run program \"(?P<python>[^\"]+)\"",
        SkybandError,
        "executors have no such Python",
        "the path of a Python on their machines",
        "name it in the environment: PYSPARK_PYTHON",
    ),
    Cause(
        r"ModuleNotFoundError: No module named '(?P<module>[^']+)'",
        SkybandError,
        "the Python of executors lacks a package",
        "the packages of the driver",
        "install it there, or name another Python in the environment: PYSPARK_PYTHON",
    ),
    Cause(
        r"SparkContext was shut down|Master removed our application",
        SkybandError,
        "the cluster has ended the application",
        "executors that start and stay",
        "see what they say: their stderr is in the work directory of a worker",
    ),
    Cause(
        r"DATA_SOURCE_NOT_FOUND|Failed to find (the )?data source",
        QueryError,
        "Spark does not know a format of the job",
        "a format that Spark has, or that a package brings",
        "name the package in session.settings: spark.jars.packages",
    ),
)


def is_of_kafka(error: BaseException) -> bool:
    """Whether Kafka's client has said something: to it topics of a lost broker are not there."""
    return re.search(r"org\.apache\.kafka\.|not present in metadata", str(error)) is not None


def reworded(error: BaseException, log: Path | None, score: str = "query.by") -> SkybandError:
    """An error of Spark as one of ours.

    ``log`` is the file that has all of it, ``score`` is where the score stands in the job file.
    """
    text = f"{error}"
    refused = refusal(error)
    if refused is not None and _SERVER.match(refused):
        return SkybandError(f"the query stopped: {refused}")
    where = f"; Spark's own words are in {log}" if log is not None else ""
    of_families = [cause for family in families() for cause in family.causes]
    for cause in (*of_families, *_CAUSES):
        match = re.search(cause.pattern, text, re.MULTILINE)
        if match is not None:
            detail = next(iter(match.groupdict().values()), None)
            more = _path(text, cause.pattern) if detail is None else f": {detail}"
            return cause.error(
                f"the query stopped: {cause.problem}{more}",
                cause.expected,
                f"{cause.fix.replace('{score}', score)}{where}".lstrip("; "),
            )
    if refused is not None:
        return SkybandError(f"the query stopped: {refused}")
    return SkybandError(f"the query stopped: {_first_line(error)}", fix=where.lstrip("; "))


def _path(text: str, pattern: str) -> str:
    """The path in the line that matches, if any."""
    for line in text.splitlines():
        if re.search(pattern, line):
            path = re.search(r"(?:file:|\w+://)?/[^\s,;'\"\])]+", line)
            return f" ({path.group().rstrip('.')})" if path else ""
    return ""


def _first_line(error: BaseException) -> str:
    """The first line of what a stream says of its end, without error classes and codes."""
    raised = (
        _RAISED.findall(str(error)) if "Traceback (most recent call last)" in str(error) else []
    )
    if raised:
        return str(raised[-1])  # by Python, in a sink
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    line = re.sub(r"^\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: ", "", line)
    line = re.sub(r"^\[[\w.]+\] ", "", line)
    line = re.sub(r" ?SQLSTATE: \w+", "", line)
    return line or type(error).__name__
