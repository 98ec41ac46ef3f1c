"""The windows that a page can show: the last ones of each ranking, in bounded memory."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from skyband import readable

Key = tuple[str | None, ...]
"""The values of the partition columns, as texts."""

WINDOWS, ROWS = 360, 500_000
BOARD_ROWS = 500
"""Rows of a ranking that readers get, unless they want another number."""
_DRAWN = 12  # leaders whose way is drawn
_AROUND = 40  # windows that a chart shows
_LETTERS = 200  # of a text; as many as are reported


class Row(NamedTuple):
    """A place in a ranking; ``cells`` are its columns.

    ``name`` tells it from the others; of several of the same name, ``occurrence`` does, which
    counts them from the best on.
    """

    name: str
    rank: int
    score: str
    number: float
    cells: tuple[str | None, ...]
    occurrence: int = 1

    @property
    def id(self) -> str:
        """What the row is called in a window, where no other is called so."""
        return self.name if self.occurrence == 1 else f"{self.name} · no. {self.occurrence}"

    @property
    def shown_number(self) -> float | None:
        """The score as a number; None if JSON has no such number."""
        return self.number if abs(self.number) < float("inf") else None

    @property
    def label(self) -> str:
        """What people call it: its first column, as on the board."""
        return (self.cells[0] if self.cells else None) or self.name


@dataclass(frozen=True)
class Window:
    """One ranking of one window; ``rows`` are in the order of ranks.

    It is ``complete`` unless it was put together of changes, of which earlier ones were not seen.
    """

    start: Any
    end: Any
    final: bool
    revision: int
    rows: tuple[Row, ...]
    complete: bool = True

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
            "complete": self.complete,
            "best": self.rows[0].shown_number if self.rows else None,
        }


@dataclass(frozen=True)
class Layout:
    """How rows of a result are read: the columns of the query, of keys, and of what is shown.

    ``names`` are the columns that tell the rows of a ranking apart; all that is shown, if empty.
    ``k`` is how many rows a ranking has at most, each with a rank of its own; 0 if that is unknown.
    """

    queries: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    emit: str = "all"
    k: int = 0

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
    """The windows of one query and key, oldest first.

    A ranking is ``whole`` if all changes that it adds up were seen.
    """

    windows: deque[Window] = field(default_factory=deque)
    whole: bool = True

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
        # windows by when they came; the first of a dict is far behind where others were deleted
        self._order: OrderedDict[tuple[str, Key, Any], None] = OrderedDict()
        self._rows = 0
        self._whole = True  # whether changes add up from the beginning
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
                name, key, _ = next(iter(self._order))
                self._forget_oldest(name, key)

    def doubt(self) -> None:
        """Take note that changes were not seen: rankings that add them up may lack rows."""
        with self._lock:
            self._whole = False
            for rankings in self._rankings.values():
                for ranking in rankings.values():
                    ranking.whole = False

    def __len__(self) -> int:
        """How many windows are remembered, of all rankings."""
        return len(self._order)

    def _put(self, name: str, key: Key, group: list[Mapping[str, Any]], layout: Layout) -> None:
        rankings = self._rankings.setdefault(name, {})
        ranking = rankings.setdefault(key, Ranking(whole=self._whole))
        newest = max(row.get("revision") or 0 for row in group)
        group = [row for row in group if (row.get("revision") or 0) == newest]
        bounds = group[0]["window"]
        if layout.emit == "changes":
            rows = _changed(ranking, group, layout)
        else:
            rows = [layout.row(row) for row in group if row["rank"] is not None]
        ranked = _numbered(rows)
        final = all(row.get("final", True) for row in group)
        if [row.rank for row in ranked] == [*range(1, layout.k + 1)]:
            ranking.whole = True  # k rows with k ranks: none is missing
        complete = layout.emit != "changes" or ranking.whole
        window = Window(bounds["start"], bounds["end"], final, newest, ranked, complete)
        before = ranking.put(window)
        self._rows += _weight(window) - (0 if before is None else _weight(before))
        if before is None:
            self._order[name, key, window.end] = None
            if len(ranking.windows) > self.most_windows:
                self._forget_oldest(name, key)

    def _forget_oldest(self, name: str, key: Key) -> None:
        """Forget the oldest window of a ranking, and a ranking with its last window."""
        ranking = self._rankings[name][key]
        window = ranking.windows.popleft()
        self._rows -= _weight(window)
        del self._order[name, key, window.end]
        if not ranking.windows:
            del self._rankings[name][key]
            if self._layouts[name].emit == "changes":
                self._whole = False  # changes of this key would add up from nothing

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

    def leaders(
        self,
        query: str,
        key: Sequence[str | None] | None,
        window: str | None,
        limit: int = BOARD_ROWS,
    ) -> dict[str, Any]:
        """A ranking, and what has moved since the window before; ``window`` is None without one.

        Not more than ``limit`` rows are given, and as many of those that left.
        """
        with self._lock:
            chosen, ranking = self._ranking(query, key)
            rankings = len(self._rankings.get(query, {}))
            at = ranking.at(window)
            board = None if at is None else ranking.windows[at]
            before = ranking.windows[at - 1] if at else None
            newest = window is None if at is None else at == len(ranking.windows) - 1
        return {
            "query": query,
            "key": list(chosen),
            "rankings": rankings,
            "window": None if board is None else board.described(),
            "newest": newest,
            **_moves(board, before, limit),
        }

    def windows(
        self, query: str, key: Sequence[str | None] | None, window: str | None = None
    ) -> dict[str, Any]:
        """The windows of a ranking that are remembered, and the way of its leaders.

        Leaders are those of the windows around ``window``, the newest if it is None.
        """
        with self._lock:
            ranking = self._ranking(query, key)[1]
            windows, at = list(ranking.windows), ranking.at(window)
        return {
            "windows": [each.described() for each in windows],
            "leaders": _ways(windows, len(windows) - 1 if at is None else at),
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
    """The ranking of the window before, with what has entered, left or moved since.

    Rows of the same name are told apart by the ranks that they had.
    """
    rows = list(ranking.windows[-1].rows if ranking.windows else ())
    places: dict[tuple[str, int], list[int]] = {}
    for at, row in enumerate(rows):
        places.setdefault((row.name, row.rank), []).append(at)
    gone: set[int] = set()
    for change in changes:
        had = places.get((layout.row(change).name, change["previous_rank"] or 0))
        if had:
            gone.add(had.pop())
    present = [layout.row(change) for change in changes if change["rank"] is not None]
    if layout.k and not ranking.whole:  # a row whose change was missed gave its rank to another
        taken = {row.rank for row in present}
        gone |= {at for at, row in enumerate(rows) if row.rank in taken}
    if layout.names:
        names = {layout.row(change).name for change in changes}
        gone |= {at for at, row in enumerate(rows) if row.name in names}
    return [row for at, row in enumerate(rows) if at not in gone] + present


def _numbered(rows: list[Row]) -> tuple[Row, ...]:
    """Rows in the order of their ranks; those of the same name are counted."""
    rows.sort(key=lambda row: (row.rank, -row.number, row.name))
    count: Counter[str] = Counter()
    numbered = []
    for row in rows:
        count[row.name] += 1
        occurrence = count[row.name]
        numbered.append(
            row if row.occurrence == occurrence else row._replace(occurrence=occurrence)
        )
    return tuple(numbered)


def _weight(window: Window) -> int:
    """What a window counts among the rows that are remembered; an empty one takes room as well."""
    return max(1, len(window.rows))


def _moves(window: Window | None, before: Window | None, limit: int) -> dict[str, Any]:
    """The first rows of a window with how they moved, and those that left."""
    every = () if window is None else window.rows
    earlier = () if before is None else before.rows
    ranks = {row.id: row.rank for row in earlier}
    rows = []
    for row in every[:limit]:
        previous = ranks.get(row.id)
        change = None if before is None else _change(row.rank, previous)
        rows.append({**_described(row), "change": change, "previous_rank": previous})
    present = {row.id for row in every}
    left = [row for row in earlier if row.id not in present]
    return {
        "total": len(every),
        "rows": rows,
        "left_total": len(left),
        "left": [
            {"id": row.id, "previous_rank": row.rank, "score": row.score, "cells": row.cells}
            for row in left[:limit]
        ],
    }


def _change(rank: int, previous: int | None) -> str:
    if previous is None:
        return "entered"
    return "same" if previous == rank else "moved"


def _described(row: Row) -> dict[str, Any]:
    return {
        "id": row.id,
        "rank": row.rank,
        "score": row.score,
        "number": row.shown_number,
        "cells": row.cells,
    }


def _ways(windows: list[Window], at: int) -> list[dict[str, Any]]:
    """The ranks and scores, window by window, of those who were among the best around a window."""
    last = min(max(at + _AROUND // 2, _AROUND), len(windows))
    first = max(0, last - _AROUND)
    best: dict[str, tuple[int, int]] = {}  # the best rank, the newer window first
    labels: dict[str, str] = {}
    for age, window in enumerate(reversed(windows[first:last])):
        for row in window.rows:
            if row.rank > _DRAWN:
                break
            best[row.id] = min(best.get(row.id, (row.rank, age)), (row.rank, age))
            labels.setdefault(row.id, row.label)
    present = {row.id for row in windows[at].rows} if windows else set()
    drawn = sorted(best, key=lambda name: (name not in present, best[name]))[:_DRAWN]
    chosen = set(drawn)
    places = [{row.id: row for row in window.rows if row.id in chosen} for window in windows]
    return [
        {
            "id": name,
            "label": labels[name],
            "ranks": [rows[name].rank if name in rows else None for rows in places],
            "scores": [rows[name].shown_number if name in rows else None for rows in places],
        }
        for name in drawn
    ]


def _place(end: Any) -> Any:
    """Ends of windows compare as moments, or as numbers."""
    return datetime.fromisoformat(end).timestamp() if isinstance(end, str) else end


def _key_order(key: Key) -> list[tuple[bool, str]]:
    """Keys in the order of their texts; those without a value come last."""
    return [(part is None, part or "") for part in key]
