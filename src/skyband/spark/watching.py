"""What a stream reports of its leaders, whatever its sink: the best rows of its newest window.

They come with the progress of each micro-batch, as an observed metric: nothing is read twice, and
nothing is kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skyband.errors import QueryError
from skyband.spark.columns import quoted
from skyband.spark.families import description_of, family_of

BOARD = "skyband leaders"
"""The observed metric that holds the leaderboard, as JSON."""


_MARK_LETTERS = 8  # that tell apart keys which are cut


class BoardSize(NamedTuple):
    """How much of the answers is reported: rows, kept columns, letters of a text."""

    rows: int
    columns: int
    letters: int


LEADERS = BoardSize(40, 6, 40)
"""A leaderboard of a terminal, or of a notebook."""

SERVED = BoardSize(100_000, 12, 200)
"""All that a page shows; Spark ranks no more rows than that with ``max_by``."""


def watched(leaders: DataFrame) -> DataFrame:
    """The same ranked windows, of which a stream reports the newest, for :func:`board` to show.

    ``leaders`` is what :func:`top_k` or one of its sisters returned for a stream. Rows, columns and
    checkpoint stay as they are, and so does the sink: the best rows of the newest window, 40 at
    most, come with the progress of each micro-batch.

    Example::

        query = watched(leaders).writeStream.format("parquet").start("leaders")
        board(query)
    """
    if not isinstance(leaders, DataFrame):
        raise QueryError(
            f"leaders is {type(leaders).__name__}", "what top_k returned", "watched(leaders)"
        )
    if not leaders.isStreaming:
        raise QueryError(
            "a batch, whose rows are all there", "a stream of ranked windows", "leaders.show()"
        )
    query = description_of(leaders, "watch what top_k returned, then change it")
    missing = [name for name in _fixed(query) if name not in leaders.columns]
    if missing:
        raise QueryError(
            f"leaders without the column {missing[0]!r}",
            "all of the columns that say which window and rank a row has",
            "watch what top_k returned, then select",
        )
    return observed(leaders, BOARD, query)


def observed(
    leaders: DataFrame, name: Any, query: dict[str, Any], answers: BoardSize | None = None
) -> DataFrame:
    """Have a run report the best rows of its newest window, whatever the sink.

    They come with the progress of each batch, as JSON: nothing is read twice. ``answers`` reports
    rows of all windows as well, so many of them.
    """
    end, rank = F.col("window.end"), F.col("rank")
    if query["emit"] == "changes":
        rank = F.coalesce(rank, F.lit(1 << 20) + F.col("previous_rank"))
    queries = family_of(query).query_columns
    order = F.struct(end, *queries, -rank, "score")
    # ranks beyond those that a board has room for are not even compared: windows come in order,
    # so all rows of each would be taken in, and leave again with the next
    has_room = F.lit(True)
    if query["emit"] != "changes":
        has_room = F.coalesce(F.col("rank") <= LEADERS.rows, F.lit(True))
    best = F.max_by(_shown(leaders, query, LEADERS), F.when(has_room, order), LEADERS.rows)
    for column in queries:
        best = _of_first(best, column)
    firsts = F.count_if(F.col("rank") == 1)  # one in each whole ranking, unless rows share ranks
    if query["emit"] == "updates":
        firsts = F.count_if((F.col("rank") == 1) & F.col("final"))
    whole = query["emit"] != "changes" and "rank_by" not in query
    metrics = [
        _json(best).alias("leaders"),
        F.count(F.lit(1)).alias("ranked"),
        (firsts if whole else F.count_if(F.lit(False))).alias("windows"),
    ]
    if answers is not None:
        rows = F.max_by(_shown(leaders, query, answers), order, answers.rows)
        metrics.append(_json(rows).alias("answers"))
    return leaders.observe(name, *metrics)


def _json(rows: Column) -> Column:
    return F.to_json(rows, {"ignoreNullFields": "false"})


def _of_first(best: Column, name: str) -> Column:
    """The rows that agree with the first in a column: those of one query of several."""
    first = best[0][name]
    return F.filter(best, lambda row: row[name] == first)


def _shown(leaders: DataFrame, query: dict[str, Any], size: BoardSize) -> Column:
    """The columns that a board has room for."""
    names = [*_fixed(query), *board_columns(leaders, query, size)]
    keys = {*family_of(query).query_columns, *query["keys"]}
    return F.struct(*(_cell(leaders, name, size.letters, name in keys) for name in names))


def _fixed(query: dict[str, Any]) -> list[str]:
    """The columns that every board has: those before the rank tell rankings apart."""
    more = {"changes": ["change", "previous_rank"], "updates": ["revision", "final"]}
    keys = [*family_of(query).query_columns, *query["keys"]]
    return ["window", *keys, "rank", "score", *more.get(query["emit"], [])]


def board_columns(leaders: DataFrame, query: dict[str, Any], size: BoardSize) -> list[str]:
    """The columns beside those of every board that fit into a cell."""
    fixed = _fixed(query)
    plain = [
        field.name
        for field in leaders.schema.fields
        if field.name not in fixed
        and not field.dataType.simpleString().startswith(("array", "map", "struct", "binary"))
    ]
    return plain[: size.columns]


def _cell(leaders: DataFrame, name: str, letters: int, is_key: bool) -> Column:
    """A column as it is reported; a text that is cut ends with a mark.

    A key that is cut ends with a mark of its own, or keys that begin alike would be one.
    """
    column, kind = F.col(quoted(name)), leaders.schema[name].dataType.simpleString()
    if kind == "string":
        mark = F.lit("…")
        if is_key:
            mark = F.concat(mark, F.substring(F.sha2(column, 256), 1, _MARK_LETTERS))
        room = letters - 1 - (_MARK_LETTERS if is_key else 0)
        short = F.concat(F.substring(column, 1, room), mark)
        column = F.when(F.length(column) > letters, short).otherwise(column)
    elif kind.startswith("decimal"):  # readers of JSON would round it
        column = column.cast("string")
    return column.alias(name)
