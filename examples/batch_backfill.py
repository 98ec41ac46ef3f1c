"""The history by a batch, the present by a stream: one query, the same rows.

python examples/batch_backfill.py

A new leaderboard should show last year too. A stream would replay that year batch by batch; a
batch ranks all of it at once, with the same function, and must give the same answers to the last
digit, or the two halves do not fit together.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from skyband.datasets import dataset
from skyband.spark import drain, session, top_k

PARTS = 4


def main(home: Path) -> None:
    """Rank the same trades twice, and compare."""
    spark = session(log=home / "spark.log", settings={"spark.sql.warehouse.dir": f"{home}/tables"})
    (home / "trades").mkdir()
    for part, trades in enumerate(dataset("stock").chunks(100_000, chunk=100_000 // PARTS)):
        pq.write_table(pa.Table.from_batches([trades]), home / "trades" / f"{part}.parquet")

    # written once: it ranks whatever has the same columns
    leaders = partial(
        top_k,
        k=5,
        by="price * volume",
        time="ts",
        window="1 minute",
        slide="7 seconds",  # need not divide the window
        partition_by="sector",
        delay="5 seconds",
        drain=f"{home}/marks",  # a batch ends by itself and leaves this alone
    )
    history = spark.read.parquet(f"{home}/trades")
    began = time.perf_counter()
    batch = history.transform(leaders).cache()
    print(f"batch:  {batch.count():,} rows in {time.perf_counter() - began:.1f} s")

    files = spark.readStream.schema(history.schema).option("maxFilesPerTrigger", 1)
    began = time.perf_counter()
    for ended in (False, True):
        if ended:
            drain(spark, f"{home}/marks")  # else the last windows would wait for more rows
        query = (
            files.parquet(f"{home}/trades")
            .transform(leaders)
            .writeStream.format("parquet")
            .option("path", f"{home}/leaders")
            .option("checkpointLocation", f"{home}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    stream = spark.read.parquet(f"{home}/leaders")
    print(
        f"stream: {stream.count():,} rows in {time.perf_counter() - began:.1f} s, by {PARTS} files"
    )

    differ = batch.exceptAll(stream).count() + stream.exceptAll(batch).count()
    print(f"rows that differ: {differ}")
    assert not differ
    spark.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
