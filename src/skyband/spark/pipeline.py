"""The way of every query: a DataFrame of rows in, a DataFrame of ranked windows out.

    rows -> project -> set aside -> mark of the end -> panes -> state -> merge -> ranked rows

Families differ in what a pane holds and in what is kept of it; their plans say so.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from skyband.errors import QueryError
from skyband.spark import draining, quarantine
from skyband.spark.columns import ALL, POSITION, quoted, score_names
from skyband.spark.derive import derived
from skyband.spark.options import CommonOptions
from skyband.spark.plan import Family, Plan
from skyband.spark.scan.source import ParquetSource
from skyband.spark.sessions import SETTINGS
from skyband.spark.state import batch
from skyband.spark.state.processor import StateSpec, WindowProcessor
from skyband.spark.warm_up import start_scanning_workers

if TYPE_CHECKING:
    from skyband.spark.scan.planning import Reading

LOG = logging.getLogger("skyband.scan")

_STORE = "spark.sql.streaming.stateStore.providerClass"


def ask(df: DataFrame | ParquetSource, family: Family, options: CommonOptions) -> DataFrame:
    """Answer what a family is asked of a DataFrame, or of files."""
    source, frame = (df, df.frame) if isinstance(df, ParquetSource) else (None, df)
    rows, options = derived(frame, options)
    plan = family.resolve(rows, options)
    files = reading(rows, plan, source)
    if files is not None:
        LOG.info("files are %s", files.words)
        if files.scan is not None and rows.isStreaming:
            start_scanning_workers(rows.sparkSession)
    return answer(rows, plan, files=files)


def answer(
    df: DataFrame,
    plan: Plan,
    counts: Observation | None = None,
    files: Reading | None = None,
) -> DataFrame:
    """Answer a query over a DataFrame that it was planned for.

    ``counts`` observes what was read of a batch and what could not be ranked; a stream reports it
    with its progress. ``files`` says who reads those of the DataFrame, if tasks may.
    """
    base = plan.base
    if df.isStreaming:
        check_store(df)
    projected = plan.project(project(df, plan))
    scanned = None if files is None else files.rows(base.partitions)
    if scanned is None:
        rows = quarantine.admitted(projected, plan, counts)
    else:
        rows = quarantine.counted_by_tasks(scanned, plan, counts)
    if df.isStreaming and base.drain is not None:
        rows = draining.with_mark(rows, base.axis, base.drain)
    panes = plan.panes(rows, None if df.isStreaming else _newest(projected, plan))
    spec = plan.stream_state() if df.isStreaming else plan.state()
    answers = plan.merge(keep_state(panes, spec))
    if plan.updates and not df.isStreaming:  # all rows are there
        answers = answers.withColumns({"revision": F.lit(1).cast("bigint"), "final": F.lit(True)})
    return plan.output(answers)


def reading(df: DataFrame, plan: Plan, source: ParquetSource | None) -> Reading | None:
    """Decide who reads the files of a query, tasks or Spark; None if it has no files."""
    if source is None:
        return None
    from skyband.spark.scan import planning  # only files need what it imports

    return planning.reading(source, plan.project(project(df, plan)).schema, plan)


def check_store(df: DataFrame) -> None:
    """Refuse other state stores than RocksDB: Spark does, too, but late."""
    store = df.sparkSession.conf.get(_STORE, "") or ""
    if "RocksDB" not in store:
        raise QueryError(
            f"{_STORE} is {store or 'not set'}",
            "Spark's RocksDB store, which stateful processors need",
            f"use skyband.spark.session(), or set it to {SETTINGS[_STORE]}",
        )


def project(df: DataFrame, plan: Plan) -> DataFrame:
    """Only what the query needs, under our names: keys, scores, position, ties, columns."""
    base, scores = plan.base, plan.scores
    # what is shown while it is open passes no aggregation of Spark's, which makes keys equal
    equal = plan.updates and df.isStreaming
    packed = (key.pack_equal_key() if equal else key.pack_key() for key in base.keys)
    keys = [key.alias(f"key_{i}") for i, key in enumerate(packed)]
    return df.select(
        *(keys or [F.lit(0).alias(ALL)]),
        *(score.alias(name) for score, name in zip(scores, score_names(len(scores)), strict=True)),
        base.axis.position_sql().cast("bigint").alias(POSITION),
        *(tie.pack().alias(f"tie_{i}") for i, tie in enumerate(base.ties)),
        *(column.pack().alias(f"kept_{i}") for i, column in enumerate(base.columns)),
        *(F.col(quoted(name)).alias(f"same_{i}") for i, name in enumerate(base.deduplicate_by)),
        *plan.extras,
    )


def _newest(projected: DataFrame, plan: Plan) -> Column | None:
    """The newest position of a batch, if rows complete windows."""
    axis = plan.base.axis
    if not axis.counts_rows:
        return None
    return quarantine.sound(projected, axis).agg(F.max(POSITION)).scalar()


def keep_state(panes: DataFrame, spec: StateSpec) -> DataFrame:
    """The windows of each group of panes: by the one processor, or all at once for a batch."""
    names = spec.groups
    keys = [StructField(f"key_{i}", panes.schema[name].dataType) for i, name in enumerate(names)]
    schema = StructType([*keys, *spec.output])
    if not panes.isStreaming:
        return batch.answered(panes, spec, schema)
    packed = spec.packed()
    if packed is None:
        return _processed(panes, spec, schema)
    blocks = StructType([*keys, *packed.output])
    return packed.unpack(_processed(packed.pack(panes), packed, blocks), schema)


def _processed(panes: DataFrame, spec: StateSpec, schema: StructType) -> DataFrame:
    """What the one processor answers to the panes of a stream."""
    return panes.groupBy(*spec.groups).transformWithState(
        statefulProcessor=WindowProcessor(spec, len(spec.groups)),
        outputStructType=schema,
        outputMode="append",
        timeMode="EventTime",
    )
