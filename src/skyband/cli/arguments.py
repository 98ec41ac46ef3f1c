"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

QUERY, OUTPUT = "The query", "Where and how"
"""Panels of options in the help."""


def option(name: str, metavar: str, help: str, **more: Any) -> Any:
    """An option that takes a value."""
    return typer.Option(name, metavar=metavar, help=help, **more)


def flag(name: str, help: str, **more: Any) -> Any:
    """An option that takes no value."""
    return typer.Option(name, help=help, **more)


def of_query(name: str, metavar: str, help: str) -> Any:
    """An option that says what is asked."""
    return option(name, metavar, help, rich_help_panel=QUERY)


def of_output(name: str, metavar: str, help: str, **more: Any) -> Any:
    """An option that says what computes it, and where the answers go."""
    return option(name, metavar, help, rich_help_panel=OUTPUT, **more)


File = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="CSV, Parquet, JSON lines or Arrow: files of one kind, folders, 'patterns*.csv'; "
        "- for standard input.",
    ),
]
Where = Annotated[
    str | None,
    of_query(
        "--where",
        "CONDITION",
        "Only rows for which this is true, such as \"sector = 'tech'\": a SQL expression.",
    ),
]
By = Annotated[
    str,
    of_query(
        "--by",
        "EXPRESSION",
        "The score: a SQL expression over the file's columns, such as 'price * volume'.",
    ),
]
K = Annotated[str, of_query("--k", "K", "How many of each window.")]
Last = Annotated[str | None, of_query("--last", "N", "A count window: the last N rows.")]
Time = Annotated[
    str | None,
    of_query(
        "--time",
        "COLUMN",
        "The time of a row: a column, or a SQL expression, of timestamps or whole numbers.",
    ),
]
Length = Annotated[
    str | None,
    of_query(
        "--window",
        "DURATION",
        "A time window: '1 hour', '90 s', or a number in the time column's own unit.",
    ),
]
Slide = Annotated[
    str | None,
    of_query(
        "--slide",
        "N|DURATION",
        "How far apart windows are; the window itself if left out: no overlap.",
    ),
]
Offset = Annotated[
    str | None, of_query("--offset", "DURATION", "Shift the starts of time windows.")
]
Cumulative = Annotated[
    str | None,
    of_query(
        "--cumulative",
        "DURATION",
        "What a period has held so far, such as '1 day', at every step; instead of --window.",
    ),
]
AllTime = Annotated[
    bool,
    flag("--all-time", "All that came so far, at every step; no --window.", rich_help_panel=QUERY),
]
Every = Annotated[
    str | None,
    of_query("--every", "DURATION", "The steps of --cumulative, which divide it, or --all-time."),
]
Full = Annotated[
    bool, flag("--full", "Answer count windows only once they are full.", rich_help_panel=QUERY)
]
PartitionBy = Annotated[
    list[str] | None,
    of_query(
        "--partition-by",
        "COLUMN",
        "Rank each value of this column, or SQL expression, by itself; may be repeated.",
    ),
]
Ties = Annotated[
    str,
    of_query("--ties", "newest|oldest", "Which of equal scores ranks first."),
]
RankBy = Annotated[
    str,
    of_query(
        "--rank-by",
        "row_number|rank|dense_rank",
        "How ranks count, as in SQL: rows of equal score share a rank but with row_number.",
    ),
]
Emit = Annotated[
    str,
    of_query(
        "--emit",
        "all|changes|updates",
        "Whole rankings, or what entered, left or moved since the window before. Updates are for "
        "streams: of a file every window is final, and says so.",
    ),
]
Algorithm = Annotated[
    str,
    of_query(
        "--algorithm",
        "NAME",
        "auto, sap, sap-dynamic, sap-equal, mintopk, pretopk, sma, tma, kskyband, recompute.",
    ),
]
On = Annotated[
    list[str],
    of_query(
        "--on",
        "ATTRIBUTE:min|max",
        "A dimension and which way is better, such as 'price:min'; may be repeated. The attribute "
        "is a column or a SQL expression.",
    ),
]
Id = Annotated[
    list[str],
    of_query(
        "--id",
        "COLUMN",
        "What tells objects apart: a column, or a SQL expression; may be repeated.",
    ),
]
Stream = Annotated[str, of_query("--stream", "COLUMN", "The stream of a row, by name: a column.")]
Value = Annotated[
    str, of_query("--value", "EXPRESSION", "What the stream says of the object: a SQL expression.")
]
Streams = Annotated[
    str | None,
    of_query(
        "--streams",
        "NAME,NAME",
        "The streams that count, in the order of their weights; all of the file, by name, if left "
        "out.",
    ),
]
Combine = Annotated[
    str,
    of_query(
        "--combine",
        "sum|min|max|W,W",
        "How values make a score; a weight per stream for a weighted sum.",
    ),
]
Bounds = Annotated[
    list[str] | None,
    of_query(
        "--bounds",
        "[NAME=]LOW:HIGH",
        "The lowest and highest value, 0:1 if left out, of all streams or of one; may be "
        "repeated. What was not seen counts as the lowest.",
    ),
]
Outside = Annotated[
    str, of_query("--outside", "error|clip", "What becomes of values outside of the bounds.")
]
Repeats = Annotated[
    str,
    of_query(
        "--repeats",
        "max|none|sum:M",
        "Several values of an object in a stream: the largest counts; or there are none; or they "
        "are added up, at most M while the object lives.",
    ),
]
Key = Annotated[
    list[str],
    of_query(
        "--key",
        "COLUMN",
        "Of what totals are taken: a column, such as 'client', or a SQL expression; may be "
        "repeated.",
    ),
]
Total = Annotated[
    str,
    of_query(
        "--by",
        "TOTAL",
        "sum, count, max, min, mean, first or last of a SQL expression, such as 'sum(bytes)'; "
        "'count(*)'.",
    ),
]
Also = Annotated[
    list[str] | None,
    of_query(
        "--also",
        "NAME=TOTAL",
        "A further total of each ranked key, such as 'orders=count(*)', in a column of that name; "
        "may be repeated.",
    ),
]
Option = Annotated[
    list[str] | None,
    of_query("--option", "NAME=VALUE", "An option of the algorithm; may be repeated."),
]
NamedAlgorithm = Annotated[
    str, of_query("--algorithm", "NAME", "auto, or the name of an algorithm.")
]
Engine = Annotated[
    str,
    of_output(
        "--engine",
        "auto|spark|local",
        "What computes it: Spark on all cores, which needs Java and some seconds to start, or "
        "this process. Both print the same; auto leaves files up to 64 MiB to this process.",
        envvar="SKYBAND_ENGINE",
    ),
]
Master = Annotated[
    str | None,
    of_output(
        "--master",
        "MASTER",
        "How much of this machine Spark takes, such as 'local[2]'; all of it if left out.",
    ),
]
Format = Annotated[
    str | None,
    of_output(
        "--format",
        "table|csv|json",
        "A table of the last windows (default), or all of them, exactly.",
    ),
]
Out = Annotated[
    str | None, of_output("--out", "FILE", "Write to a file; .csv and .json set the format.")
]
