"""The rows of a file, staged as Parquet, ranked on an embedded Spark.

Where panes hold many more rows than can win, their best are found inside the JVM, in parallel, as
on the pane path. What is left goes to the local engine, key by key, inside Python workers: count
windows and time windows alike, over plain whole numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband.engine.results import Ranked
from skyband.errors import SkybandError
from skyband.query import TopK
from skyband.spark import panes as aggregation
from skyband.spark.options import Asked
from skyband.spark.plan import question
from skyband.spark.sessions import FAILURES, log_file, said, session
from skyband.windows import TimeWindow

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.engine.adapter import AnyMonitor
    from skyband.order import Ints
    from skyband.partitioned import RankedByKey

ROWS = "key bigint, place bigint, row bigint, score double"
"""Rows that can be ranked; ``place`` is a time, or an arrival number within the key."""

WINDOWS = "key bigint, end bigint, rows array<bigint>, scores array<double>"
CHANGES = ", ranks array<bigint>, previous array<bigint>"

_BATCH = 32_768
_ANSWERS = 2_000_000  # ranked rows that one push should not exceed

_MANY = 1_000_000  # rows, whose ranking lasts longer than the start of Spark
_BRIEF = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Java that compiles in haste: it starts with half the work, and is slower in the long run."""

_FARTHEST = 60_000_000_000_000_000  # microseconds from 1970 that are a timestamp for sure

_REFUSED = re.compile(r"^skyband\.errors\.\w+: (.+)$", re.MULTILINE)  # by a Python worker

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
    """The session that is running, or one of our own for so many rows; it ends with the block.

    Whatever fails on Spark is told in one line, in the words of a worker if it refused the data.
    What Spark had to say is kept only if it failed.
    """
    running = spark = SparkSession.getActiveSession()
    try:
        if spark is None:
            spark = session(master, settings=_BRIEF if rows < _MANY else None)
        yield spark
    except FAILURES as error:
        refused = _REFUSED.search(str(error))
        if refused is not None:
            _forget_log(running)
            raise SkybandError(refused[1]) from None
        words = "" if running else f"its own words are in {log_file()}; "
        raise SkybandError(
            f"Spark failed: {said(error)}", fix=f"{words}try --engine local"
        ) from error
    except KeyboardInterrupt:
        _forget_log(running)
        raise
    else:
        _forget_log(running)
    finally:
        if running is None and spark is not None:
            spark.stop()


def _forget_log(running: SparkSession | None) -> None:
    """Nobody needs the words of a session of our own that did what it should."""
    if running is None:
        log_file().unlink(missing_ok=True)


def ranked_windows(
    spark: SparkSession, staged: Staged, query: TopK, algorithm: str, out: Path
) -> Iterator[tuple[Ints, Ranked]]:
    """The ranked windows of staged rows, and their keys, part by part.

    ``out`` is a directory that does not exist yet.
    """
    rows = spark.read.schema(ROWS).parquet(uri(staged.rows))
    if staged.prune:
        rows = best_of_panes(rows, query)
    if staged.ends is not None:
        rows = rows.unionByName(spark.read.schema(ROWS).parquet(uri(staged.ends)))
    return by_key(rows, query, answerer(query, algorithm), out)


def by_key(
    rows: DataFrame, query: TopK, answer: Callable[[Batches], Batches], out: Path
) -> Iterator[tuple[Ints, Ranked]]:
    """Have the rows of each key answered in a Python worker, and read what it wrote."""
    changes = CHANGES if query.emit == "changes" else ""
    (
        rows.repartition("key")
        .sortWithinPartitions("key", "place", "row")
        .mapInArrow(answer, WINDOWS + changes)
        .write.parquet(uri(out))
    )
    return _read(out, query)


def best_of_panes(rows: DataFrame, query: TopK) -> DataFrame:
    """Only the rows that are among the k best of their pane: no other can ever be in an answer."""
    window = query.window
    offset = window.offset if isinstance(window, TimeWindow) else 0
    asked = Asked(
        k=query.k,
        by="score",
        window=window.size,
        slide=window.slide,
        sequence="at",
        partition_by="key",
        id="row",
        keep=["row", "place"],
    )
    shifted = rows.withColumn("at", F.col("place") - F.lit(offset % window.slide))
    checked = question(shifted, asked)
    placed = aggregation.labelled(aggregation.placed(shifted, checked), checked)
    panes = aggregation.panes(placed, checked)
    found = panes.select("key_0", F.inline(F.arrays_zip("scores", "kept_0", "kept_1")))
    return found.toDF("key", "score", "row", "place")


def answerer(
    query: TopK,
    algorithm: str,
    numbers: tuple[str, ...] = ("score",),
    kind: Callable[[], Callable[..., AnyMonitor]] | None = None,
    ids: str = "row",
) -> Callable[[Batches], Batches]:
    """A function from sorted rows of some keys to their ranked windows.

    ``numbers`` are the columns that are ranked by; ``kind`` tells, in a worker, what monitor a
    query of another family needs; ``ids`` is the column by which answers name what they rank.
    """
    step = max(256, min(_BATCH, _ANSWERS // min(query.k, query.window.size)))

    def answer(batches: Batches) -> Batches:
        from skyband.partitioned import Partitioned

        engine = Partitioned(query, algorithm, *([] if kind is None else [kind()]))
        for whole in batches:
            for low in range(0, whole.num_rows, step):
                batch = whole.slice(low, step)
                columns = [batch.column(name).fill_null(np.nan) for name in numbers]
                pushed = [np.array(np.from_dlpack(column)) for column in columns]
                for found in engine.push(
                    pushed[0] if kind is None else np.stack(pushed, axis=1),
                    keys=own(batch, "key"),
                    ids=own(batch, ids),
                    times=own(batch, "place"),
                ):
                    yield _written(found)
        for found in engine.finish():
            yield _written(found)

    return answer


def own(batch: pa.RecordBatch, name: str) -> Ints:
    """A column as an array that may be written to, as kernels want it."""
    return np.array(np.from_dlpack(batch.column(name)))


def _written(found: RankedByKey) -> pa.RecordBatch:
    """Ranked windows as a batch of :data:`WINDOWS`, one row per window."""
    import pyarrow as pa

    ranked = found.ranked
    columns = {"rows": ranked.id, "scores": ranked.score}
    if ranked.ranks is not None and ranked.previous_rank is not None:
        columns |= {"ranks": ranked.ranks, "previous": ranked.previous_rank}
    offsets = pa.array(ranked.offsets.astype(np.int32))
    lists = [pa.ListArray.from_arrays(offsets, pa.array(values)) for values in columns.values()]
    return pa.RecordBatch.from_arrays(
        [pa.array(found.key), pa.array(ranked.window_end), *lists], ["key", "end", *columns]
    )


def _read(directory: Path, query: TopK) -> Iterator[tuple[Ints, Ranked]]:
    """Ranked windows from the files that Spark wrote."""
    from pyarrow import parquet

    for file in sorted(directory.glob("*.parquet")):
        with parquet.ParquetFile(file) as opened:
            for batch in opened.iter_batches():
                yield own(batch, "key"), _ranked(batch, query)


def _ranked(batch: pa.RecordBatch, query: TopK) -> Ranked:
    end = own(batch, "end")
    start = end - query.window.size
    timed = isinstance(query.window, TimeWindow)
    offsets = np.from_dlpack(batch.column("rows").offsets).astype(np.int64)
    flat = {
        name: np.array(np.from_dlpack(batch.column(name).flatten()))
        for name in batch.schema.names[2:]
    }
    return Ranked(
        window_start=start if timed else np.maximum(start, 0),
        window_end=end,
        offsets=offsets - offsets[0],
        score=flat["scores"],
        id=flat["rows"],
        ranks=flat.get("ranks"),
        previous_rank=flat.get("previous"),
    )


def are_moments(rows: DataFrame) -> bool:
    """Whether places, as microseconds, are timestamps that Spark can hold; ticks may be any."""
    found = rows.select(F.max(F.abs("place"))).first()
    return found is not None and found[0] is not None and found[0] < _FARTHEST


def read_ranks(directory: Path, query: Any, id: str) -> Iterator[tuple[Ints, Ranked]]:
    """All windows without keys, from rows of ``end``, ``rank``, ``score`` and an id."""
    from pyarrow import parquet

    found = parquet.read_table(directory).combine_chunks().to_batches()
    if not found:
        return
    (batch,) = found
    end, rank = own(batch, "end"), own(batch, "rank")
    order = np.lexsort((rank, end))
    ends, first = np.unique(end[order], return_index=True)
    start = ends - query.window.size
    yield (
        np.zeros(len(ends), np.int64),
        Ranked(
            window_start=start if isinstance(query.window, TimeWindow) else np.maximum(start, 0),
            window_end=ends,
            offsets=np.append(first, len(order)),
            score=own(batch, "score")[order].astype(np.float64),
            id=own(batch, id)[order],
        ),
    )


def uri(path: Path) -> str:
    """A path of this machine, whatever Spark's own file system is."""
    return f"file:{path}"
