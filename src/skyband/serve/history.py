"""The windows that a page can show: the last ones of each ranking, in bounded memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from skyband import readable

Key = tuple[str | None, ...]
"""The values of the partition columns, as texts."""

WINDOWS, ROWS = 360, 500_000
_DRAWN = 12  # leaders whose way is drawn
_LETTERS = 200  # of a text; as many as are reported


class Row(NamedTuple):
    """A place in a ranking; ``name`` tells it from the others, ``cells`` are its columns."""

    name: str
    rank: int
    score: str
    number: float
    cells: tuple[str | None, ...]

    @property
    def label(self) -> str:
        """What people call it: its first column, as on the board."""
        return (self.cells[0] if self.cells else None) or self.name


@dataclass(frozen=True)
class Window:
    """One ranking of one window; ``rows`` are in the order of ranks."""

    start: Any
    end: Any
    final: bool
    revision: int
    rows: tuple[Row, ...]

    @property
    def id(self) -> str:
        """What the window is called in addresses."""
        return str(self.end)

    def described(self) -> dict[str, Any]:
        """The window without its rows."""
        return {
            "id": self.id,
            "start": self.start,
            "end": self.end,
            "final": self.final,
            "revision": self.revision,
        }


@dataclass(frozen=True)
class Layout:
    """How rows of a result are read: the columns of the query, of keys, and of what is shown.

    ``names`` are the columns that tell the rows of a ranking apart; all that is shown, if empty.
    """

    queries: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    emit: str = "all"

    def row(self, values: Mapping[str, Any]) -> Row:
        """A row of a result, in the words of a page."""
        cells = tuple(_text(values.get(name)) for name in self.columns)
        chosen = [shown(values.get(name)) for name in self.names] or [cell or "" for cell in cells]
        score = values.get("score")
        number = float(score) if isinstance(score, int | float | Decimal | str) else 0.0
        return Row(" · ".join(chosen), values["rank"] or 0, shown(score), number, cells)


def shown(value: Any) -> str:
    """A value as text."""
    return readable.shown(value, _LETTERS)


def _text(value: Any) -> str | None:
    return None if value is None else shown(value)


@dataclass
class Ranking:
    """The windows of one query and key, oldest first."""

    windows: deque[Window] = field(default_factory=deque)

    def put(self, window: Window) -> Window | None:
        """Take in a window; returns the one that it replaces."""
        at = len(self.windows)
        while at and _place(self.windows[at - 1].end) > _place(window.end):
            at -= 1
        if at and self.windows[at - 1].end == window.end:
            before = self.windows[at - 1]
            if before.final or before.revision > window.revision:
                return window  # an answer that is final stays
            self.windows[at - 1] = window
            return before
        self.windows.insert(at, window)
        return None

    def at(self, window: str | None) -> int | None:
        """Where a window is, the newest if none is named; None if it is not remembered."""
        if window is None:
            return len(self.windows) - 1 if self.windows else None
        for number in range(len(self.windows) - 1, -1, -1):
            if self.windows[number].id == window:
                return number
        return None


class History:
    """The last windows of each ranking: ``windows`` of each, ``rows`` of all together.

    Readers and the writer are in different threads; each call sees a whole batch or none of it.
    """

    def __init__(self, windows: int = WINDOWS, rows: int = ROWS) -> None:
        self.most_windows, self.most_rows = windows, rows
        self._layouts: dict[str, Layout] = {}
        self._rankings: dict[str, dict[Key, Ranking]] = {}
        self._order: deque[tuple[str, Key, Any]] = deque()  # windows by when they came
        self._rows = 0
        self._lock = threading.Lock()

    @property
    def words(self) -> str:
        """How much is remembered, in words."""
        return (
            f"the last {self.most_windows:,} windows of each ranking, "
            f"{self.most_rows:,} rows at most"
        )

    def add(
        self, rows: Iterable[Mapping[str, Any]], layout: Layout, query: str | None = None
    ) -> None:
        """Take in the rows of a batch; ``query`` is the name of all, if no column has it."""
        with self._lock:
            groups = _grouped(rows, layout, query)
            for (name, key, _), group in sorted(
                groups.items(), key=lambda item: _place(item[0][2])
            ):
                self._layouts[name] = layout
                self._put(name, key, group, layout)
            while self._rows > self.most_rows and len(self._order) > 1:
                self._forget(*self._order.popleft())

    def _put(self, name: str, key: Key, group: list[Mapping[str, Any]], layout: Layout) -> None:
        ranking = self._rankings.setdefault(name, {}).setdefault(key, Ranking())
        newest = max(row.get("revision") or 0 for row in group)
        group = [row for row in group if (row.get("revision") or 0) == newest]
        bounds = group[0]["window"]
        if layout.emit == "changes":
            rows = _changed(ranking, group, layout)
        else:
            rows = [layout.row(row) for row in group if row["rank"] is not None]
        rows.sort(key=lambda row: (row.rank, -row.number, row.name))
        final = all(row.get("final", True) for row in group)
        window = Window(bounds["start"], bounds["end"], final, newest, tuple(rows))
        before = ranking.put(window)
        self._rows += len(window.rows) - (0 if before is None else len(before.rows))
        if before is None:
            self._order.append((name, key, window.end))
            if len(ranking.windows) > self.most_windows:
                self._forget(name, key, ranking.windows[0].end)

    def _forget(self, name: str, key: Key, end: Any) -> None:
        """Forget the oldest window of a ranking, if it ends there: it may be gone already."""
        ranking = self._rankings.get(name, {}).get(key)
        if ranking is None or not ranking.windows or ranking.windows[0].end != end:
            return
        self._rows -= len(ranking.windows.popleft().rows)
        if not ranking.windows:
            del self._rankings[name][key]

    def keys(self, query: str, search: str, limit: int) -> dict[str, Any]:
        """The keys of a query that contain a text, whatever its case, in order."""
        with self._lock:
            keys = list(self._rankings.get(query, {}))
        wanted = search.casefold()
        matching = [key for key in keys if wanted in " ".join(k or "" for k in key).casefold()]
        matching.sort(key=_key_order)
        return {
            "total": len(keys),
            "matching": len(matching),
            "keys": [list(key) for key in matching[:limit]],
        }

    def leaders(self, query: str, key: Sequence[str | None] | None, window: str | None) -> Any:
        """A ranking, and what has moved since the window before; None if there is none."""
        with self._lock:
            chosen, ranking = self._ranking(query, key)
            at = ranking.at(window)
            if at is None:
                return None
            shown_window = ranking.windows[at]
            before = ranking.windows[at - 1] if at else None
            newest = at == len(ranking.windows) - 1
        return {
            "query": query,
            "key": list(chosen),
            "window": shown_window.described(),
            "newest": newest,
            **_moves(shown_window, before),
        }

    def windows(self, query: str, key: Sequence[str | None] | None) -> dict[str, Any]:
        """The windows of a ranking that are remembered, and the way of its leaders."""
        with self._lock:
            windows = list(self._ranking(query, key)[1].windows)
        return {
            "windows": [window.described() for window in windows],
            "leaders": _ways(windows),
        }

    def _ranking(self, query: str, key: Sequence[str | None] | None) -> tuple[Key, Ranking]:
        rankings = self._rankings.get(query, {})
        if key is None:
            chosen = min(rankings, key=_key_order, default=())
        else:
            chosen = tuple(key)
        return chosen, rankings.get(chosen, Ranking())


def _grouped(
    rows: Iterable[Mapping[str, Any]], layout: Layout, query: str | None
) -> dict[tuple[str, Key, Any], list[Mapping[str, Any]]]:
    """Rows by query, key and the end of their window."""
    groups: dict[tuple[str, Key, Any], list[Mapping[str, Any]]] = {}
    for row in rows:
        name = query or "".join(shown(row[column]) for column in layout.queries)
        key = tuple(_text(row.get(column)) for column in layout.keys)
        groups.setdefault((name, key, row["window"]["end"]), []).append(row)
    return groups


def _changed(ranking: Ranking, changes: list[Mapping[str, Any]], layout: Layout) -> list[Row]:
    """The ranking of the window before, with what has entered, left or moved since."""
    rows = {row.name: row for row in (ranking.windows[-1].rows if ranking.windows else ())}
    for change in changes:
        row = layout.row(change)
        if change["rank"] is None:
            rows.pop(row.name, None)
        else:
            rows[row.name] = row
    return list(rows.values())


def _moves(window: Window, before: Window | None) -> dict[str, Any]:
    """The rows of a window with how they moved, and those that left."""
    ranks = {} if before is None else {row.name: row.rank for row in before.rows}
    rows = []
    for row in window.rows:
        previous = ranks.get(row.name)
        change = None if before is None else _change(row.rank, previous)
        rows.append({**_described(row), "change": change, "previous_rank": previous})
    present = {row.name for row in window.rows}
    left = [
        {"id": row.name, "previous_rank": row.rank, "score": row.score, "cells": row.cells}
        for row in (before.rows if before is not None else ())
        if row.name not in present
    ]
    return {"rows": rows, "left": left}


def _change(rank: int, previous: int | None) -> str:
    if previous is None:
        return "entered"
    return "same" if previous == rank else "moved"


def _described(row: Row) -> dict[str, Any]:
    return {
        "id": row.name,
        "rank": row.rank,
        "score": row.score,
        "number": row.number if abs(row.number) < float("inf") else None,
        "cells": row.cells,
    }


def _ways(windows: list[Window]) -> list[dict[str, Any]]:
    """The ranks and scores, window by window, of those who were among the best."""
    places = [{row.name: row for row in window.rows} for window in windows]
    best: dict[str, tuple[int, int]] = {}  # the best rank, the newer window first
    for age, rows in enumerate(reversed(places)):
        for name, row in rows.items():
            best[name] = min(best.get(name, (row.rank, age)), (row.rank, age))
    newest = places[-1] if places else {}
    drawn = sorted(best, key=lambda name: (name not in newest, best[name]))[:_DRAWN]
    return [
        {
            "id": name,
            "label": next(rows[name] for rows in reversed(places) if name in rows).label,
            "ranks": [rows[name].rank if name in rows else None for rows in places],
            "scores": [
                _described(rows[name])["number"] if name in rows else None for rows in places
            ],
        }
        for name in drawn
    ]


def _place(end: Any) -> Any:
    """Ends of windows compare as moments, or as numbers."""
    return datetime.fromisoformat(end).timestamp() if isinstance(end, str) else end


def _key_order(key: Key) -> list[tuple[bool, str]]:
    """Keys in the order of their texts; those without a value come last."""
    return [(part is None, part or "") for part in key]
