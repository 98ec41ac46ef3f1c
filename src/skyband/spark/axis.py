"""Between Spark's watermark and window numbers.

Spark's watermark counts milliseconds. Windows end at ``offset + number * slide`` of their own
unit: microseconds for time windows, rows for count windows over a sequence column, whose rows are
a millisecond apart for Spark.
"""

from __future__ import annotations

from dataclasses import dataclass

END_OF_TIME = 221_845_392_000_000_000
"""The year 9000, in microseconds: the watermark of a stream that was drained."""
END_OF_ROWS = 200_000_000_000_000
"""The same for a sequence of rows."""


@dataclass(frozen=True)
class Clock:
    """When windows end; ``per_ms`` is how many units of the window one millisecond holds."""

    slide: int
    offset: int
    per_ms: int

    def closed(self, watermark: int) -> int:
        """The last window that ends at or before this watermark."""
        return (watermark * self.per_ms - self.offset) // self.slide

    def ended(self, watermark: int) -> bool:
        """Whether a watermark says that the stream was drained."""
        return watermark * self.per_ms > (END_OF_TIME if self.per_ms > 1 else END_OF_ROWS) // 2

    def alarm(self, window: int) -> int:
        """The first watermark at which a window has ended."""
        return -(-(self.offset + window * self.slide) // self.per_ms)
