"""The families of queries that Spark answers, by the modules that hold them.

Each module has a ``FAMILY``. They are imported when they are asked for: Python workers import this
package, too, and need nothing but the state of the query that they work on.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from skyband.errors import QueryError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from skyband.spark.plan import Family

FAMILIES = [
    "skyband.spark.families.workload.plan",
    "skyband.spark.families.dominating.plan",
    "skyband.spark.families.incomplete.plan",
    "skyband.spark.families.totals.plan",
    "skyband.spark.families.top_k",
]
"""A query belongs to the first family whose marker it has; rows by a score come last."""


def families() -> list[Family]:
    """All families."""
    return [import_module(name).FAMILY for name in FAMILIES]


def description_of(leaders: DataFrame, fix: str) -> dict[str, Any]:
    """The description of the query that made a DataFrame; raises if :func:`top_k` did not."""
    query = None
    if "rank" in leaders.columns:
        query = leaders.schema["rank"].metadata.get("skyband")
    if query is None:
        raise QueryError(
            f"a DataFrame of {', '.join(leaders.columns)}",
            "what top_k returned, with its rank column",
            fix,
        )
    return dict(query)


def family_of_job(query: Mapping[str, Any]) -> Family:
    """The family that the query of a job file belongs to, by its fields."""
    return next(family for family in families() if family.marker in (None, *query))


def family_of(description: Mapping[str, Any]) -> Family:
    """The family that the description of a query belongs to, as a plan gives it."""
    return next(
        family
        for family in families()
        if (family.description_marker or family.marker) in (None, *description)
    )
