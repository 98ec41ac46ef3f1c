"""What places rows in windows, and the panes that windows are made of.

An *axis* says what a row's position is: a time, a dense sequence number, or the order of arrival.
It also knows how Spark's watermark, which counts milliseconds, moves along it. A *grid* says which
windows lie on an axis, and cuts it into panes. All of this is needed twice, in SQL for rows and in
Python for panes; both forms stand side by side here, and a property test holds that they agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F

from skyband.durations import spoken
from skyband.order import Bools, Ints
from skyband.spark.columns import quoted
from skyband.windows import (
    MOST_WINDOWS,
    AllTimeWindow,
    CountWindow,
    CumulativeWindow,
    TimeWindow,
    Window,
    require_few_windows,
)

_ASTRAY = (
    "skyband: the checkpoint was begun by a release whose windows ended at multiples of the slide; "
    "they start there now: start a new checkpoint, or shift them by an offset"
)
FOREVER = 1 << 62
"""A window that never comes."""

_END_OF_TIME = 221_845_392_000_000_000  # the year 9000, in microseconds
_END_OF_ROWS = 200_000_000_000_000
_DAY = 86_400_000_000


class WatermarkProgress(NamedTuple):
    """How far a stream has come: the last window that has ended, and whether it was drained.

    Where a state runs ahead of its stream, ``newest`` is the newest pane that has rows.
    """

    closed: int
    ended: bool
    newest: int | None = None


EVERYTHING = WatermarkProgress(FOREVER, True)
"""The progress of a batch, which knows all rows."""


@dataclass(frozen=True)
class PaneLifetimes:
    """How long the rows of a pane live, in window numbers.

    A pane is numbered ``2 * step + longer``: ``step`` is the first window that holds its rows, and
    ``longer`` is 1 for rows that live one window longer than the step's others (only if the slide
    does not divide the window). A higher number is a newer pane.
    """

    size: int
    slide: int

    @property
    def split(self) -> bool:
        """Whether a step has two panes."""
        return self.size % self.slide > 0

    def step(self, pane: int) -> int:
        """The first window that holds the rows of a pane."""
        return pane >> 1

    def last(self, pane: Any) -> Any:
        """The last window that holds the rows of a pane (or of each of many)."""
        return (pane >> 1) - 1 + self.size // self.slide + (pane & 1)

    @property
    def together(self) -> bool:
        """Whether rows of several panes leave together."""
        return False

    def last_at_end(self, pane: int) -> int:
        """The last window that is answered if the input ends with this pane."""
        return FOREVER

    def last_begun(self, pane: int) -> int:
        """The last window that has begun with this pane.

        Where rows leave together, it is the one that the pane's step completes: later ones would
        show the same.
        """
        return self.step(pane) if self.together else int(self.last(pane))

    def alike(self, window: int) -> int:
        """The last window up to this one after which windows lie as they do from zero on."""
        return window

    def require_few_windows(self, panes: Sequence[int], due: int, upto: int) -> None:
        """Refuse ascending panes whose rows are in too many windows, from ``due`` to ``upto``.

        Called before any of them is answered, which would take for ever.
        """
        if not panes:
            return
        first = max(due, self.step(panes[0]))
        if min(upto, self.last(panes[-1])) - first < MOST_WINDOWS:
            return
        require_few_windows(self.count_windows(panes, due, upto))

    def count_windows(self, panes: Sequence[int], due: int, upto: int) -> int:
        """How many windows from ``due`` to ``upto`` hold rows of ascending panes."""
        numbers = np.array(panes, np.int64)
        begin = np.maximum(numbers >> 1, due)
        last = np.minimum(np.broadcast_to(self.last(numbers), numbers.shape), upto)
        begin[1:] = np.maximum(begin[1:], last[:-1] + 1)
        return int(np.maximum(last - begin + 1, 0).sum())


@dataclass(frozen=True)
class PaneGrid(PaneLifetimes):
    """The windows that end at ``offset + number * slide``, and their panes.

    The *label* of a position is the end of the first window after it: what the position's row
    completes can be answered then, and no earlier.
    """

    offset: int = 0

    @classmethod
    def of(cls, window: Window) -> PaneGrid:
        """The grid of a query's windows; their kind says which, see :data:`GRIDS`."""
        return GRIDS[type(window)](window.size, window.slide, window.end_offset)

    @property
    def first_full_window(self) -> int:
        """The first window that begins where the axis does, or later."""
        return -(-self.size // self.slide)

    @property
    def longer_from(self) -> int:
        """How far into a slide the rows begin that live one window longer."""
        return self.slide - self.size % self.slide

    def label(self, position: Any) -> Any:
        """The label of a position, or of each of many."""
        return position - (position - self.offset) % self.slide + self.slide

    def label_sql(self, position: Column) -> Column:
        """The same in SQL."""
        return position - self._inside_sql(position) + F.lit(self.slide)

    def in_longer_pane(self, positions: Ints) -> Bools:
        """Whether each row lives longer than others of its step."""
        if not self.split:
            return np.zeros(len(positions), np.bool_)
        longer: Bools = (positions - self.offset) % self.slide >= self.longer_from
        return longer

    def in_longer_pane_sql(self, position: Column) -> Column:
        """The same in SQL."""
        if not self.split:
            return F.lit(False)
        return self._inside_sql(position) >= F.lit(self.longer_from)

    def pane(self, positions: Ints) -> Ints:
        """The number of the pane that holds each position."""
        numbers: Ints = 2 * (self.window_at(positions) + 1) + self.in_longer_pane(positions)
        return numbers

    def pane_sql(self, label: Column, longer: Column) -> Column:
        """The same in SQL, of a label and whether its rows live longer."""
        # a label is a whole number of slides from the offset: the division leaves nothing
        step = F.call_function("div", label - F.lit(self.offset), F.lit(self.slide))
        if self.split:  # such windows ended elsewhere in releases before
            astray = self._inside_sql(label) != F.lit(0)
            step = F.when(astray, F.raise_error(F.lit(_ASTRAY))).otherwise(step)
        return step * 2 + longer.cast("bigint")

    def window_at(self, position: Any) -> Any:
        """The last window that ends at or before a position."""
        return (position - self.offset) // self.slide

    def window_end(self, window: int) -> int:
        """Where a window ends."""
        return self.offset + window * self.slide

    def window_end_sql(self, window: Column) -> Column:
        """The same in SQL."""
        return window * F.lit(self.slide) + F.lit(self.offset)

    def window_start(self, window: int) -> int:
        """Where a window starts."""
        return self.window_end(window) - self.size

    def window_start_sql(self, window: Column) -> Column:
        """The same in SQL."""
        return self.window_end_sql(window) - F.lit(self.size)

    def label_of_pane_sql(self, pane: Column) -> Column:
        """The label of a pane's rows, in SQL."""
        return self.window_end_sql(F.shiftright(pane, 1))

    def _inside_sql(self, position: Column) -> Column:
        return F.pmod(position - F.lit(self.offset), F.lit(self.slide))


@dataclass(frozen=True)
class CumulativeGrid(PaneGrid):
    """Windows that hold a period so far: its rows live until it ends."""

    @property
    def _period(self) -> int:
        return self.size // self.slide

    @property
    def together(self) -> bool:
        """Those of a period do."""
        return True

    def last(self, pane: Any) -> Any:
        """The last window of the period of a pane (or of each of many)."""
        return -(-(pane >> 1) // self._period) * self._period

    def alike(self, window: int) -> int:
        """The last window up to this one with which a period ends."""
        return window // self._period * self._period

    def window_start(self, window: int) -> int:
        """Where the window's period starts."""
        return self.window_end((window - 1) // self._period * self._period)

    def window_start_sql(self, window: Column) -> Column:
        """The same in SQL."""
        before = window - F.lit(1) - F.pmod(window - F.lit(1), F.lit(self._period))
        return self.window_end_sql(before)


@dataclass(frozen=True)
class AllTimeGrid(PaneGrid):
    """Windows that hold everything before their end: no row ever leaves.

    They go on with the watermark; where the input ends they end with it, not at the end of time.
    """

    @property
    def together(self) -> bool:
        """None ever leaves."""
        return True

    def last(self, pane: Any) -> Any:
        """A window that never comes."""
        return pane * 0 + FOREVER

    def last_at_end(self, pane: int) -> int:
        """The first window that holds the pane."""
        return self.step(pane)

    def window_start(self, window: int) -> int:
        """Before everything."""
        return -FOREVER

    def window_start_sql(self, window: Column) -> Column:
        """The same in SQL: no moment."""
        return F.lit(None).cast("bigint")


GRIDS: dict[type, type[PaneGrid]] = {
    CountWindow: PaneGrid,
    TimeWindow: PaneGrid,
    CumulativeWindow: CumulativeGrid,
    AllTimeWindow: AllTimeGrid,
}
"""How the windows of each kind lie on an axis."""


@dataclass(frozen=True)
class Axis:
    """What places rows: the column, and how far rows may be behind the newest.

    ``delay`` and positions are in the axis' unit: microseconds, or rows.
    """

    column: str
    delay: int

    kind: ClassVar[str]
    counts_rows: ClassVar[bool] = False  # positions are row numbers; rows complete windows
    per_ms: ClassVar[int] = 1000  # units in a millisecond of Spark's watermark
    end: ClassVar[int] = _END_OF_TIME  # the position of the mark that ends a drained stream
    order: ClassVar[str] = "newer"  # what ranks first of equal scores, in words

    def position_sql(self) -> Column:
        """The position of a row."""
        raise NotImplementedError

    def ahead_sql(self, position: Column) -> Column:
        """Whether a position is too far ahead to be believed."""
        raise NotImplementedError

    def moment_sql(self, label: Column) -> Column:
        """A label as a timestamp, which carries Spark's watermark."""
        return F.timestamp_micros(label)

    def label_sql(self, moment: Column) -> Column:
        """A label from its timestamp."""
        return F.unix_micros(moment)

    def bounds_sql(self, start: Column, end: Column) -> Column:
        """A window's bounds as people read them; row numbers begin at 0."""
        first = F.greatest(start, F.lit(0).cast("bigint"))
        return F.struct(first.alias("start"), end.alias("end"))

    def watermark_delay(self, step: int) -> int:
        """Milliseconds by which the watermark follows labels that are ``step`` ahead, at most."""
        return -(-(step + self.delay) // self.per_ms)

    def position_at(self, watermark: int) -> int:
        """The position that a watermark has reached."""
        return watermark * self.per_ms

    def ended(self, watermark: int) -> bool:
        """Whether a watermark says that the stream was drained."""
        return self.position_at(watermark) > self.end // 2

    def progress(self, watermark: int, grid: PaneGrid) -> WatermarkProgress:
        """How many of a grid's windows a watermark has passed."""
        return WatermarkProgress(grid.window_at(self.position_at(watermark)), self.ended(watermark))

    def alarm(self, position: int) -> int:
        """The first watermark that has reached a position."""
        return -(-position // self.per_ms)

    def length(self, amount: int) -> str:
        """An amount of the axis in words."""
        return spoken(amount)


@dataclass(frozen=True)
class TimeAxis(Axis):
    """Rows are placed by a timestamp; ``local`` ones have no time zone, ``dates`` mean midnight.

    Rows more than ``skew`` ahead of the clock are set aside.
    """

    local: bool = False
    skew: int | None = None
    dates: bool = False

    kind: ClassVar[str] = "time"

    def position_sql(self) -> Column:
        """Microseconds since 1970; a date that is too far for them has none."""
        at = F.col(quoted(self.column))
        if self.dates:
            return F.try_multiply(F.unix_date(at).cast("bigint"), F.lit(_DAY))
        return F.unix_micros(at.cast("timestamp") if self.local else at)

    def ahead_sql(self, position: Column) -> Column:
        """Whether a row is further ahead of the clock than the skew."""
        if self.skew is None:
            return F.lit(False)
        return position > F.unix_micros(F.current_timestamp()) + F.lit(self.skew)

    def bounds_sql(self, start: Column, end: Column) -> Column:
        """Moments."""
        moments = [F.timestamp_micros(start), F.timestamp_micros(end)]
        if self.local:
            moments = [moment.cast("timestamp_ntz") for moment in moments]
        return F.struct(moments[0].alias("start"), moments[1].alias("end"))


@dataclass(frozen=True)
class ArrivalAxis(TimeAxis):
    """Rows come one by one, in the order of time, once the watermark has passed them.

    Windows count the rows of a key, so a position places no row in a window.
    """

    kind: ClassVar[str] = "arrival"
    order: ClassVar[str] = "higher"

    bounds_sql = Axis.bounds_sql

    def watermark_delay(self, step: int) -> int:
        """Milliseconds by which the watermark follows the rows.

        A row at the watermark itself is late to Spark, but within the delay: hence one more.
        """
        return -(-self.delay // self.per_ms) + 1

    def length(self, amount: int) -> str:
        """A number of rows in words."""
        return _rows(amount)


@dataclass(frozen=True)
class TickAxis(Axis):
    """Rows are placed by a whole number, the time of a clock of its own.

    Spark sees a tick as a millisecond.
    """

    kind: ClassVar[str] = "tick"
    per_ms: ClassVar[int] = 1
    end: ClassVar[int] = _END_OF_ROWS
    order: ClassVar[str] = "higher"

    def position_sql(self) -> Column:
        """The number."""
        return F.col(quoted(self.column))

    def ahead_sql(self, position: Column) -> Column:
        """Whether a number is one that only a drained stream reaches."""
        return position >= F.lit(self.end // 2)

    def bounds_sql(self, start: Column, end: Column) -> Column:
        """Numbers."""
        return F.struct(start.alias("start"), end.alias("end"))

    def moment_sql(self, label: Column) -> Column:
        """A label as a timestamp: a tick is a millisecond."""
        return F.timestamp_millis(label)

    def label_sql(self, moment: Column) -> Column:
        """A label from its timestamp."""
        return F.unix_millis(moment)

    def length(self, amount: int) -> str:
        """A number of ticks in words."""
        return f"{amount:,} tick{'' if amount == 1 else 's'}"


@dataclass(frozen=True)
class SequenceAxis(TickAxis):
    """Rows are placed by a dense number 0, 1, 2, ...: their own."""

    kind: ClassVar[str] = "sequence"
    counts_rows: ClassVar[bool] = True

    bounds_sql = Axis.bounds_sql

    def length(self, amount: int) -> str:
        """A number of rows in words."""
        return _rows(amount)


def _rows(amount: int) -> str:
    return f"{amount:,} row{'' if amount == 1 else 's'}"
