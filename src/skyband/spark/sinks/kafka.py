"""Topics of Kafka: ranked windows as records, keyed by their place in a ranking."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skyband.spark.columns import quoted
from skyband.spark.sinks.ranked_batch import BatchWriter, RankedLayout
from skyband.spark.state.updates import UPDATE_COLUMNS

SERVERS = "kafka.bootstrap.servers"
"""The option of Spark that says where brokers are."""

# the defaults drop microseconds, and follow the zone of the session: keys would, too
_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
}


def to_kafka(
    leaders: DataFrame, servers: str, topic: str, *, options: Mapping[str, str] | None = None
) -> BatchWriter:
    """Make a writer of ranked windows into a topic of Kafka, for ``foreachBatch``.

    Each row is a record: see :func:`records`. A batch that is run again after a crash is written
    again, under the same keys: at least once, and once in a topic that is compacted. ``servers``
    are where brokers are, ``options`` those of Spark's connector, such as ``kafka.acks``.
    """
    layout = RankedLayout.of(leaders)
    connector_options = {**(options or {}), SERVERS: servers, "topic": topic}

    def write(rows: DataFrame, batch: int) -> None:
        writer = records(rows, layout).write.format("kafka").options(**connector_options)
        writer.mode("append").save()

    return write


def records(leaders: DataFrame, layout: RankedLayout | None = None) -> DataFrame:
    """Make records of ranked rows, in JSON: a key names a place in a ranking.

    A row that is written twice has the same key both times. Rows that left have no rank, but one
    that they had. Where rows share ranks, all that is known of a row is part of its key. Headers
    say what a record is about to readers that do not parse it: the window, and its revision.
    ``layout`` is that of the stream whose rows they are, if they are a batch of it.
    """
    layout = layout or RankedLayout.of(leaders)
    names = [*layout.groups]
    if layout.emit == "changes":
        names.append("previous_rank")
    if layout.shares_ranks:
        others = ("window", "rank", "score", *UPDATE_COLUMNS)
        names = [name for name in leaders.columns if name not in others]
    end = F.col("window.end").alias("end")
    key = F.to_json(F.struct(end, *(F.col(quoted(name)) for name in names), "rank"), _JSON)
    return leaders.select(
        key.alias("key"),
        F.to_json(F.struct("*"), _JSON).alias("value"),
        _headers(leaders).alias("headers"),
    )


def _headers(leaders: DataFrame) -> Column:
    window = F.to_json("window", _JSON)  # moments are written as in the value
    texts = {name: F.get_json_object(window, f"$.{name}") for name in ("start", "end")}
    texts |= {name: F.col(name) for name in UPDATE_COLUMNS if name in leaders.columns}
    return F.array(
        *(
            F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
            for name, value in texts.items()
        )
    )
