"""How job files ask queries: the fields that families share, and what jobs need of each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from skyband.errors import QueryError
from skyband.query import RankBy
from skyband.spark.options import CommonOptions
from skyband.spark.plan import MOST

Names = str | Annotated[list[str], Field(min_length=1)]
WindowFields = dict[str, str | bool | int]
DESCRIBED = "{cumulative: 1 day, every: 1 minute}, {all_time: true, ...} or {ticks: 100, slide: 10}"
JobEmit = Literal["all", "changes", "updates"]
JobOpenWindows = Literal["all", "current"]
SafeText = Callable[[str], str]
"""Checks an expression of a job file, and returns it as it may be evaluated."""


class Part(BaseModel):
    """A part of a job file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class JobQuery(Part):
    """What every family is asked in a job file."""

    score_field: ClassVar[str] = "query.by"  # where the file says what rows are ranked by

    time: str | None = Field(default=None, description="the name of a column")
    partition_by: Names | None = Field(default=None, description="a column, or a list of columns")
    delay: int | str | None = Field(default=None, description="a duration, such as 10 seconds")
    skew: str | None = Field(default="1 hour", description="a duration such as 1 hour, or null")
    deduplicate_by: Names | None = Field(default=None, description="a column, or a list of columns")
    where: str | None = Field(default=None, description="a condition, such as volume > 0")

    def loaded(self, home: Path) -> JobQuery:
        """The query with what it names in other files, relative to the job's directory."""
        return self

    @abstractmethod
    def options(self, safe: SafeText, drain: str | None = None) -> CommonOptions:
        """The options that are asked for, their expressions checked by ``safe``."""

    @abstractmethod
    def words(self) -> str:
        """The query in words, without its keys."""

    def check(self, safe: SafeText, drain: str | None) -> None:
        """Refuse what no DataFrame can make right."""
        options: Any = self.options(safe, drain)
        refuse_k_beyond_spark("query.k", options.query().k)

    def fields(self, *without: str, **changed: Any) -> dict[str, Any]:
        """The fields by name, without some, and with others changed."""
        return {**self.model_dump(exclude={*without, *changed}), **changed}


class WindowQuery(JobQuery):
    """What families are asked that answer one query."""

    k: int = Field(description="a whole number, such as 10")
    window: int | str | WindowFields = Field(
        description=f"a duration such as 1 hour, a number of rows, or {DESCRIBED}"
    )
    slide: int | str | None = Field(default=None, description="a duration, or a number of rows")
    offset: str | None = Field(default=None, description="a duration, such as 30 seconds")
    sequence: str | None = Field(default=None, description="the name of a column")
    emit: JobEmit = Field(default="all", description="all, changes or updates")
    open_windows: JobOpenWindows = Field(default="all", description="all or current")
    algorithm: str = Field(default="auto", description="auto, or the name of an algorithm")
    full: bool = Field(default=False, description="true or false")


class RowFields(Part):
    """What families are asked that rank rows."""

    id: Names | None = Field(default=None, description="a column, or a list of columns")
    keep: Names | None = Field(default=None, description="a column, or a list of columns")


class OrderFields(Part):
    """What families are asked that say how equal scores rank."""

    ties: Literal["newest", "oldest"] = Field(default="newest", description="newest or oldest")
    rank_by: RankBy = Field(
        default="row_number", description="row_number, rank or dense_rank, as in SQL"
    )


def refuse_k_beyond_spark(name: str, k: int) -> None:
    """Refuse more rows per window than Spark can find."""
    if k > MOST:
        raise QueryError(f"{name} is {k:,}", f"at most {MOST:,}, Spark's own limit")
