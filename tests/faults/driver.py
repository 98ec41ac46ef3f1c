"""A driver that is meant to be killed: two queries over files, to their end, however often begun.

    python -m tests.faults.driver DIRECTORY

The directory holds ``source``. Rankings go to a Parquet sink, changes to a directory per batch.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from skyband.spark import claim, drain, session
from skyband.spark.draining import drained
from skyband.spark.manifest import finished
from tests.faults.market import counted, started, timed

QUERIES = ("timed", "counted")


def main(home):
    scratch = home / "scratch"
    java = f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData -XX:TieredStopAtLevel=1"
    spark = session(
        "local[2,4]",
        shuffle_partitions=1,
        memory="600m",
        log=home / "spark.log",
        settings={"spark.local.dir": str(scratch), "spark.driver.extraJavaOptions": java},
    )
    for ended in (False, True):
        for name in QUERIES:
            if ended and not drained(spark, str(home / name / "marks")):
                drain(spark, str(home / name / "marks"))
        running = [start_timed(spark, home), start_counted(spark, home)]
        for query in running:
            query.awaitTermination()
    (home / "done").touch()


def start_timed(spark, home):
    here = home / "timed"
    leaders = timed(spark, home / "source", drain=str(here / "marks"))
    claimed(leaders, here)
    writer = leaders.writeStream.format("parquet").option("path", str(here / "out"))
    writer = writer.option("checkpointLocation", str(here / "checkpoint"))
    return writer.trigger(availableNow=True).start()


def start_counted(spark, home):
    here = home / "counted"
    leaders = counted(spark, home / "source", drain=str(here / "marks"))
    claimed(leaders, here)
    return started(leaders, here)


def claimed(leaders, here):
    """Claim the checkpoint, unless this query ended before the driver was killed."""
    if not finished(leaders.sparkSession, str(here / "checkpoint")):
        claim(leaders, str(here / "checkpoint"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    os._exit(0)  # the JVM goes with it
