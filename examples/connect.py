"""Rank a stream on a Spark Connect server: this process is a client, without Java.

python examples/connect.py

Every function of skyband.spark works over Connect. The server's Python runs the part of the query
that keeps the candidates, so Skyband must be installed there too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import SparkSession

from skyband.datasets import dataset
from skyband.spark import claim, drain, session, top_k


@contextmanager
def server(home: Path) -> Iterator[str]:
    """A Connect server on this machine, for as long as the block lasts; gives its address.

    It stands for the one your cluster has: ``session("sc://host:15002")`` is all you need then.
    """
    spark = Path(pyspark.__file__).parent
    command = [
        f"{spark}/bin/spark-submit",
        "--master=local[2,4]",
        "--class=org.apache.spark.sql.connect.service.SparkConnectServer",
        "--conf=spark.connect.grpc.binding.address=127.0.0.1",
        "--conf=spark.connect.grpc.binding.port=0",  # any that is free
        "--conf=spark.driver.bindAddress=127.0.0.1",
        "--conf=spark.driver.host=127.0.0.1",
        "--conf=spark.driver.memory=1g",
        "--conf=spark.ui.enabled=false",
        f"--conf=spark.sql.warehouse.dir={home}/tables",
        "spark-internal",
    ]
    # its workers must find this Python, with Skyband in it
    environment = os.environ | {"SPARK_HOME": str(spark), "PYSPARK_PYTHON": sys.executable}
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=home, env=environment
    )
    assert process.stderr is not None
    with (home / "server.log").open("w") as log:
        try:
            for line in process.stderr:  # until it says where it listens
                log.write(line)
                match = re.search(r"Connect server started at: (\S+)", line)
                if match:
                    break
            else:
                raise SystemExit(f"the server did not start:\n{(home / 'server.log').read_text()}")
            Thread(target=shutil.copyfileobj, args=(process.stderr, log), daemon=True).start()
            yield f"sc://{match[1]}"
        finally:
            process.terminate()
            process.wait()


@contextmanager
def client(address: str) -> Iterator[SparkSession]:
    """A session on a server, which ends with the block: before its server does."""
    spark = session(address, shuffle_partitions=2)
    try:
        yield spark
    finally:
        spark.stop()


def main(home: Path) -> None:
    """Rank a stream and a batch on the server."""
    (home / "trades").mkdir()
    for part, trades in enumerate(dataset("stock").chunks(60_000, chunk=30_000)):
        pq.write_table(pa.Table.from_batches([trades]), home / "trades" / f"{part}.parquet")

    with server(home) as address, client(address) as spark:
        print(f"a client of Spark {spark.version} ({type(spark).__module__})")
        history = spark.read.parquet(f"{home}/trades")
        trades = spark.readStream.schema(history.schema).parquet(f"{home}/trades")
        query = partial(
            top_k,
            k=3,
            by="price * volume",
            time="ts",
            window="30 seconds",
            slide="10 seconds",
            keep=["symbol"],
            drain=f"{home}/marks",
        )
        drain(spark, f"{home}/marks")  # all files are there: nothing more will come
        ranked = trades.transform(query)
        stream = (
            ranked.writeStream.format("parquet")
            .option("path", f"{home}/leaders")
            .option("checkpointLocation", claim(ranked, f"{home}/checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        stream.awaitTermination()
        leaders = spark.read.parquet(f"{home}/leaders").orderBy("window", "rank")
        for row in leaders.collect():
            print(
                f"  {row.window.end:%H:%M:%S}  {row['rank']}  {row.symbol:<5} {row.score:>13,.2f}"
            )
        batch = history.transform(query)
        differ = batch.exceptAll(leaders).count() + leaders.exceptAll(batch).count()
        print(f"rows of stream and batch that differ: {differ}")
        assert not differ


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
