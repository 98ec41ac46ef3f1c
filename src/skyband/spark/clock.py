"""Between Spark's watermark and window numbers.

Spark's watermark counts milliseconds. Windows end at ``offset + number * slide`` of their own
unit: microseconds for time windows, rows for count windows over a sequence column, whose rows are
a millisecond apart for Spark.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """When windows end; ``per_ms`` is how many units of the window one millisecond holds."""

    slide: int
    offset: int
    per_ms: int

    def closed(self, watermark: int) -> int:
        """The last window that ends at or before this watermark."""
        return (watermark * self.per_ms - self.offset) // self.slide

    def alarm(self, window: int) -> int:
        """The first watermark at which a window has ended."""
        return -(-(self.offset + window * self.slide) // self.per_ms)
