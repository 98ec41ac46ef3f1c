"""The manifest of a checkpoint: which query it belongs to, and what Spark's logs say of it.

Spark goes on from a checkpoint whatever the query has become since, and then answers neither the
old query nor the new one. So the first run leaves a description of the query in the checkpoint,
and later runs must match it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from os import PathLike
from typing import Any, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skyband
from skyband.durations import spoken
from skyband.errors import QueryError, SnapshotError
from skyband.spark.families import description_of, family_of
from skyband.spark.options import plain_path
from skyband.spark.plan import PARTITIONS
from skyband.spark.state.processor import STATE_VERSION
from skyband.totals.aggregate import parsed

Answer = TypeVar("Answer")

FORMAT = 1
_DRAINED = 190_000_000_000_000  # ms: watermarks beyond are those of a drained stream
_RANKED_BY = ("score", "scores", "dominating")  # texts of what rows are ranked by
_DURATIONS = ("window", "slide", "offset", "delay")


def claim(leaders: DataFrame, checkpoint: str | PathLike[str]) -> str:
    """Say that a checkpoint belongs to this query; returns the checkpoint.

    The first call writes a manifest into the checkpoint directory, on any file system that Spark
    knows. Later calls raise :class:`QueryError` if the query is another one, or if the stream was
    drained and is finished.

    Example::

        leaders = top_k(trades, ...)
        stream = leaders.writeStream.option("checkpointLocation", claim(leaders, "checkpoint"))
    """
    checkpoint = plain_path(checkpoint, "checkpoint")
    query = described(leaders)
    spark = leaders.sparkSession
    now = {
        "format": FORMAT,
        "skyband": skyband.__version__,
        "state_version": STATE_VERSION,
        "shuffle_partitions": int(spark.conf.get(PARTITIONS) or 0),
        "query": query,
    }
    before = read(spark, checkpoint)
    if before is None:
        _write(spark, checkpoint, {**now, "revision": 1}, "overwrite")
        return checkpoint
    _compare(before, now, checkpoint)
    if finished(spark, checkpoint):
        raise QueryError(
            f"this stream was drained: checkpoint {checkpoint} is finished",
            "a stream that goes on",
            "start a new checkpoint, and a new sink, for new rows",
        )
    if family_of(query).revised(spark, before, query, checkpoint):
        _write(spark, checkpoint, {**now, "revision": before["revision"] + 1}, "append")
    return checkpoint


def _write(spark: SparkSession, checkpoint: str, manifest: dict[str, Any], mode: str) -> None:
    """Write a manifest as one line; of several the one of the highest revision counts."""
    line = spark.range(1).coalesce(1).select(F.lit(json.dumps(manifest, sort_keys=True)))
    line.write.mode(mode).text(_place(checkpoint))


def described(leaders: DataFrame) -> dict[str, Any]:
    """The description of the query that made a stream, as the manifest holds it."""
    query = description_of(leaders, "claim the result of top_k")
    if not leaders.isStreaming:
        raise QueryError("a batch DataFrame", "a stream: only streams have checkpoints")
    return family_of(query).expanded(query)


def read(spark: SparkSession, checkpoint: str) -> dict[str, Any] | None:
    """The manifest of a checkpoint, or None if it is new.

    Raises :class:`SnapshotError` if it is damaged, and :class:`QueryError` if Spark has used the
    checkpoint without one.
    """
    lines = _lines(spark, _place(checkpoint))
    if not lines and _lines(spark, f"{checkpoint.rstrip('/')}/metadata") is None:
        return None  # none yet, or its writing was cut short before Spark came
    if lines is None:
        raise QueryError(
            f"checkpoint {checkpoint} belongs to a query that nothing is known of",
            "a new directory, or a checkpoint with a manifest",
            "start a new checkpoint",
        )
    manifest = _parsed(lines)
    if manifest is None:
        raise SnapshotError(
            f"the manifest in {_place(checkpoint)} is damaged",
            "what claim() wrote",
            "restore it from a copy, or start a new checkpoint",
        )
    if manifest["format"] != FORMAT:
        raise SnapshotError(
            f"the manifest in {_place(checkpoint)} is of format {manifest['format']}",
            f"format {FORMAT}",
            "go on with the release that began this checkpoint",
        )
    return manifest


def _parsed(lines: list[str]) -> dict[str, Any] | None:
    """The manifest of the highest revision; None if a line is none."""
    fields = {"format": int, "state_version": int, "shuffle_partitions": int, "query": dict}
    newest: dict[str, Any] | None = None
    for line in lines:
        try:
            manifest = json.loads(line)
        except json.JSONDecodeError:
            return None
        if not isinstance(manifest, dict):
            return None
        if not all(isinstance(manifest.get(name), type) for name, type in fields.items()):
            return None
        manifest = {"revision": 1, **manifest}
        if newest is None or manifest["revision"] > newest["revision"]:
            newest = manifest
    return newest


def committed(spark: SparkSession, checkpoint: str) -> int | None:
    """The watermark, in milliseconds, after the last batch that was committed; None before."""

    def newest() -> int | None:
        log = spark.read.text(f"{checkpoint.rstrip('/')}/commits")
        watermark = F.get_json_object("value", "$.nextBatchWatermarkMs").cast("bigint")
        batch = F.col("_metadata.file_name").cast("bigint")
        lines = log.filter(F.col("value").startswith("{"))
        milliseconds: int | None = lines.select(F.max_by(watermark, batch)).collect()[0][0]
        return milliseconds

    return _from_log(checkpoint, newest, None)


def finished(spark: SparkSession, checkpoint: str) -> bool:
    """Whether a stream was drained and has answered everything.

    Spark's log says with which watermark a batch ran, and which batches were committed.
    """

    def drained() -> bool:
        logs = spark.read.text(
            [f"{checkpoint.rstrip('/')}/{log}" for log in ("offsets", "commits")]
        )
        watermark = F.get_json_object("value", "$.batchWatermarkMs").cast("bigint")
        batches = logs.groupBy(F.col("_metadata.file_name").alias("batch")).agg(
            F.max(F.when(F.col("value").startswith("{"), watermark)).alias("watermark"),
            F.max(F.col("_metadata.file_path").contains("/commits/")).alias("committed"),
        )
        return not batches.filter(F.col("committed") & (F.col("watermark") > _DRAINED)).isEmpty()

    return _from_log(checkpoint, drained, False)


def _from_log(checkpoint: str, read: Callable[[], Answer], default: Answer) -> Answer:
    """Read Spark's log, with a default if there is none yet; raises if it is damaged."""
    try:
        return read()
    except AnalysisException:
        return default
    except Exception as error:  # Spark's streams read these logs without looking at checksums
        if "ChecksumException" not in str(error):
            raise
        raise SnapshotError(
            f"the log of checkpoint {checkpoint} is damaged",
            "what Spark wrote",
            "restore it from a copy, or start a new checkpoint",
        ) from None


def _compare(before: dict[str, Any], now: dict[str, Any], checkpoint: str) -> None:
    if before["state_version"] != now["state_version"]:
        raise SnapshotError(
            f"checkpoint {checkpoint} holds state of version {before['state_version']}",
            f"version {now['state_version']}",
            "finish this stream with the release that began it, or start a new checkpoint",
        )
    old, new = before["query"], now["query"]
    revisable = {family_of(query).revisable for query in (old, new)}
    unspoken = family_of(old).unspoken
    names = [name for name in {**old, **new} if name not in revisable]
    changed = [
        f"{name} was {_shown(old, name)} and is now {_shown(new, name)}"
        for name in names
        if old.get(name) != new.get(name)
        and old.get(name) not in unspoken
        and not (name in _RANKED_BY and _is_now_cast(name, old, new))
    ]
    if changed:
        if _is_now_exact(old, new):
            changed = [
                f"{old['score']} was of doubles and is now exact",
                *(text for text in changed if not text.startswith(("score_type ", "held "))),
            ]
        raise QueryError(
            f"checkpoint {checkpoint} belongs to another query: {', '.join(changed)}",
            "the query that began it",
            f"write by='{as_double(old['score'])}', which goes on as it was, or start a new "
            "checkpoint, and a new sink"
            if _is_now_exact(old, new)
            else "restore the query, or start a new checkpoint, and a new sink",
        )
    ours, theirs = now["shuffle_partitions"], before["shuffle_partitions"]
    if ours != theirs:
        raise QueryError(
            f"shuffle partitions are {ours}, checkpoint {checkpoint} was begun with {theirs}",
            f"{theirs}: Spark cannot change them later",
            f"write session(shuffle_partitions={theirs}), or start a new checkpoint",
        )


def as_double(score: str) -> str:
    """A score as a double, or a total of doubles: releases before took all numbers as such.

    >>> as_double("price"), as_double("max(price)")
    ('CAST(price AS DOUBLE)', 'max(CAST(price AS DOUBLE))')
    """
    total = parsed(score)
    if total is None or total.value is None:
        return f"CAST({score} AS DOUBLE)"
    return str(total._replace(value=f"CAST({total.value} AS DOUBLE)"))


def same_score(old: str, new: str) -> bool:
    """Whether a score is what it was, or the double by a cast that it silently was before."""
    return new == old or _plain(new) in (_plain(f"CAST({old} AS DOUBLE)"), _plain(as_double(old)))


def _plain(text: str) -> str:
    return "".join(text.upper().split())


def _is_now_cast(name: str, old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether what rows are ranked by is the same but for casts to doubles, which they were."""
    was, now = old.get(name), new.get(name)
    if "score_type" in old or was is None or now is None:
        return False
    if isinstance(was, str):
        return same_score(was, now)
    if len(was) != len(now):
        return False
    if name == "scores":
        return all(map(same_score, was, now))
    pairs = [(a.rpartition(" "), b.rpartition(" ")) for a, b in zip(was, now, strict=True)]
    return all(a[2] == b[2] and same_score(a[0], b[0]) for a, b in pairs)


def _is_now_exact(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether the same score was rounded to doubles by the release that began a checkpoint."""
    if old.get("score") is None or old.get("score") != new.get("score"):
        return False
    is_typed = "score_type" in new and "score_type" not in old
    return is_typed or (old.get("held") in ("extremes", "doubles") and old["held"] != new["held"])


def _shown(query: dict[str, Any], name: str) -> str:
    """A field as people write it."""
    value = query.get(name)
    if value is None:
        return "not there"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if name in _DURATIONS and query.get("windows") == "time":
        if name == "offset":  # of ends; people write where windows start
            value -= query["window"] % query["slide"]
        return spoken(value)
    if name == "delay" and query.get("windows") == "arrival":
        return spoken(value)
    return repr(value) if isinstance(value, str) else str(value).lower()


def _place(checkpoint: str) -> str:
    return f"{checkpoint.rstrip('/')}/skyband/manifest"


def _lines(spark: SparkSession, path: str) -> list[str] | None:
    """The lines of a text file or a directory of them; None if there is none."""
    try:
        return [row[0] for row in spark.read.text(path).collect()]
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return None
        raise
