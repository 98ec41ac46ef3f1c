"""The k rows of each window whose value is the smallest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skyband.query import TopK
from skyband.spark.columns import SCORE
from skyband.spark.explain import Lines, pane_lines, panes_of
from skyband.spark.jobs.queries import JobQuery, SafeText, WindowQuery
from skyband.spark.options import WindowOptions
from skyband.spark.panes import best_rows, settled
from skyband.spark.plan import Family, WindowPlan, check_k, resolve_base
from skyband.spark.scores import Score, score_column
from skyband.spark.state.candidates import CandidateSpec
from skyband.spark.state.processor import StateSpec


@dataclass(frozen=True, kw_only=True)
class SmallestOptions(WindowOptions):
    """The options: the value that is to be small."""

    smallest: str

    def query(self) -> TopK:
        """The query object; refuses what no DataFrame can make right."""
        window = self.parsed_window()
        self.check_window(window)
        self.check()
        return TopK(self.k, window)


@dataclass(frozen=True)
class SmallestPlan(WindowPlan):
    """Rows by a score that is the value with its sign turned."""

    def panes(self, rows: DataFrame, newest: Column | None) -> DataFrame:
        """Find the best rows of each pane."""
        return best_rows(settled(rows, self.base, self.grid), self, newest)

    @property
    def extra_counts(self) -> Mapping[str, Column]:
        """How many rows have a value of zero."""
        return {"zeros": F.count_if(F.col(SCORE) == 0)}

    def state(self) -> StateSpec:
        """Keep the candidates of each key."""
        groups, axis = tuple(self.base.key_names), self.base.axis
        return CandidateSpec(groups, axis, self.grid, self.query.k, self.base.types, False)

    def output(self, answers: DataFrame) -> DataFrame:
        """Make ranked rows, whose score is the value itself."""
        return super().output(answers).withColumn("score", -F.col("score"))

    def describe(self) -> dict[str, Any]:
        """Say what a checkpoint depends on."""
        return {**super().describe(), "smallest": self.score_text}

    def explain_lines(self) -> Lines:
        """Say which panes there are."""
        return pane_lines(self)

    def explain_metrics(self) -> dict[str, Any]:
        """Count the panes."""
        return {"panes_per_window": panes_of(self).per_window}


class SmallestQuery(WindowQuery):
    """The query of a job file."""

    smallest: str = Field(description="an expression over columns, such as price")

    def options(self, safe: SafeText, drain: str | None = None) -> SmallestOptions:
        """The options of the query."""
        return SmallestOptions(**self.fields(smallest=safe(self.smallest), drain=drain))

    def words(self) -> str:
        """The query in words."""
        return f"the {self.k} smallest {self.smallest}"


class SmallestFamily(Family):
    """Rows by how small they are."""

    job_query: ClassVar[type[JobQuery]] = SmallestQuery
    marker: ClassVar[str] = "smallest"
    extra_counts: ClassVar[Mapping[str, str]] = {"zeros": "values of zero"}

    def resolve(self, df: DataFrame, options: SmallestOptions) -> SmallestPlan:
        """Check a query against a DataFrame."""
        query = options.query()
        check_k(query.k)
        score = Score(score_column(df, f"-({options.smallest})", "smallest"))
        base = resolve_base(df, options, query.window, carry=None)
        return SmallestPlan(base, query, score, options.smallest, "auto")


FAMILY = SmallestFamily()
