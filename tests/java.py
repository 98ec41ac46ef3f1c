"""Java that starts soon: Spark's classes, parsed and checked once, for all processes of the tests.

Most of a cold start of Spark is reading and verifying thousands of classes. Java can archive what
it made of them (class data sharing); a Java that does not like the archive goes on without it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pyspark

HASTE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
"""Compiles in haste: tests are many small queries.

Java would keep 48 MB of code compiled like that, which a few streams fill; then it drops code, and
compiles it again.
"""


@cache
def class_archive() -> Path:
    """Where the archive of this Java and this Spark is, or would be."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    version = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    made_of = f"{version} {pyspark.__version__} {pyspark.__file__}"
    name = hashlib.sha256(made_of.encode()).hexdigest()[:16]
    return Path(sys.prefix) / f"spark-classes-{name}.jsa"


def hasty_options() -> str:
    """Options of a Java that runs Spark and starts soon, with the archive if there is one."""
    if shutil.which("java") and class_archive().exists():
        return f"{HASTE} -XX:SharedArchiveFile={class_archive()} -Xlog:cds*=off"
    return HASTE


def hasten_java() -> None:
    """Let every Java that this process and its children start for Spark start soon."""
    os.environ["SPARK_SUBMIT_OPTS"] = hasty_options()


def make_class_archive() -> None:
    """Run a small stream, and archive the classes that it used; do nothing if that was done."""
    if class_archive().exists():
        return
    os.environ["SPARK_SUBMIT_OPTS"] = (
        f"{HASTE} -XX:ArchiveClassesAtExit={class_archive()} -Xlog:cds*=off"
    )
    from pyspark.sql import functions as F

    from skyband.spark import session, top_k

    with tempfile.TemporaryDirectory() as home:
        spark = session("local[2]", shuffle_partitions=2, memory="1g", log=Path(home) / "log")
        rows = spark.range(100).select("id", F.timestamp_seconds("id").alias("ts"))
        rows.write.parquet(f"{home}/rows")
        stream = spark.readStream.schema(rows.schema).parquet(f"{home}/rows")
        answers = top_k(stream, k=3, by="id", window="10 seconds", time="ts", keep="id")
        query = answers.writeStream.option("checkpointLocation", f"{home}/checkpoint")
        query.format("noop").trigger(availableNow=True).start().awaitTermination()
        java = spark.sparkContext._gateway.proc
        spark.stop()
        java.stdin.close()  # Java ends then, and writes its archive
        java.wait()
    print(f"archived Spark's classes: {class_archive().stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    make_class_archive()
