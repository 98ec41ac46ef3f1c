"""What is ranked need not be a row: cars that cameras see one by one, clients and their requests.

python examples/objects_of_many_rows.py

Each camera is a stream of its own, and none waits for another: a car is as fast as what was seen of
it so far. The log of a web site is one stream, in which a client has many rows: their bytes are
added up, window by window. Both are batches here; streams are ranked by the same calls.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skyband.datasets import dataset
from skyband.spark import session, top_k, top_k_incomplete

CAMERAS = ("north", "ring-2", "east")  # on one route, and on others


def main(home: Path) -> None:
    """Rank cars and clients."""
    spark = session(log=home / "spark.log", settings={"spark.sql.warehouse.dir": f"{home}/tables"})
    for name in ("cameras", "worldcup"):
        rows = pa.Table.from_batches(dataset(name).chunks(30_000))
        pq.write_table(rows, home / f"{name}.parquet")
    fastest_cars(spark.read.parquet(f"{home}/cameras.parquet"))
    largest_clients(spark.read.parquet(f"{home}/worldcup.parquet"))
    spark.stop()


def fastest_cars(passed: DataFrame) -> None:
    """The sum of the speeds at three cameras, of the last half hour, every ten minutes."""
    fastest = top_k_incomplete(
        {name: passed.where(F.col("camera") == name) for name in CAMERAS},
        k=2,
        id="plate",
        value="speed",
        bounds=(0, 250),  # a camera that did not see a car counts as 0
        repeats="none",  # within half an hour nobody passes a camera twice, so less is kept
        time="ts",
        window="30 minutes",
        slide="10 minutes",
    )
    print("fastest cars")
    show(fastest, "plate")


def largest_clients(requests: DataFrame) -> None:
    """The bytes of the last five minutes, every minute."""
    largest = top_k(
        requests,
        k=2,
        by=F.sum("bytes"),
        key="client",
        time="ts",
        window="5 minutes",
        slide="1 minute",
    )
    print("largest clients")
    show(largest, "client")


def show(ranked: DataFrame, name: str) -> None:
    """Print windows, a line each."""
    end = F.date_format("window.end", "HH:mm").alias("end")
    rows = ranked.select(end, "rank", "score", name).orderBy("window.end", "rank").collect()
    for at in range(0, len(rows), 2):
        objects = [f"{row[name]} ({row.score:,.1f})" for row in rows[at : at + 2]]
        print(f"  {rows[at].end}  {', '.join(objects)}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
