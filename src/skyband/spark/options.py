"""What ``top_k`` was asked, checked as far as no DataFrame is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

from pyspark.sql import Column

from skyband.durations import Duration
from skyband.errors import QueryError
from skyband.query import TopK
from skyband.windows import CountWindow, last

Names = str | Sequence[str]


@dataclass(frozen=True)
class Asked:
    """What :func:`skyband.spark.top_k` was asked, as it was written."""

    k: int
    by: str | Column
    window: Any
    time: str | None = None
    slide: Any = None
    offset: Any = None
    sequence: str | None = None
    partition_by: Names | None = None
    id: Names | None = None
    keep: Names | None = None
    emit: str = "all"
    delay: Any = None
    skew: Duration | None = "1 hour"
    deduplicate_by: Names | None = None
    algorithm: str = "auto"
    full: bool = False
    drain: str | None = None

    @property
    def drainable(self) -> bool:
        """Whether a stream can answer its last windows when it is told that it has ended."""
        return self.sequence is None or not self.partition_by

    def query(self) -> TopK:
        """The query object, which validates itself."""
        counted = isinstance(self.window, int) and not isinstance(self.window, bool)
        if not counted and not isinstance(self.window, (str, timedelta)):
            raise QueryError(
                f"window is {self.window!r}",
                "a duration such as '1 hour', or a number of rows",
                "write window='1 hour', slide='1 minute'",
            )
        if counted:
            window = last(
                count=self.window, slide=self.slide, offset=self.offset or 0, full=self.full
            )
        else:
            window = last(
                time=self.window, slide=self.slide, offset=self.offset or 0, full=self.full
            )
        found = TopK(k=self.k, window=window, emit=self.emit)  # type: ignore[arg-type]
        _check_path(self, found)
        return found


def _check_path(asked: Asked, query: TopK) -> None:
    """Refuse options that mean nothing for the path a query takes."""
    if asked.sequence is not None and asked.time is not None:
        raise QueryError(
            f"both time={asked.time!r} and sequence={asked.sequence!r} were given",
            "one of them: what places rows in windows also orders them",
            "leave time out for count windows over a sequence",
        )
    if isinstance(query.window, CountWindow) and asked.sequence is None:
        from skyband.topk import ALGORITHMS

        if asked.algorithm not in ("auto", *ALGORITHMS):
            raise QueryError(
                f"algorithm is {asked.algorithm!r}",
                f"one of {', '.join(ALGORITHMS)}, auto",
                "use 'auto'",
            )
    elif asked.algorithm != "auto":
        raise QueryError(
            f"algorithm is {asked.algorithm!r} for windows that are answered from panes",
            "'auto': only count windows by arrival run one of the local engine's",
            "leave algorithm out",
        )
    if asked.drain is not None and not (isinstance(asked.drain, str) and asked.drain):
        raise QueryError(f"drain is {asked.drain!r}", "a directory", "write drain='marks'")
    if asked.drain is not None and not asked.drainable:
        raise QueryError(
            "drain is given for windows over a sequence by key",
            "no drain: a key cannot know which windows the rows of others complete",
            "leave drain or partition_by out, or answer it as a batch, which knows all rows",
        )


def like_one(asked: Any, by: str | Column, **changes: Any) -> Asked:
    """What another kind of query was asked, as a query by one score; ``changes`` come last."""
    names = [each.name for each in fields(Asked) if each.name != "by"]
    same = {name: getattr(asked, name) for name in names if hasattr(asked, name)}
    return Asked(by=by, **(same | changes))
