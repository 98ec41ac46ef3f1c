"""Windows that count rows instead of seconds, one for each sector.

python examples/count_windows_per_key.py

A quiet sector has few trades a minute, a busy one thousands; "the last 1,000 trades of the sector"
means the same for both. Which trades are the last depends on their time, not on the order in
which Spark happens to read them: rows wait until the watermark has passed them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from skyband.datasets import dataset
from skyband.spark import drain, session, top_k


def main(home: Path) -> None:
    """Rank a stream by sector, and report only what changed."""
    spark = session(log=home / "spark.log", settings={"spark.sql.warehouse.dir": f"{home}/tables"})
    (home / "trades").mkdir()
    for part, trades in enumerate(dataset("stock").chunks(30_000, chunk=15_000)):
        pq.write_table(pa.Table.from_batches([trades]), home / "trades" / f"{part}.parquet")

    schema = spark.read.parquet(f"{home}/trades").schema
    trades = spark.readStream.schema(schema).parquet(f"{home}/trades")
    drain(spark, f"{home}/marks")  # all files are there: the last rows need not wait for more
    changes = trades.transform(
        top_k,
        k=3,
        by="price * volume",
        time="ts",
        window=1_000,
        slide=500,
        partition_by="sector",
        keep=["symbol"],
        emit="changes",  # what entered, left or moved since the window before
        full=True,  # no answer before a sector has had 1,000 trades
        drain=f"{home}/marks",
    )
    query = (
        changes.writeStream.format("parquet")
        .option("path", f"{home}/changes")
        .option("checkpointLocation", f"{home}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    stored = spark.read.parquet(f"{home}/changes")
    sector = stored.groupBy("sector").count().orderBy("count", ascending=False).first()["sector"]
    print(f"what happened to the three biggest of the last 1,000 trades, in {sector}:")
    of_sector = stored.filter(stored.sector == sector).orderBy("window.end", "rank")
    for row in of_sector.collect():
        where = {
            "entered": f"comes in at {row['rank']}",
            "moved": f"goes from {row.previous_rank} to {row['rank']}",
            "left": f"falls out, it was {row.previous_rank}",
        }[row.change]
        print(f"  after trade {row.window.end:>5,}  {row.symbol:<5} {row.score:>12,.0f}  {where}")
    spark.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
