"""Parquet files read by the tasks themselves: only what may win, or what rows come to, is
handed to Spark.
"""

from __future__ import annotations

from typing import NamedTuple


class NotScannedError(Exception):
    """Says why rows, or an expression over them, are Spark's to read."""


class ValueText(NamedTuple):
    """The SQL text of a number that each row has; ``exact`` ones are whole, and never rounded.

    ``option`` is what asked for it. It is evaluated only where the columns that it ``needs`` are
    not NULL.
    """

    text: str
    exact: bool
    option: str = "by"
    needs: tuple[str, ...] = ()
