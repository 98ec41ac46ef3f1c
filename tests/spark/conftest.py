"""One Spark for all tests of this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from skyband.spark import session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    home = tmp_path_factory.mktemp("spark")
    spark_session = session(
        "local[2,4]",
        shuffle_partitions=2,
        memory="1g",
        log=home / "spark.log",
        settings={
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            # tests are many small queries, each run once: Java compiles in haste, and Spark, which
            # would write and compile Java code for every plan, interprets it instead
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        },
    )
    yield spark_session
    spark_session.stop()
