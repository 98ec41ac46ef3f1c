"""Why a query failed, told for people."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from skyband.errors import DataError, QueryError, SkybandError, SnapshotError
from skyband.spark.families.incomplete.plan import OUTSIDE, UNKNOWN

_SCORE = "write try_divide, try_cast or try_add in query.by: they give NULL, which is not ranked"
_NEW = "start a new checkpoint, or restore this one from a copy"


class _Cause(NamedTuple):
    """What Spark says (a pattern), and what it means; ``told`` in a pattern is told, too."""

    said: str
    kind: type[SkybandError]
    found: str
    expected: str
    fix: str


_CAUSES = (
    _Cause(
        rf"{OUTSIDE}: (?P<told>.*? is not from \S+ to \S+)",
        DataError,
        "a value is beyond its bounds",
        "values within the bounds of their stream",
        "declare wider bounds, or outside: clip",
    ),
    _Cause(
        rf"{UNKNOWN}: (?P<told>.*? is none of .*?)(?= SQLSTATE|$)",
        DataError,
        "a row belongs to no stream of the query",
        "rows of the streams that are named",
        "name it in streams, or leave its rows out of the source",
    ),
    _Cause(
        r"DIVIDE_BY_ZERO|REMAINDER_BY_ZERO",
        DataError,
        "the score divides by zero",
        "a score for every row",
        "write try_divide(a, b) instead of a / b in query.by",
    ),
    _Cause(
        r"CAST_INVALID_INPUT|CAST_OVERFLOW|CANNOT_PARSE",
        DataError,
        "the score casts a value that does not fit",
        "a score for every row",
        "write try_cast(x AS double) instead of cast(x AS double) in query.by",
    ),
    _Cause(
        r"ARITHMETIC_OVERFLOW|BINARY_ARITHMETIC_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE",
        DataError,
        "the score is too large for its type",
        "a score for every row",
        "compute with doubles: cast a column to double first",
    ),
    _Cause(
        r"holds state of version|state of version \d|STATE_STORE_\w+_SCHEMA_NOT_COMPATIBLE",
        SnapshotError,
        "the checkpoint holds the state of another release or query",
        "the release and the query that began it",
        _NEW,
    ),
    _Cause(
        r"CONCURRENT_(STREAM|QUERY)|Concurrent update to the (commit )?log"
        r"|Multiple streaming queries are concurrently using",
        QueryError,
        "another run uses the same checkpoint",
        "one run at a time",
        "stop the other run, or give this job a checkpoint of its own",
    ),
    _Cause(
        r"No space left on device|Disk quota exceeded",
        SkybandError,
        "the disk is full",
        "room for results, checkpoint and temporary files",
        "free some space and run again: the stream goes on where it was",
    ),
    _Cause(
        r"FILE_NOT_EXIST|FileNotFoundException|does not exist.*part-",
        DataError,
        "a file of the source or the checkpoint is gone",
        "files that stay until they are read",
        "restore it; or set the option ignoreMissingFiles to true in source.options",
    ),
    _Cause(
        r"FAILED_READ_FILE|is not a Parquet file|MALFORMED_RECORD|MALFORMED_CSV",
        DataError,
        "a file of the source cannot be read",
        "files in the source's format that are complete: write elsewhere, then rename",
        "remove it; or set the option ignoreCorruptFiles to true in source.options",
    ),
    _Cause(
        r"CANNOT_LOAD_STATE_STORE|STATE_STORE|CHECKPOINT|Malformed log file|Incomplete log file"
        r"|batch \d+ doesn't exist|OffsetSeqLog|CommitLog|HDFSMetadataLog|MISSING_METADATA_FILE"
        r"|OFFSET_LOG|METADATA_FILE|log file was malformed|Unable to find batch"
        r"|Unexpected end-of-input|Unexpected character|Unrecognized token",
        SnapshotError,
        "the checkpoint is damaged",
        "what Spark wrote there",
        _NEW,
    ),
    _Cause(
        r"PATH_NOT_FOUND",
        DataError,
        "there is nothing at the source's path",
        "files, or a directory for them",
        "",
    ),
    _Cause(
        r"PATH_ALREADY_EXISTS",
        QueryError,
        "there is something at the sink's path already",
        "a new directory: a batch is written once",
        "remove it, or name another sink.path",
    ),
    _Cause(
        r"DATA_SOURCE_NOT_FOUND|Failed to find (the )?data source",
        QueryError,
        "Spark does not know a format of the job",
        "a format that Spark has, or that a package brings",
        "name the package in session.settings: spark.jars.packages",
    ),
)
_CAUSED = re.compile(r"^(?:Caused by: )?[\w.$]*(?:Exception|Error): (.*)$", re.MULTILINE)


def reworded(error: BaseException, log: Path | None) -> SkybandError:
    """An error of Spark as one of ours; ``log`` is where Spark told it all."""
    text = f"{error}"
    where = f"; Spark's own words are in {log}" if log is not None else ""
    for cause in _CAUSES:
        match = re.search(cause.said, text, re.MULTILINE)
        if match is not None:
            told = match.groupdict().get("told")
            detail = _detail(text, cause.said) if told is None else f": {told}"
            return cause.kind(
                f"the query stopped: {cause.found}{detail}",
                cause.expected,
                f"{cause.fix}{where}".lstrip("; "),
            )
    return SkybandError(f"the query stopped: {_first(text)}", fix=where.lstrip("; "))


def _detail(text: str, said: str) -> str:
    """The path that is spoken of, if any."""
    for line in text.splitlines():
        if re.search(said, line):
            path = re.search(r"(?:file:|\w+://)?/[^\s,;'\"\])]+", line)
            return f" ({path.group().rstrip('.')})" if path else ""
    return ""


def _first(text: str) -> str:
    """The first sentence that tells something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = (
        re.sub(r"^\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: ", "", lines[0])
        if lines
        else ""
    )
    line = re.sub(r"^\[[\w.]+\] ", "", line)
    line = re.sub(r" ?SQLSTATE: \w+", "", line)
    return line or type(text).__name__
