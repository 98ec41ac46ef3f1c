"""What every family of queries is asked, as it was written: checked before there is a DataFrame."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import numpy as np
from pyspark.sql import Column

from skyband.durations import Duration, microseconds
from skyband.errors import QueryError
from skyband.expressions import NamedExpression
from skyband.spark.columns import Names
from skyband.windows import (
    AllTimeWindow,
    CountWindow,
    TimeWindow,
    Window,
    last,
    require_answerable,
    window_of_fields,
)

MOST_SHARDS = 64
USUAL_SHARDS = 16
"""Shards at most, unless more are asked for."""

_PATTERN = "*?[]{}"
_LONGEST = 1_000 * 366 * 86_400_000_000  # microseconds


@dataclass(frozen=True)
class Derivation:
    """What a DataFrame went through before a query was planned for it: see :mod:`.derive`."""

    where: str | None = None
    expressions: tuple[NamedExpression, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that were added."""
        return tuple(expression.name for expression in self.expressions)

    def describe(self) -> dict[str, Any]:
        """What a checkpoint depends on; nothing if there is nothing."""
        where = {} if self.where is None else {"where": self.where}
        columns = [f"{expression.sql} AS {expression.name}" for expression in self.expressions]
        return {**where, **({"expressions": columns} if columns else {})}


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """What every family is asked.

    ``checkpoint`` is where a stream keeps its own, for families whose queries may change.
    ``derivation`` says what became of ``where`` and of expressions, once they were applied.
    """

    time: str | None = None
    sequence: str | None = None
    partition_by: Names | None = None
    delay: Any = None
    skew: Duration | None = "1 hour"
    deduplicate_by: Names | None = None
    drain: str | None = None
    checkpoint: str | os.PathLike[str] | None = None
    where: str | Column | None = None
    derivation: Derivation = Derivation()

    def check(self) -> None:
        """Refuse what no DataFrame can make right."""
        if self.sequence is not None and self.time is not None:
            raise QueryError(
                f"both time={self.time!r} and sequence={self.sequence!r} were given",
                "one of them: what places rows in windows also orders them",
                "leave time out for count windows over a sequence",
            )
        if self.drain is None:
            return
        if not (isinstance(self.drain, str) and self.drain):
            raise QueryError(f"drain is {self.drain!r}", "a directory", "write drain='marks'")
        if not self.drainable:
            raise QueryError(
                "drain is given for windows over a sequence by key",
                "no drain: a key cannot know which windows the rows of others complete",
                "leave drain or partition_by out, or answer it as a batch, which knows all rows",
            )

    @property
    def drainable(self) -> bool:
        """Whether a stream can answer its last windows when it is told that it has ended."""
        return self.sequence is None or not self.partition_by


@dataclass(frozen=True, kw_only=True)
class WindowOptions(CommonOptions):
    """What the families are asked that answer one query: k, and its windows."""

    k: int
    window: Any
    slide: Any = None
    offset: Any = None
    emit: str = "all"
    open_windows: str = "all"
    full: bool = False
    algorithm: str = "auto"

    arrivals: ClassVar[bool] = False  # whether windows may count the rows of a key as they arrive

    def parsed_window(self) -> Window:
        """The windows that are asked for."""
        if isinstance(self.window, (CountWindow, TimeWindow, Mapping)):
            return self._described_window()
        counted = isinstance(self.window, int) and not isinstance(self.window, bool)
        if not counted and not isinstance(self.window, (str, timedelta)):
            raise QueryError(
                f"window is {self.window!r}",
                "a duration such as '1 hour', a number of rows, or a window",
                "write window='1 hour', slide='1 minute'",
            )
        size = {"count": self.window} if counted else {"time": self.window}
        window = last(**size, slide=self.slide, offset=self.offset or 0, full=self.full)
        require_answerable(window)
        return window

    def _described_window(self) -> Window:
        """A window that says all of itself; job files write ``{ticks: 100, ...}``."""
        beside = {"slide": self.slide, "offset": self.offset, "full": self.full or None}
        for name, value in beside.items():
            if value is not None:
                plain = type(self.window) in (CountWindow, TimeWindow)
                raise QueryError(
                    f"{name} is {value!r} beside window={self.window!s}",
                    f"{name} inside of it" if plain else "a window that says all of itself",
                    f"write window=last(..., {name}={value!r})" if plain else f"leave {name} out",
                )
        window = self.window
        if isinstance(window, Mapping):
            window = window_of_fields(window)
        parsed: Window = window
        require_answerable(parsed)
        return parsed

    def check_window(self, window: Window) -> None:
        """Refuse windows that the family cannot answer on a stream of rows in any order."""
        if isinstance(window, CountWindow) and self.sequence is None and not self.arrivals:
            raise QueryError(
                "windows that count rows as they arrive",
                "sequence=, a dense number 0, 1, 2, ..., or windows of time",
                "write sequence='offset', or window='1 hour', time='ts'",
            )

    def refuse_algorithm(self) -> None:
        """Refuse to choose an algorithm where windows are answered from panes."""
        if self.algorithm != "auto":
            raise QueryError(
                f"algorithm is {self.algorithm!r} for windows that are answered from panes",
                "'auto': only count windows by arrival run one of the local engine's",
                "leave algorithm out",
            )

    def refuse_shards_of_updates(self, shards: int | None) -> None:
        """Refuse to spread what is reported while windows are open.

        Shards answer a window together when it ends; before, one that no row came for is silent.
        """
        if self.emit == "updates" and (shards or 1) > 1:
            raise QueryError(
                f"shards is {shards} with emit='updates'",
                "one shard: of windows that are open, no shard knows what others would say",
                "leave shards out, or write emit='all'",
            )

    def refuse_shards_of_all_time(self, shards: int | None) -> None:
        """Refuse to spread what ends with the last row of all."""
        if (shards or 1) > 1 and isinstance(self.parsed_window(), AllTimeWindow):
            raise QueryError(
                f"shards is {shards} for windows of all time",
                "one shard: of several, none knows when the last row of the others came",
                "leave shards out",
            )

    def refuse_sequence_by_key(self) -> None:
        """Refuse windows over a sequence where each key is answered by itself."""
        if self.sequence is not None and self.partition_by:
            raise QueryError(
                f"both sequence={self.sequence!r} and partition_by were given",
                "windows of time for each key, or windows over a sequence of all rows",
                "leave partition_by out, or write time='ts', window='1 hour'",
            )


def check_algorithm(algorithm: str, names: tuple[str, ...]) -> None:
    """Refuse what is no algorithm."""
    if algorithm not in ("auto", *names):
        raise QueryError(
            f"algorithm is {algorithm!r}", f"one of {', '.join(names)}, auto", "use 'auto'"
        )


def check_shards(shards: Any) -> None:
    """Refuse what is no number of shards; None leaves the choice to :func:`usual_shards`."""
    whole = isinstance(shards, int) and not isinstance(shards, bool)
    if shards is not None and not (whole and 1 <= shards <= MOST_SHARDS):
        raise QueryError(
            f"shards is {shards!r}", f"a whole number, 1 to {MOST_SHARDS}", "leave it out"
        )


def usual_shards(partitions: int) -> int:
    """As many as shuffle partitions, up to a few."""
    return min(partitions, USUAL_SHARDS)


def duration(value: Any, option: str, example: str) -> int:
    """A duration of zero or more, in microseconds."""
    fix = f"write {option}={example!r}"
    if not isinstance(value, (str, timedelta, np.timedelta64)):
        raise QueryError(f"{option} is {value!r}", "a duration", fix)
    amount = microseconds(value, option)
    if not 0 <= amount <= _LONGEST:
        raise QueryError(f"{option} is {value!r}", "zero or more, up to a thousand years", fix)
    return amount


def plain_path(path: str | os.PathLike[str], option: str) -> str:
    """A directory as text; refused if Spark, when reading, would take it for a pattern."""
    if not isinstance(path, (str, os.PathLike)):
        raise QueryError(f"{option} is {path!r}", "a directory", f"write {option}='directory'")
    text = os.fspath(path)
    if not text:
        raise QueryError(f"{option} is empty", "a directory", f"write {option}='directory'")
    special = sorted(set(text) & set(_PATTERN))
    if special:
        raise QueryError(
            f"{option} is {text!r}, in which {' '.join(special)} makes a pattern to Spark",
            "a path without any of * ? [ ] { }",
            "choose another directory",
        )
    return text
