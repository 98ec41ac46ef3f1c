"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

QUERY, OUTPUT = "The query", "Where and how"
"""Panels of options in the help."""

File = Annotated[
    str, typer.Argument(metavar="FILE", help="CSV, Parquet or JSON lines; - for standard input.")
]
By = Annotated[
    str,
    typer.Option(
        "--by",
        metavar="EXPRESSION",
        help="The score: a SQL expression over the file's columns, such as 'price * volume'.",
        rich_help_panel=QUERY,
    ),
]
K = Annotated[
    str, typer.Option("--k", metavar="K", help="How many of each window.", rich_help_panel=QUERY)
]
Last = Annotated[
    str | None,
    typer.Option(
        "--last",
        metavar="N",
        help="A count window: the last N rows.",
        rich_help_panel=QUERY,
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="COLUMN",
        help="The time of a row: a column, or a SQL expression, of timestamps or whole numbers.",
        rich_help_panel=QUERY,
    ),
]
Length = Annotated[
    str | None,
    typer.Option(
        "--window",
        metavar="DURATION",
        help="A time window: '1 hour', '90 s', or a number in the time column's own unit.",
        rich_help_panel=QUERY,
    ),
]
Slide = Annotated[
    str | None,
    typer.Option(
        "--slide",
        metavar="N|DURATION",
        help="How far apart windows are; the window itself if left out: no overlap.",
        rich_help_panel=QUERY,
    ),
]
Offset = Annotated[
    str | None,
    typer.Option(
        "--offset",
        metavar="DURATION",
        help="Shift the ends of time windows.",
        rich_help_panel=QUERY,
    ),
]
Full = Annotated[
    bool,
    typer.Option(
        "--full", help="Answer count windows only once they are full.", rich_help_panel=QUERY
    ),
]
PartitionBy = Annotated[
    list[str] | None,
    typer.Option(
        "--partition-by",
        metavar="COLUMN",
        help="Rank each value of this column by itself; may be repeated.",
        rich_help_panel=QUERY,
    ),
]
Emit = Annotated[
    str,
    typer.Option(
        "--emit",
        metavar="all|changes",
        help="Whole rankings, or what entered, left or moved since the window before.",
        rich_help_panel=QUERY,
    ),
]
Algorithm = Annotated[
    str,
    typer.Option(
        "--algorithm",
        metavar="NAME",
        help="auto, sap, sap-dynamic, sap-equal, mintopk, pretopk, sma, tma, kskyband, recompute.",
        rich_help_panel=QUERY,
    ),
]
On = Annotated[
    list[str],
    typer.Option(
        "--on",
        metavar="ATTRIBUTE:min|max",
        help="A dimension and which way is better, such as 'price:min'; may be repeated. The "
        "attribute is a column or a SQL expression.",
        rich_help_panel=QUERY,
    ),
]

Id = Annotated[
    list[str],
    typer.Option(
        "--id",
        metavar="COLUMN",
        help="What tells objects apart: a column; may be repeated.",
        rich_help_panel=QUERY,
    ),
]
Stream = Annotated[
    str,
    typer.Option(
        "--stream",
        metavar="COLUMN",
        help="The stream of a row, by name: a column.",
        rich_help_panel=QUERY,
    ),
]
Value = Annotated[
    str,
    typer.Option(
        "--value",
        metavar="EXPRESSION",
        help="What the stream says of the object: a SQL expression.",
        rich_help_panel=QUERY,
    ),
]
Streams = Annotated[
    str | None,
    typer.Option(
        "--streams",
        metavar="NAME,NAME",
        help="The streams that count, in the order of their weights; all of the file, by name, if "
        "left out.",
        rich_help_panel=QUERY,
    ),
]
Combine = Annotated[
    str,
    typer.Option(
        "--combine",
        metavar="sum|min|max|W,W",
        help="How values make a score; a weight per stream for a weighted sum.",
        rich_help_panel=QUERY,
    ),
]
Bounds = Annotated[
    list[str] | None,
    typer.Option(
        "--bounds",
        metavar="[NAME=]LOW:HIGH",
        help="The lowest and highest value, 0:1 if left out, of all streams or of one; may be "
        "repeated. What was not seen counts as the lowest.",
        rich_help_panel=QUERY,
    ),
]
Outside = Annotated[
    str,
    typer.Option(
        "--outside",
        metavar="error|clip",
        help="What becomes of values outside of the bounds.",
        rich_help_panel=QUERY,
    ),
]
Repeats = Annotated[
    str,
    typer.Option(
        "--repeats",
        metavar="max|none|sum:M",
        help="Several values of an object in a stream: the largest counts; or there are none; or "
        "they are added up, at most M while the object lives.",
        rich_help_panel=QUERY,
    ),
]
Key = Annotated[
    list[str],
    typer.Option(
        "--key",
        metavar="COLUMN",
        help="Of what totals are taken: a column, such as 'client'; may be repeated.",
        rich_help_panel=QUERY,
    ),
]
Total = Annotated[
    str,
    typer.Option(
        "--by",
        metavar="TOTAL",
        help="sum, count, max, min or mean of a SQL expression, such as 'sum(bytes)'; 'count(*)'.",
        rich_help_panel=QUERY,
    ),
]
Option = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of the algorithm; may be repeated.",
        rich_help_panel=QUERY,
    ),
]
NamedAlgorithm = Annotated[
    str,
    typer.Option(
        "--algorithm",
        metavar="NAME",
        help="auto, or the name of an algorithm.",
        rich_help_panel=QUERY,
    ),
]

Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="auto|spark|local",
        envvar="SKYBAND_ENGINE",
        help="What computes it: Spark on all cores, which needs Java and some seconds to "
        "start, or this process. Both print the same; auto leaves files up to 64 MiB to "
        "this process.",
        rich_help_panel=OUTPUT,
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="MASTER",
        help="How much of this machine Spark takes, such as 'local[2]'; all of it if left out.",
        rich_help_panel=OUTPUT,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="table|csv|json",
        help="A table of the last windows (default), or all of them, exactly.",
        rich_help_panel=OUTPUT,
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Write to a file; .csv and .json set the format.",
        rich_help_panel=OUTPUT,
    ),
]
