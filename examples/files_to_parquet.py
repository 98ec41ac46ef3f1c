"""Files that keep coming, ranked into Parquet: stopped, resumed, and ended.

python examples/files_to_parquet.py

Each run takes in the files that are new, answers the windows they complete and stops: the way a
scheduled job works. The checkpoint remembers what was read, so no window is missed or answered
twice.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from skyband.datasets import dataset
from skyband.errors import QueryError
from skyband.spark import claim, drain, session, top_k

SCHEMA = "ts timestamp, symbol string, sector string, price double, volume bigint, side string"


def leaders(spark: SparkSession, home: Path, k: int = 3) -> DataFrame:
    """The biggest trades of the last minute, every 10 seconds."""
    trades = spark.readStream.schema(SCHEMA).parquet(f"{home}/trades")
    return top_k(
        trades,
        k=k,
        by="price * volume",
        time="ts",
        window="1 minute",
        slide="10 seconds",
        keep=["symbol", "price", "volume"],
        delay="2 seconds",  # how late rows may come; a longer delay answers later
        drain=f"{home}/marks",  # where a mark says that there will be no more rows
    )


def run(spark: SparkSession, home: Path) -> None:
    """Take in what is new."""
    ranked = leaders(spark, home)
    # claim: Spark would go on from this checkpoint under any other query, and answer nonsense
    query = (
        ranked.writeStream.format("parquet")
        .option("path", f"{home}/leaders")
        .option("checkpointLocation", claim(ranked, f"{home}/checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = sum(
        counts["rows"]
        for progress in query.recentProgress
        for metric, counts in progress.observedMetrics.items()
        if metric.startswith("skyband rows")  # beside it: rows without a time or a score
    )
    windows = spark.read.parquet(f"{home}/leaders").select("window").distinct().count()
    print(f"{rows:,} new rows; {windows} windows answered so far")


def main(home: Path) -> None:
    """Three files come, one after the other."""
    spark = session(log=home / "spark.log", settings={"spark.sql.warehouse.dir": f"{home}/tables"})
    (home / "trades").mkdir()
    for part, trades in enumerate(dataset("stock").chunks(120_000, chunk=40_000)):
        pq.write_table(pa.Table.from_batches([trades]), home / "trades" / f"{part}.parquet")
        run(spark, home)

    print("no more files will come: the windows that are still open are answered")
    drain(spark, f"{home}/marks")
    run(spark, home)

    for changed in (leaders(spark, home, k=5), leaders(spark, home)):
        try:
            claim(changed, f"{home}/checkpoint")
        except QueryError as error:
            print(f"refused: {error.found}")

    print("the biggest trade of each minute:")
    best = spark.read.parquet(f"{home}/leaders").filter("rank = 1").orderBy("window")
    for row in best.collect():
        print(
            f"  {row.window.start:%H:%M:%S}-{row.window.end:%H:%M:%S}  "
            f"{row.symbol:<5} {row.volume:>9,} x {row.price:>7.2f} = {row.score:>13,.2f}"
        )
    spark.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
