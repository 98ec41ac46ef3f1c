"""The home of an embedded Spark: workers import PySpark as it is installed, compiled already."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from skyband.spark.spark_home import linked_home


def test_workers_import_the_installed_packages(spark: SparkSession) -> None:
    def origins(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import py4j
        import pyspark

        for _ in batches:
            files = [module.__file__ for module in (pyspark, py4j)]
            yield pa.RecordBatch.from_pydict({"file": files})

    rows = spark.range(1).mapInArrow(origins, "file string").collect()
    files = [Path(row.file) for row in rows]
    assert Path(pyspark.__file__) in [file.resolve() for file in files]
    assert all(list((file.parent / "__pycache__").glob("__init__.*.pyc")) for file in files)


def test_a_home_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = linked_home()
    assert home is not None
    assert (home / "bin" / "spark-submit").exists()
    assert (home / "jars").resolve() == Path(pyspark.__path__[0], "jars").resolve()
    made = home.stat().st_mtime_ns
    assert linked_home() == home
    assert home.stat().st_mtime_ns == made
    assert os.listdir(home.parent) == [home.name]


def test_spark_keeps_its_own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where people have one, and where no links can be made."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert linked_home() is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert linked_home() is None


def test_errors_of_py4j_are_raised_and_not_logged(spark: SparkSession) -> None:
    assert not logging.getLogger("py4j.clientserver").isEnabledFor(logging.ERROR)
