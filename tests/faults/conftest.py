"""The Spark of the other Spark tests: two cores, four attempts per task."""

from tests.spark.conftest import spark

__all__ = ["spark"]
