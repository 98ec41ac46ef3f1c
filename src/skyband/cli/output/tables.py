"""Printing a leaderboard for people: the last windows, as wide and as high as the terminal."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import groupby
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from skyband.cli.output.cells import Cells, moment
from skyband.cli.output.leaderboard import Leaderboard
from skyband.cli.output.records import happened
from skyband.windows import FOREVER

if TYPE_CHECKING:
    from skyband.order import Ints

_WIDEST = 28  # of a column
_MOST_ROWS = 20  # of a window, unless the terminal is higher
_MOST_WINDOWS = 5
_LOOKED_AT = 100_000  # windows, for the last one of each query
_FRAME = 5  # lines of a table besides its rows
_COLOURS = {"entered": "green", "left": "red", "moved": "yellow"}


class Window(NamedTuple):
    """One window of one key: bounds, and (place, rank, previous rank, score, more) of its rows.

    ``query`` is the name of its query, of a workload.
    """

    start: int
    end: int
    query: str
    rows: list[tuple[int, int, int, float | Decimal, list[float | Decimal | None]]]


def write_tables(
    out: BinaryIO, board: Leaderboard, cells: Cells, keys: list[str], changes: bool
) -> None:
    """Draw the last windows; ``keys`` are the partition columns, shown first."""
    text = io.TextIOWrapper(out, "utf-8", write_through=True)
    try:
        console = Console(file=text, highlight=False, soft_wrap=False)
        _draw(console, board, cells, keys, changes)
    finally:
        text.detach()


def _draw(
    console: Console, board: Leaderboard, cells: Cells, keys: list[str], changes: bool
) -> None:
    order = board.order()
    if not len(order):
        console.print("No window holds a ranked row.")
        return
    limit = max(_MOST_ROWS, console.height - _FRAME - 3)
    shown = (_last_of_each if board.queries else _last)(board, order, limit)
    names = [*dict.fromkeys([*keys, *cells.names])]
    used = sorted({place for window in shown for place, *_ in window.rows})
    lead = 1 + sum(
        max(cell_len(name), *map(cell_len, values)) + 3
        for name, values in (
            ("rank", [str(max(len(window.rows) for window in shown))]),
            ("score", [_rounded(score) for window in shown for *_, score, _ in window.rows]),
            *(
                (name, [_rounded(also[at]) for window in shown for *_, also in window.rows])
                for at, name in enumerate(board.also)
            ),
            *(() if board.objects else (("row", [f"{board.rows[place]:,}" for place in used]),)),
            *((("was", ["12"]), ("change", ["entered"])) if changes else ()),
            *((("query", [w.query[:_WIDEST] for w in shown]),) if board.queries else ()),
        )
    )
    fitting, hidden = _fitting(cells, names, used, console.width - lead, len(keys))
    for _, group in groupby(shown, key=_together(board)):
        console.print(_table(list(group), board, cells, fitting, changes, limit))
    for note in _notes(len(shown), len(order), hidden, bool(keys), len(board.queries)):
        console.print(Text(note, style="dim"))


def _together(board: Leaderboard) -> Callable[[Window], tuple[int, int]]:
    """What windows of one table share: their end, and with many queries their start as well."""
    return lambda window: (window.end, window.start if board.queries else window.end)


def _last(board: Leaderboard, order: Ints, limit: int) -> list[Window]:
    """As many windows from the end as fit."""
    windows: list[Window] = []
    room = limit
    ends: set[int] = set()
    for window in _windows(board, order[: -_MOST_ROWS * _MOST_WINDOWS : -1]):
        fresh = window.end not in ends
        if fresh and (len(ends) == _MOST_WINDOWS):
            break
        room -= min(len(window.rows), limit) + (_FRAME if fresh else 1)
        if windows and room < 0:
            break
        ends.add(window.end)
        windows.append(window)
    return windows[::-1]


def _last_of_each(board: Leaderboard, order: Ints, limit: int) -> list[Window]:
    """The last window of each query, of as many queries as fit."""
    last: dict[str, Window] = {}
    for window in _windows(board, order[: -_LOOKED_AT - 1 : -1]):
        last.setdefault(window.query, window)
        if len(last) == len(board.queries):
            break
    fitting: list[Window] = []
    room = limit
    for name in board.queries:
        if name in last:
            room -= min(len(last[name].rows), limit) + _FRAME
            if fitting and room < 0:
                break
            fitting.append(last[name])
    return fitting


def _windows(board: Leaderboard, order: Ints) -> Iterator[Window]:
    for block in board.blocks(order):
        previous = block.rank if block.previous is None else block.previous
        columns = (column.tolist() for column in (block.place, block.rank, previous))
        also = [[]] * len(block.rank) if block.also is None else block.also.tolist()
        rows = list(zip(*columns, board.numbers(block.score), also, strict=True))
        low = 0
        for start, end, size, key in zip(*(c.tolist() for c in block[:4]), strict=True):
            query = board.queries[key] if board.queries else ""
            yield Window(start, end, query, rows[low : low + size])
            low += size


def _fitting(
    cells: Cells, names: list[str], used: list[int], room: int, least: int
) -> tuple[list[int], list[str]]:
    """The columns that fit, the first ``least`` at any rate, and the names of the others."""
    at = {name: number for number, name in reversed(list(enumerate(cells.names)))}
    fitting: list[int] = []
    for count, name in enumerate(names):
        values = (_short(cells, at[name], place) for place in used)
        room -= min(_WIDEST, max([cell_len(name), *map(cell_len, values)])) + 3
        if room < 0 and count >= least:
            return fitting, names[count:]
        fitting.append(at[name])
    return fitting, []


def _table(
    windows: list[Window],
    board: Leaderboard,
    cells: Cells,
    columns: list[int],
    changes: bool,
    limit: int,
) -> Table:
    tell = moment if board.timed else "{:,}".format
    first = windows[0]
    start = f"{tell(first.start)} to" if first.start > -FOREVER else "all before"
    title = f"{start} {tell(first.end)}"
    table = Table(title=title, title_justify="left", min_width=cell_len(title))
    if board.queries:
        table.add_column("query", max_width=_WIDEST, no_wrap=True, overflow="ellipsis")
    table.add_column("rank", justify="right", style="bold")
    if changes:
        table.add_column("was", justify="right")
        table.add_column("change")
    table.add_column("score", justify="right", style="cyan", no_wrap=True)
    for name in board.also:
        table.add_column(Text(name), justify="right", no_wrap=True)
    if not board.objects:
        table.add_column("row", justify="right", style="dim", no_wrap=True)
    for at in columns:
        right = cells.kinds[at] in ("number", "float")
        table.add_column(
            Text(cells.names[at]),
            justify="right" if right else "left",
            max_width=_WIDEST,
            no_wrap=True,
            overflow="ellipsis",
        )
    left_over = 0
    for window in windows:
        left_over += max(0, len(window.rows) - limit)
        for place, rank, previous, score, also in window.rows[:limit]:
            change: list[str | Text] = []
            if changes:
                what = happened(rank, previous)
                change = [str(previous or ""), Text(what, _COLOURS[what])]
            table.add_row(
                *([Text(window.query)] if board.queries else []),
                str(rank or ""),
                *change,
                _rounded(score),
                *map(_rounded, also),
                *([] if board.objects else [f"{board.rows[place]:,}"]),
                *(Text(_short(cells, at, place)) for at in columns),
            )
        table.add_section()
    if left_over:
        table.caption = f"and {left_over:,} more"
    return table


def _notes(shown: int, all: int, hidden: list[str], keyed: bool, queries: int) -> Iterator[str]:
    if queries:
        some = f"{shown:,} of {queries:,} queries" if shown < queries else "each query"
        yield f"The last window of {some}; --format csv prints all {all:,} windows."
    elif shown < all:
        each = " (a key's own window counts)" if keyed else ""
        yield f"The last {shown:,} of {all:,} windows{each}; --format csv prints all of them."
    if hidden:
        names = ", ".join(hidden[:8]) + (", ..." if len(hidden) > 8 else "")
        yield f"Not shown for want of room: {names}."


def _short(cells: Cells, column: int, place: int) -> str:
    text = cells.texts[column][place]
    if text is None:
        return ""
    if cells.kinds[column] == "float":
        return _rounded(float(text))
    return text.replace("\n", "⏎").replace("\r", "")


def _rounded(value: float | Decimal | None) -> str:
    """A number in about ten characters; whole numbers and decimals as they are, NULL is nothing."""
    if value is None:
        return ""
    if not isinstance(value, float):
        return f"{value:,}" if abs(value) >= 10_000 else f"{value}"
    exact = repr(float(value)).removesuffix(".0")
    if not 1e-4 <= abs(value) < 1e15 or (abs(value) < 10_000 and len(exact) <= 10):
        return exact if len(exact) <= 10 else f"{value:.6g}"
    digits = max(0, 6 - math.floor(math.log10(abs(value))))
    return f"{value:,.{0 if value == int(value) else digits}f}"
