"""Ranked windows as an HTML table: the newest first, and not more than fit on a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband import readable
from skyband.html_tables import MOST_ROWS, Column, column, left_out, table
from skyband.windows import FOREVER

if TYPE_CHECKING:
    from skyband.engine.results import Ranked, RankedWindow

_MOST_WINDOWS = 8


def ranked_html(ranked: Ranked, queries: Sequence[str] | None = None) -> str:
    """The newest windows as a table; ``queries`` names the query of each window, if many did.

    Whole windows are shown, but for the newest, which is cut if it has too many rows alone.
    """
    revision = np.zeros(len(ranked), np.int64) if ranked.revision is None else ranked.revision
    newest = np.lexsort((revision, ranked.window_end))[::-1][:_MOST_WINDOWS]
    rows = np.cumsum(np.maximum(np.diff(ranked.offsets)[newest], 1))
    chosen = newest[: max(1, int(np.searchsorted(rows, MOST_ROWS, side="right")))]
    some = np.zeros(len(ranked), np.bool_)
    some[chosen] = True
    windows = dict(zip(np.flatnonzero(some).tolist(), ranked.only(some), strict=True))
    row = "row" if ranked.previous_rank is None else "change"
    title = f"{_counted(len(ranked), 'window')}, {_counted(ranked.rows, row)}"
    if not len(ranked):
        return windows_html("no window", [])
    names = None if queries is None else [queries[at] for at in chosen.tolist()]
    notes = left_out(len(ranked) - len(chosen), "older window")
    return windows_html(title, [windows[at] for at in chosen.tolist()], names, notes)


def windows_html(
    title: str,
    windows: Sequence[RankedWindow],
    queries: Sequence[str] | None = None,
    notes: Sequence[str] = (),
) -> str:
    """Windows below each other in one table; each has its bounds in its first row."""
    sizes = [min(max(len(window), 1), MOST_ROWS) for window in windows]
    cut = sum(max(0, len(window) - MOST_ROWS) for window in windows)
    begins = np.cumsum([0, *sizes])[:-1].tolist()

    def once(texts: Sequence[str]) -> list[str]:
        """A text in the first row of each window."""
        pairs = zip(texts, sizes, strict=True)
        return [cell for text, size in pairs for cell in (text, *[""] * (size - 1))]

    def each(name: str) -> list[Any]:
        """A value per row; a window without rows has one row without values."""
        return [
            value
            for window, size in zip(windows, sizes, strict=True)
            for value in (_values(window, name)[:size] or [None])
        ]

    timed = any(window.timed for window in windows)
    spans = [readable.bounds(w.start, w.end, w.timed, FOREVER) for w in windows]
    columns = (
        [] if queries is None else [Column("query", once([readable.shown(q) for q in queries]))]
    )
    columns += [
        Column("window (UTC)" if timed else "window", once(spans)),
        Column("rank", [str(rank) if rank else "" for rank in each("rank")], True),
        column("score", each("score")),
        Column("id", ["" if id is None else str(id) for id in each("id")], True),
    ]
    if any(window.time is not None for window in windows):
        moments = each("time")
        if timed:
            texts = ["" if at is None else readable.moment(at) for at in moments]
            columns.append(Column("time (UTC)", texts))
        else:
            columns.append(column("time", moments))
    if any(window.previous_rank is not None for window in windows):
        ranks = zip(each("rank"), each("previous_rank"), strict=True)
        columns.append(Column("change", [_change(rank, before) for rank, before in ranks]))
    elif not all(len(window) for window in windows):
        empty = ["" if len(window) else "no row is ranked" for window in windows]
        columns.append(Column("", once(empty)))
    for name in next((window.also for window in windows if window.also), {}):
        columns.append(column(readable.shown(name), each(name)))
    if not all(window.exact for window in windows):
        shares = ["exact" if w.exact else f"about {w.accuracy:.1%} right" for w in windows]
        columns.append(Column("answer", once(shares)))
    if not all(window.final for window in windows):
        columns.append(Column("", once(["final" if w.final else "so far" for w in windows])))
    return table(title, columns, [*left_out(cut, "more row"), *notes], begins)


def _counted(number: int, one: str) -> str:
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def _values(window: RankedWindow, name: str) -> list[Any]:
    """A column of a window; one that it carries beside the score has its own name."""
    if window.also is not None and name in window.also:
        return window.also[name].tolist()
    values = getattr(window, name)
    return [] if values is None else values.tolist()


def _change(rank: int | None, before: int | None) -> str:
    if rank is None or before is None:
        return "nothing changed"
    if not before:
        return "entered"
    return f"left, was {before}" if not rank else f"moved from {before}"
