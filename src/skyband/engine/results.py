"""Ranked windows, and changes between them, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skyband.engine.whole_numbers import numbers_of
from skyband.order import Bools, Floats, Ints, Scores
from skyband.windows import FOREVER, TimeWindow, Window

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes

    from skyband.engine.ranking_plot import Names, What

CHANGES = ("entered", "left", "moved")
_OF_ROWS = ("score", "id", "time", "ranks", "previous_rank")
_OF_WINDOWS = ("window_start", "window_end", "exact", "accuracy", "final", "revision")


@dataclass(frozen=True)
class RankedWindow:
    """One window: its bounds (half open) and its rows, best first.

    ``rank`` counts from 1. In a report of changes ``rank`` is 0 for an object that left and
    ``previous_rank`` is 0 for one that entered. ``accuracy`` is the share of the answer that is
    expected to be right, if it is not ``exact``. A ranking that is not ``final`` is the one so far
    of a window that is open; of several reports of a window the one with the largest ``revision``
    counts. ``timed`` says that bounds and times are microseconds since the epoch.
    """

    start: int
    end: int
    rank: Ints
    score: Scores
    id: Ints
    time: Ints | None = None
    previous_rank: Ints | None = None
    exact: bool = True
    accuracy: float = 1.0
    final: bool = True
    revision: int = 0
    also: Mapping[str, Scores] | None = None
    timed: bool = False

    def __len__(self) -> int:
        return len(self.score)

    def __str__(self) -> str:
        is_whole = self.score.dtype == np.int64
        rows = ", ".join(
            f"{rank}. {score if is_whole else format(score, 'g')} (id {id})"
            for rank, score, id in zip(self.rank, self.score, self.id, strict=True)
        )
        start = f"[{self.start}" if self.start > -FOREVER else "(-forever"
        so_far = "" if self.final else "so far "
        return f"{start}, {self.end}) {so_far}{rows}"

    def _repr_html_(self) -> str:
        """The window as a table, for notebooks."""
        from skyband.engine.ranking_html import windows_html

        return windows_html("", [self])


@dataclass(frozen=True)
class Ranked:
    """The windows that one push answered, as columns; iterate for one window at a time.

    ``offsets`` has one entry more than there are windows: rows ``offsets[i]:offsets[i + 1]``
    belong to window ``i``. ``timed`` says that bounds and times are microseconds since the epoch.
    A window of all time starts at ``-2**62``, which Arrow gets as NULL.
    ``exact`` and ``accuracy``, where an algorithm may approximate, say per window whether the
    answer is exact and which share of it is expected to be right. ``score`` holds whole numbers
    if the query ranks such. ``final`` and ``revision``, where a query reports updates, say per
    window whether its ranking can still change, and which report this is: larger is later.
    ``also`` holds, by name, what a query carries beside the score.
    """

    window_start: Ints
    window_end: Ints
    offsets: Ints
    score: Scores
    id: Ints
    time: Ints | None = None
    ranks: Ints | None = None
    previous_rank: Ints | None = None
    timed: bool = False
    exact: Bools | None = None
    accuracy: Floats | None = None
    final: Bools | None = None
    revision: Ints | None = None
    also: Mapping[str, Scores] | None = None

    @classmethod
    def empty(cls, window: Window, changes: bool) -> Ranked:
        """No window at all."""
        none = np.empty(0, np.int64)
        time = none if isinstance(window, TimeWindow) else None
        ranks = none if changes else None
        timed = isinstance(window, TimeWindow) and window.unit == "us"
        return cls(none, none, np.zeros(1, np.int64), np.empty(0), none, time, ranks, ranks, timed)

    def __len__(self) -> int:
        return len(self.window_start)

    def __iter__(self) -> Iterator[RankedWindow]:
        rank = self.rank
        bounds = zip(self.window_start.tolist(), self.window_end.tolist(), strict=True)
        offsets = self.offsets.tolist()
        for i, (start, end) in enumerate(bounds):
            rows = slice(offsets[i], offsets[i + 1])
            yield RankedWindow(
                start,
                end,
                rank[rows],
                self.score[rows],
                self.id[rows],
                None if self.time is None else self.time[rows],
                None if self.previous_rank is None else self.previous_rank[rows],
                True if self.exact is None else bool(self.exact[i]),
                1.0 if self.accuracy is None else float(self.accuracy[i]),
                True if self.final is None else bool(self.final[i]),
                0 if self.revision is None else int(self.revision[i]),
                None if self.also is None else {n: c[rows] for n, c in self.also.items()},
                self.timed,
            )

    def _repr_html_(self) -> str:
        """The newest windows as a table, for notebooks."""
        from skyband.engine.ranking_html import ranked_html

        return ranked_html(self)

    @property
    def rows(self) -> int:
        """Rows over all windows."""
        return len(self.score)

    @property
    def rank(self) -> Ints:
        """Each row's rank in its window, from 1; 0 for an object that left."""
        if self.ranks is not None:
            return self.ranks
        return np.arange(1, self.rows + 1, dtype=np.int64) - self._per_row(self.offsets[:-1])

    @property
    def change(self) -> NDArray[Any]:
        """What each row reports: ``entered``, ``left`` or ``moved`` (changes only)."""
        assert self.ranks is not None
        assert self.previous_rank is not None
        codes = np.where(self.previous_rank == 0, 0, np.where(self.ranks == 0, 1, 2))
        return np.array(CHANGES)[codes]

    def _per_row(self, values: Ints) -> Ints:
        return np.repeat(values, np.diff(self.offsets))

    def only(self, which: Bools) -> Ranked:
        """Some of the windows, by a mask."""
        if which.all():
            return self
        counts = np.diff(self.offsets)
        rows: Bools = np.repeat(which, counts)
        columns: dict[str, Any] = {
            name: column[mask]
            for names, mask in ((_OF_ROWS, rows), (_OF_WINDOWS, which))
            for name in names
            if (column := getattr(self, name)) is not None
        }
        if self.also is not None:
            columns["also"] = {name: column[rows] for name, column in self.also.items()}
        return replace(self, offsets=np.append(0, np.cumsum(counts[which])), **columns)

    def followed_by(self, others: Ranked) -> Ranked:
        """These windows, and then others of the same query."""
        columns: dict[str, Any] = {
            name: np.concatenate([column, getattr(others, name)])
            for name in (*_OF_ROWS, *_OF_WINDOWS)
            if (column := getattr(self, name)) is not None
        }
        if self.also is not None:
            also = others.also or {}
            columns["also"] = {
                name: _concatenated(column, also[name]) for name, column in self.also.items()
            }
        offsets = np.concatenate([self.offsets, self.offsets[-1] + others.offsets[1:]])
        return replace(self, offsets=offsets, **columns)

    def plot(
        self,
        what: What = "ranks",
        *,
        ax: Axes | None = None,
        leaders: int = 10,
        names: Names | None = None,
    ) -> Axes:
        """Draw how the ranking moved over the windows; needs matplotlib, the extra ``plot``.

        ``what`` is ``"ranks"`` or ``"scores"``. So many ``leaders`` have colours and names: the
        best of the newest window, and those that ranked high for the longest. ``names`` says what
        ids are called: a mapping, or a function. Of windows that were reported while they were open
        the last report counts; reports of changes are refused, since who stays where it was is not
        in them.

        Returns the axes, which are new ones unless ``ax`` gives them.
        """
        from skyband.engine.ranking_plot import plot_ranked

        return plot_ranked(self, what, ax, leaders, names)

    def to_arrow(self) -> pa.Table:
        """One row per ranked object: window bounds, rank, score, id, and what else there is."""
        import pyarrow as pa

        def moment(values: Ints) -> Any:
            whole = pa.array(values, mask=values == -FOREVER)
            return whole.cast(pa.timestamp("us", tz="UTC")) if self.timed else whole

        columns: dict[str, Any] = {
            "window_start": moment(self._per_row(self.window_start)),
            "window_end": moment(self._per_row(self.window_end)),
            "rank": pa.array(self.rank, mask=None if self.ranks is None else self.ranks == 0),
            "score": pa.array(self.score),
            "id": pa.array(self.id),
        }
        if self.time is not None:
            columns["time"] = moment(self.time)
        if self.previous_rank is not None:
            columns["change"] = pa.array(self.change)
            columns["previous_rank"] = pa.array(self.previous_rank, mask=self.previous_rank == 0)
        if self.exact is not None:
            columns["exact"] = pa.array(np.repeat(self.exact, np.diff(self.offsets)))
        if self.accuracy is not None:
            columns["accuracy"] = pa.array(np.repeat(self.accuracy, np.diff(self.offsets)))
        if self.revision is not None:
            columns["revision"] = pa.array(self._per_row(self.revision))
        if self.final is not None:
            columns["final"] = pa.array(np.repeat(self.final, np.diff(self.offsets)))
        for name, column in (self.also or {}).items():
            columns[name] = pa.array(column, from_pandas=True)  # NaN is NULL
        return pa.table(columns)


def _concatenated(column: Scores, other: Scores) -> Scores:
    """Two columns as one; whole numbers may be masked."""
    if np.ma.isMaskedArray(column) or np.ma.isMaskedArray(other):
        both: Scores = np.ma.concatenate([column, other])  # type: ignore[no-untyped-call]
        return both
    return np.concatenate([column, other])


def decoded(ranked: Ranked) -> Ranked:
    """Windows whose scores are codes, with the whole numbers that they stand for."""
    return replace(ranked, score=numbers_of(ranked.score))
