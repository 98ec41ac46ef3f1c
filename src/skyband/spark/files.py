"""The rows of a file, staged as Parquet, ranked on an embedded Spark: one way for all families.

Rows without keys are spread over shards by the family's public query, where it has such a way.
Otherwise they go to the local engine inside Python workers, key by key, over plain whole numbers:
times, or arrival numbers. Where panes hold many more rows than can win, their best are found first,
inside the JVM, in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from skyband.engine.columns import array_or_column
from skyband.engine.results import Ranked
from skyband.errors import SkybandError
from skyband.spark import java_process
from skyband.spark.axis import PaneGrid
from skyband.spark.java_process import GONE
from skyband.spark.plan import MOST
from skyband.spark.sessions import FAILURES, log_file, refusal, session, spark_message
from skyband.windows import CountWindow, Window, over_ticks

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.engine.adapter import AnyMonitor
    from skyband.order import Ints
    from skyband.query import TopK

PLACED = ("key", "place", "row")
"""The columns of every staged row; ``place`` is a time, or an arrival number within the key."""

WHOLE = (*PLACED, "object", "stream")
"""The staged columns that hold whole numbers; the others hold numbers of any kind."""

ANSWERS = 2_000_000
"""Ranked rows that one push should not exceed."""

_WINDOWS = "key bigint, start bigint, end bigint, id array<bigint>, score array<{}>"
_RANKS, _PREVIOUS = ", ranks array<bigint>", ", previous_rank array<bigint>"
_BATCH = 32_768
_MANY = 1_000_000  # rows, whose ranking lasts longer than the start of Spark
_BRIEF = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Java that compiles in haste: it starts with half the work, and is slower in the long run."""

_FARTHEST = 60_000_000_000_000_000  # microseconds from 1970 that are a timestamp for sure

Batches = Iterator["pa.RecordBatch"]


class Staged(NamedTuple):
    """Where the rows of a file are; ``ends`` holds, for count windows, each key's last arrival.

    ``prune`` says that panes hold far more rows than can win.
    """

    rows: Path
    ends: Path | None
    prune: bool


@contextmanager
def embedded(master: str | None, rows: int) -> Iterator[SparkSession]:
    """Give the session that is running, or start one for so many rows, which ends with the block.

    Report a failure on Spark in one line, in the words of a worker if it refused the data. Delete
    the log of a session that did not fail.
    """
    running = spark = SparkSession.getActiveSession()
    try:
        if spark is None:
            spark = session(master, settings=_BRIEF if rows < _MANY else None)
        yield spark
    except (*GONE, *FAILURES) as error:
        if java_process.is_gone(error):
            raise java_process.gone("run again, or try --engine local") from None
        refused = refusal(error)
        if refused is not None:
            _delete_log(running)
            raise SkybandError(refused) from None
        log = "" if running else f"its own words are in {log_file()}; "
        raise SkybandError(
            f"Spark failed: {spark_message(error)}", fix=f"{log}try --engine local"
        ) from error
    except KeyboardInterrupt:
        if running is None:
            java_process.end()
        _delete_log(running)
        raise
    else:
        _delete_log(running)
    finally:
        if running is None and spark is not None:
            with suppress(*FAILURES, *GONE):
                spark.stop()


def _delete_log(running: SparkSession | None) -> None:
    """Delete the log of a session that we started."""
    if running is None:
        log_file().unlink(missing_ok=True)


@dataclass(frozen=True)
class FileRanking:
    """How a family ranks staged rows; this one ranks them by score.

    A family overrides what differs: the columns that it ranks by, the monitor that takes them in a
    worker, and the public query that ranks rows without keys in shards.
    """

    query: Any
    algorithm: str = "auto"
    keyed: bool = False

    ids: ClassVar[str] = "row"
    """The column by which answers name what they rank: ``row``, or ``object``."""

    takes_sequence: ClassVar[bool] = True
    """Whether :meth:`best` takes a sequence; otherwise arrival numbers become moments."""

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that are ranked by."""
        return ("score",)

    @property
    def whole(self) -> tuple[str, ...]:
        """Those of them that hold whole numbers of 64 bits."""
        return ()

    @property
    def changes(self) -> bool:
        """Whether answers are what has changed since the window before."""
        return bool(self.query.emit == "changes")

    @property
    def shares_ranks(self) -> bool:
        """Whether rows of equal score share a rank, so that answers say the ranks."""
        return bool(getattr(self.query, "shares_ranks", False))

    @property
    def score_type(self) -> str:
        """The type of the scores of answers."""
        return "double"

    @property
    def also(self) -> dict[str, str]:
        """What answers carry besides scores: ``also_0`` and so on, and their types."""
        return {}

    @property
    def sharded(self) -> bool:
        """Whether :meth:`best` ranks such rows, where their places can be a time or sequence."""
        return False

    def best(self, rows: DataFrame, **window: Any) -> DataFrame:
        """The family's public query over rows, with the options of a time or sequence window."""
        raise NotImplementedError

    def pruned(self, rows: DataFrame) -> DataFrame:
        """Only the rows among the k best of their pane: no other can ever be in an answer."""
        query = self.query
        pane = _pane(query.window)
        if self.shares_ranks:
            return tied_of_panes(rows, pane, query)
        return best_of_panes(rows, pane, query.k, query.ties == "oldest")

    def monitor(self) -> Callable[..., AnyMonitor]:
        """What makes a monitor in a worker, of the query and an algorithm."""
        from skyband.topk.monitor import Monitor

        return Monitor

    def pushed(self, columns: list[np.ndarray]) -> Any:
        """What the monitor takes for scores, of the columns that are ranked by."""
        return columns[0]

    def answer(self, batches: Batches) -> Batches:
        """Rank the sorted rows of some keys, in a worker."""
        from skyband.partitioned import Partitioned

        engine = Partitioned(self.query, self.algorithm, self.monitor())
        step = max(256, min(_BATCH, ANSWERS // min(self.query.k, self.query.window.size)))
        for whole in batches:
            for low in range(0, whole.num_rows, step):
                batch = whole.slice(low, step)
                for part in engine.push(
                    self.pushed([array_or_column(batch, name) for name in self.numbers]),
                    keys=nonnull_array(batch, "key"),
                    ids=nonnull_array(batch, self.ids),
                    times=nonnull_array(batch, "place"),
                ):
                    yield windows(part.key, part.ranked)
        for part in engine.finish():
            yield windows(part.key, part.ranked)


def rank_staged(
    spark: SparkSession, staged: Staged, ranking: FileRanking, out: Path
) -> Iterator[tuple[Ints, Ranked]]:
    """The ranked windows of staged rows, and their keys, part by part.

    ``out`` is a directory that does not exist yet.
    """
    names = (*PLACED, *(["object"] if ranking.ids == "object" else []), *ranking.numbers)
    bigints = (*WHOLE, *ranking.whole)
    schema = ", ".join(f"{name} {'bigint' if name in bigints else 'double'}" for name in names)
    rows = spark.read.schema(schema).parquet(_uri(staged.rows))
    if staged.prune:
        rows = ranking.pruned(rows)
    if staged.ends is not None:
        rows = rows.unionByName(spark.read.schema(schema).parquet(_uri(staged.ends)))
    query = ranking.query
    sharded = ranking.sharded and query.k <= MOST
    if sharded and (isinstance(query.window, CountWindow) or _are_moments(rows)):
        _by_shards(rows, ranking).write.parquet(_uri(out))
        return _read_ranks(out, ranking)
    ranks = _RANKS if ranking.changes or ranking.shares_ranks else ""
    answers = _WINDOWS.format(ranking.score_type) + ranks + (_PREVIOUS if ranking.changes else "")
    answers += "".join(f", {name} array<{type}>" for name, type in ranking.also.items())
    doubles = [name for name in ranking.numbers if name not in ranking.whole]
    (
        rows.withColumns({name: F.col(name).cast("double") for name in doubles})
        .repartition("key")
        .sortWithinPartitions("key", "place", "row")
        .mapInArrow(ranking.answer, answers)
        .write.parquet(_uri(out))
    )
    return _read_windows(out, ranking)


def best_of_panes(rows: DataFrame, pane: Column, k: int, oldest_first: bool = False) -> DataFrame:
    """Only the rows among the k best of each key and pane."""
    row = F.struct("place", "row", "score")
    best = F.max_by(row, F.struct("score", "place", "row"), k)
    if oldest_first:
        best = F.min_by(row, F.struct(-F.col("score"), "place", "row"), k)
    panes = rows.groupBy("key", pane.alias("pane")).agg(best.alias("best"))
    return panes.select("key", F.inline("best"))


def tied_of_panes(rows: DataFrame, pane: Column, query: TopK) -> DataFrame:
    """Only the rows of each key and pane that rank among the k best there, and share ranks.

    Spark finds most of the others before the shuffle.
    """
    best_first = Over.partitionBy("key", "pane").orderBy(F.desc("score"))
    rank = F.call_function(query.rank_by).over(best_first)
    ranked = rows.withColumn("pane", pane).withColumn("rank", rank)
    return ranked.filter(F.col("rank") <= query.k).drop("pane", "rank")


def _pane(window: Window) -> Column:
    """The pane of a row's place."""
    grid, place = PaneGrid.of(window), F.col("place")
    return grid.pane_sql(grid.label_sql(place), grid.in_longer_pane_sql(place))


def _by_shards(rows: DataFrame, ranking: FileRanking) -> DataFrame:
    """All windows of rows without keys: ``end``, ``rank``, ``score`` and an id."""
    window = ranking.query.window
    if isinstance(window, CountWindow) and ranking.takes_sequence:
        best = ranking.best(
            rows, sequence="place", window=window.size, slide=window.slide, full=window.full
        )
        end = F.col("window.end")
    else:
        over = over_ticks(window.size, window.slide) if isinstance(window, CountWindow) else window
        best = ranking.best(
            rows.withColumn("at", F.timestamp_micros("place")),
            time="at",
            window=replace(over, unit="us"),
            skew=None,
        )
        end = F.unix_micros("window.end")
    return best.select(end.alias("end"), "rank", "score", ranking.ids, *ranking.also)


def _are_moments(rows: DataFrame) -> bool:
    """Whether places, as microseconds, are timestamps that Spark can hold; ticks may be any."""
    farthest = rows.agg(F.max(F.abs("place")).alias("place")).collect()[0]["place"]
    return farthest is not None and farthest < _FARTHEST


def nonnull_array(batch: pa.RecordBatch, name: str) -> Any:
    """A column without NULLs as an array that may be written to, as kernels want it."""
    return np.array(np.from_dlpack(batch.column(name)))


def windows(key: Ints, ranked: Ranked) -> pa.RecordBatch:
    """Ranked windows as a record batch, one row per window."""
    import pyarrow as pa

    columns = {"id": ranked.id, "score": ranked.score}
    if ranked.ranks is not None:
        columns |= {"ranks": ranked.ranks}
    if ranked.previous_rank is not None:
        columns |= {"previous_rank": ranked.previous_rank}
    offsets = pa.array(ranked.offsets.astype(np.int32))
    lists = {
        name: pa.ListArray.from_arrays(offsets, pa.array(values))
        for name, values in columns.items()
    }
    for at, values in enumerate((ranked.also or {}).values()):
        numbers = pa.array(values, from_pandas=True)  # NaN is NULL
        lists[f"also_{at}"] = pa.ListArray.from_arrays(offsets, numbers)
    bounds = {"key": key, "start": ranked.window_start, "end": ranked.window_end}
    return pa.RecordBatch.from_pydict(
        {name: pa.array(values) for name, values in bounds.items()} | lists
    )


def _nullable_array(column: pa.Array) -> Any:
    """A column of numbers with NULL as NaN; whole numbers are masked there."""
    if not column.null_count:
        return np.array(np.from_dlpack(column))
    null = np.asarray(column.is_null().to_numpy(zero_copy_only=False), np.bool_)
    values = np.array(np.from_dlpack(column.fill_null(0)))
    return (
        np.where(null, np.nan, values) if values.dtype == float else np.ma.array(values, mask=null)
    )


def _also(ranking: FileRanking, columns: list[Any]) -> dict[str, Any] | None:
    """What answers carry, under the names of the query."""
    return dict(zip(ranking.query.also, columns, strict=True)) if columns else None


def _read_windows(directory: Path, ranking: FileRanking) -> Iterator[tuple[Ints, Ranked]]:
    """What :func:`windows` wrote, from the files of Spark."""
    from pyarrow import parquet

    for file in sorted(directory.glob("*.parquet")):
        with parquet.ParquetFile(file) as opened:
            for batch in opened.iter_batches():
                offsets = np.from_dlpack(batch.column("id").offsets).astype(np.int64)
                lists: dict[str, Any] = {
                    name: np.array(np.from_dlpack(batch.column(name).flatten()))
                    for name in batch.schema.names[3:]
                    if name not in ranking.also
                }
                also = [_nullable_array(batch.column(name).flatten()) for name in ranking.also]
                bounds = (
                    nonnull_array(batch, "start"),
                    nonnull_array(batch, "end"),
                    offsets - offsets[0],
                )
                yield (
                    nonnull_array(batch, "key"),
                    Ranked(*bounds, **lists, also=_also(ranking, also)),
                )


def _read_ranks(directory: Path, ranking: FileRanking) -> Iterator[tuple[Ints, Ranked]]:
    """What :func:`_by_shards` gave, from the files of Spark."""
    from pyarrow import parquet

    batches = parquet.read_table(directory).combine_chunks().to_batches()
    if not batches:
        return
    (batch,) = batches
    window = ranking.query.window
    end, rank = nonnull_array(batch, "end"), nonnull_array(batch, "rank")
    order = np.lexsort((rank, end))
    ends, first = np.unique(end[order], return_index=True)
    panes = window.panes
    start = panes.starts((ends - panes.offset) // panes.slide)
    yield (
        np.zeros(len(ends), np.int64),
        Ranked(
            window_start=np.maximum(start, 0) if isinstance(window, CountWindow) else start,
            window_end=ends,
            offsets=np.append(first, len(order)),
            score=nonnull_array(batch, "score")[order],
            id=nonnull_array(batch, ranking.ids)[order],
            ranks=rank[order].astype(np.int64) if ranking.shares_ranks else None,
            also=_also(
                ranking, [_nullable_array(batch.column(name))[order] for name in ranking.also]
            ),
        ),
    )


def _uri(path: Path) -> str:
    """A path of this machine, whatever Spark's own file system is."""
    return f"file:{path}"
