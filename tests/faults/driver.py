"""A driver that is meant to be killed: queries over files, to their end, however often begun.

    python -m tests.faults.driver DIRECTORY timed counted

The directory holds ``source``. Rankings go to a Parquet sink, changes to a directory per batch.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from skyband.errors import QueryError
from skyband.spark import claim, drain, session
from skyband.spark.draining import drained
from tests.conftest import INTERPRETED_PLANS
from tests.faults.trades import counted, start, timed


def main(home, names):
    scratch = home / "scratch"
    java = f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData"
    spark = session(
        "local[2,4]",
        shuffle_partitions=1,
        memory="600m",
        log=home / "spark.log",
        settings={
            "spark.local.dir": str(scratch),
            "spark.driver.extraJavaOptions": java,
            **INTERPRETED_PLANS,
        },
    )
    for ended in (False, True):
        for name in names:
            if ended and not drained(spark, str(home / name / "marks")):
                drain(spark, str(home / name / "marks"))
        for query in [QUERIES[name](spark, home) for name in names]:
            query.awaitTermination()
    (home / "done").write_text(" ".join(names))


def start_timed(spark, home):
    here = home / "timed"
    leaders = timed(spark, home / "source", drain=str(here / "marks"))
    claim_unless_drained(leaders, here)
    writer = leaders.writeStream.format("parquet").option("path", str(here / "out"))
    writer = writer.option("checkpointLocation", str(here / "checkpoint"))
    return writer.trigger(availableNow=True).start()


def start_counted(spark, home):
    here = home / "counted"
    leaders = counted(spark, home / "source", drain=str(here / "marks"))
    claim_unless_drained(leaders, here)
    return start(leaders, here)


def claim_unless_drained(leaders, here):
    """Claim the checkpoint, unless this query ended before the driver was killed."""
    try:
        claim(leaders, str(here / "checkpoint"))
    except QueryError as error:
        if "was drained" not in str(error):
            raise


QUERIES = {"timed": start_timed, "counted": start_counted}

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
    os._exit(0)  # the JVM goes with it
