"""The ranking that a shard answered last, for those who merge shards and tell changes.

What changed is known only once shards are merged, and merging keeps no state. So a shard's answer
has two rankings: that of its window, and that of the window before. A shard that ranks nothing any
more answers once again, for the last objects leave in that window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import ArrayType, DataType, DoubleType, LongType, StructField

from skyband.spark.state.candidates import Answer, Column
from skyband.spark.state.processor import (
    array_field,
    column_fields,
    named_columns,
    saved_columns,
)

_PREFIX = "before"


def pair_fields(types: tuple[DataType, ...], score: DataType | None = None) -> list[StructField]:
    """The columns of an answer behind its own ranking: that of the window before."""
    return [
        StructField(f"{_PREFIX}_scores", ArrayType(score or DoubleType(), False)),
        *(StructField(f"{_PREFIX}_{i}", ArrayType(type)) for i, type in enumerate(types)),
    ]


@dataclass
class LastRanking:
    """Maintains what a shard ranked in the last window that it answered.

    Windows come in ascending order. After :meth:`paired` has reported all windows up to one, the
    ranking is that window's, or there is none.
    """

    width: int
    ranking: Answer | None = None

    @property
    def next_window(self) -> int | None:
        """The window in which to compare it; None if there is nothing to compare."""
        return None if self.ranking is None else self.ranking.window + 1

    def paired(self, answers: Iterator[Answer], closed: int) -> Iterator[Answer]:
        """Rankings up to a window, each with that of the window before as further columns."""
        for answer in answers:
            yield from self._farewell(answer.window - 1)
            yield self._pair(answer)
            self.ranking = answer
        yield from self._farewell(closed)

    def _farewell(self, until: int) -> Iterator[Answer]:
        """The window in which the last objects leave, unless it comes later."""
        if self.ranking is not None and self.ranking.window < until:
            yield self._pair(Answer(self.ranking.window + 1, [], self._nothing))
            self.ranking = None

    def _pair(self, answer: Answer) -> Answer:
        before = self.ranking or Answer(0, [], self._nothing)
        return answer._replace(columns=[*answer.columns, before.score, *before.columns])

    @property
    def _nothing(self) -> list[Column]:
        return [[] for _ in range(self.width)]

    @staticmethod
    def fields(types: tuple[DataType, ...], score: DataType | None = None) -> list[StructField]:
        """The fields of a state that hold the ranking."""
        return [
            StructField(f"{_PREFIX}_window", LongType(), False),
            array_field(f"{_PREFIX}_score", score or DoubleType(), False),
            *column_fields(types, _PREFIX),
        ]

    def save(self) -> dict[str, Any]:
        """What a state holds, by the names of its fields; no ranking has no scores."""
        window, score, columns, *_ = self.ranking or Answer(0, [], self._nothing)
        return {
            f"{_PREFIX}_window": window,
            f"{_PREFIX}_score": score,
            **named_columns(columns, _PREFIX),
        }

    def restore(self, fields: Mapping[str, Any]) -> None:
        """Take back what :meth:`save` gave."""
        score = list(fields[f"{_PREFIX}_score"])
        if score:
            columns = saved_columns(fields, self.width, _PREFIX)
            self.ranking = Answer(fields[f"{_PREFIX}_window"], score, columns)
