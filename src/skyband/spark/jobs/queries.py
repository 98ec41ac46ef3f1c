"""The queries of job files, one kind each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from skyband.spark.families.dominating.plan import DominatingAsked
    from skyband.spark.families.incomplete.options import IncompleteAsked
    from skyband.spark.families.totals.plan import TotalsAsked

Names = str | Annotated[list[str], Field(min_length=1)]
Pair = Annotated[list[float], Field(min_length=2, max_length=2)]


class Part(BaseModel):
    """A part of a job file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Asked(Part):
    """What every kind of query is asked."""

    time: str | None = Field(default=None, description="the name of a column")
    sequence: str | None = Field(default=None, description="the name of a column")
    partition_by: Names | None = Field(default=None, description="a column, or a list of columns")
    id: Names | None = Field(default=None, description="a column, or a list of columns")
    keep: Names | None = Field(default=None, description="a column, or a list of columns")
    delay: int | str | None = Field(default=None, description="a duration, such as 10 seconds")
    skew: str | None = Field(default="1 hour", description="a duration such as 1 hour, or null")
    deduplicate_by: Names | None = Field(default=None, description="a column, or a list of columns")


class Query(_Asked):
    """What :func:`skyband.spark.top_k` is asked."""

    k: int = Field(description="a whole number, such as 10")
    by: str = Field(description="an expression over columns, such as price * volume")
    window: int | str = Field(description="a duration such as 1 hour, or a number of rows")
    slide: int | str | None = Field(default=None, description="a duration, or a number of rows")
    offset: str | None = Field(default=None, description="a duration, such as 30 seconds")
    emit: Literal["all", "changes"] = Field(default="all", description="all or changes")
    algorithm: str = Field(default="auto", description="auto, or the name of an algorithm")
    full: bool = Field(default=False, description="true or false")


class DominatingQuery(_Asked):
    """What :func:`skyband.spark.top_k_dominating` is asked."""

    k: int = Field(description="a whole number, such as 10")
    dominating: dict[str, Literal["min", "max"]] = Field(
        min_length=1, description="attributes and which way is better, such as price: min"
    )
    window: int | str = Field(description="a duration such as 1 hour, or a number of rows")
    slide: int | str | None = Field(default=None, description="a duration, or a number of rows")
    offset: str | None = Field(default=None, description="a duration, such as 30 seconds")
    emit: Literal["all", "changes"] = Field(default="all", description="all or changes")
    algorithm: str = Field(default="auto", description="auto, or the name of an algorithm")
    full: bool = Field(default=False, description="true or false")
    shards: int | None = Field(default=None, description="a whole number, such as 8")

    def asked(self, safe: Callable[[str], str], drain: str | None = None) -> DominatingAsked:
        """What is asked, its attributes made sure of."""
        from skyband.spark.families.dominating.plan import DominatingAsked

        dimensions = [(safe(name), way) for name, way in self.dominating.items()]
        parts = self.model_dump(exclude={"dominating"})
        return DominatingAsked(dimensions=dimensions, drain=drain, **parts)


class Incomplete(Part):
    """What rows of incomplete streams say, and how scores are made of it."""

    streams: list[str] = Field(min_length=1, description="the names of the streams")
    id: Names = Field(description="the column, or the columns, that name an object")
    stream: str = Field(description="the column that says which stream a row belongs to")
    value: str = Field(description="an expression over columns, such as speed / 3.6")
    combine: Literal["sum", "min", "max"] | list[float] = Field(
        default="sum", description="sum, min, max, or a list of weights"
    )
    bounds: Pair | dict[str, Pair] = Field(
        default=[0.0, 1.0],
        description="the lowest and the highest value, such as [0, 300], or such a pair by stream",
    )
    outside: Literal["error", "clip"] = Field(default="error", description="error or clip")
    repeats: Literal["max", "none"] | dict[Literal["sum"], int] = Field(
        default="max", description="max, none, or how many at most are added up, such as sum: 3"
    )


class IncompleteQuery(Part):
    """What :func:`skyband.spark.top_k_incomplete` is asked."""

    k: int = Field(description="a whole number, such as 10")
    incomplete: Incomplete = Field(description="a group of streams, id, stream, value, bounds")
    window: int | str = Field(description="a duration such as 1 hour, or a number of rows")
    slide: int | str | None = Field(default=None, description="a duration, or a number of rows")
    offset: str | None = Field(default=None, description="a duration, such as 30 seconds")
    time: str | None = Field(default=None, description="the name of a column")
    sequence: str | None = Field(default=None, description="the name of a column")
    partition_by: Names | None = Field(default=None, description="a column, or a list of columns")
    delay: int | str | None = Field(default=None, description="a duration, such as 10 seconds")
    skew: str | None = Field(default="1 hour", description="a duration such as 1 hour, or null")
    deduplicate_by: Names | None = Field(default=None, description="a column, or a list of columns")
    emit: Literal["all", "changes"] = Field(default="all", description="all or changes")
    algorithm: str = Field(default="auto", description="auto, or the name of an algorithm")
    options: dict[str, int | float | str] = Field(
        default={}, description="options of the algorithm, by name"
    )
    full: bool = Field(default=False, description="true or false")
    shards: int | None = Field(default=None, description="a whole number, such as 8")

    def asked(self, safe: Callable[[str], str], drain: str | None = None) -> IncompleteAsked:
        """What is asked, its value made sure of."""
        from skyband.spark.families.incomplete.options import IncompleteAsked

        rows = self.incomplete.model_dump()
        if isinstance(rows["repeats"], dict):
            rows["repeats"] = next(iter(rows["repeats"].items()), ())
        rows["value"] = safe(rows["value"])
        rest = self.model_dump(exclude={"incomplete"})
        return IncompleteAsked(**rows, **rest, drain=drain)


class TotalsQuery(Part):
    """What :func:`skyband.spark.top_k` is asked with ``key``."""

    k: int = Field(description="a whole number, such as 10")
    by: str = Field(description="a sum, count, max, min or avg, such as sum(bytes)")
    key: Names = Field(description="the column, or the columns, by which rows are added up")
    window: str = Field(description="a duration, such as 1 hour")
    slide: str | None = Field(default=None, description="a duration, such as 1 minute")
    offset: str | None = Field(default=None, description="a duration, such as 30 seconds")
    time: str | None = Field(default=None, description="the name of a column")
    partition_by: Names | None = Field(default=None, description="a column, or a list of columns")
    delay: str | None = Field(default=None, description="a duration, such as 10 seconds")
    skew: str | None = Field(default="1 hour", description="a duration such as 1 hour, or null")
    deduplicate_by: Names | None = Field(default=None, description="a column, or a list of columns")
    emit: Literal["all", "changes"] = Field(default="all", description="all or changes")
    shards: int | None = Field(default=None, description="a whole number, such as 8")

    def asked(self, safe: Callable[[str], str], drain: str | None = None) -> TotalsAsked:
        """What is asked, the value that is added up made sure of."""
        from skyband.spark.families.totals.aggregate import of_text
        from skyband.spark.families.totals.plan import TotalsAsked

        told = of_text(self.by)
        if told.value is not None:
            told = told._replace(value=safe(told.value))
        return TotalsAsked(**self.model_dump(exclude={"by"}), by=str(told), drain=drain)


class SharedQuery(_Asked):
    """What :func:`skyband.spark.top_k_workload` is asked."""

    workload: str | list[dict[str, Any]] = Field(
        description="a file of queries, such as queries.csv, or a list of name, k, window, slide"
    )
    by: str | None = Field(
        default=None, description="the score of queries that name none, such as price * volume"
    )
