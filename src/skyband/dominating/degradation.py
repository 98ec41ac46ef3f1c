"""Keeping up with a stream: exact answers while there is time, approximate ones under load."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from math import isfinite
from numbers import Real
from typing import Any

from skyband.errors import QueryError

APPROXIMATE = ("ahba", "amsa")
_EXACT = ("contenders", "ada", "eva")  # what can hand its window over
_LONG = 0.25  # seconds of the stream after which the speed is judged
_SPARE = 2.0  # how much faster than the stream it must be before something better is tried
_WAIT = 8  # judgements until then; an attempt that fails doubles it


class Load:
    """Maintains which algorithm keeps up with ``rate`` points per second.

    Three levels: exact, AHBA, AMSA. Too slow, and the next level takes over; with time to spare for
    a while, the level before is tried again. A level that turned out slower than the one before it
    is left at once.

    Complexity: O(1) per push.
    """

    def __init__(
        self, rate: float, exact: str, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.rate = rate
        self.levels = (exact, *APPROXIMATE)
        self.level = 0
        self.clock = clock
        self._rows, self._seconds = 0, 0.0
        self._good, self._wait, self._trying = 0, _WAIT, False
        self._speed: dict[int, float] = {}

    @property
    def algorithm(self) -> str:
        """The algorithm of the level."""
        return self.levels[self.level]

    def took(self, rows: int, seconds: float) -> bool:
        """Note what a push took; whether another algorithm should take over."""
        self._rows += rows
        self._seconds += seconds
        if self._rows < self.rate * _LONG:
            return False
        speed = self._rows / max(self._seconds, 1e-9)
        self._rows, self._seconds = 0, 0.0
        self._speed[self.level] = speed
        before = self.level
        if self._trying:
            self._trying = False
            self._wait = 2 * self._wait if speed < self.rate else _WAIT
        if speed < self.rate:
            self._good = 0
            self._slower()
        elif speed >= _SPARE * self.rate and self.level > 0:
            self._good += 1
            if self._good >= self._wait:
                self._good, self._trying = 0, True
                self.level -= 1
                self._speed.pop(self.level, None)
        return self.level != before

    def _slower(self) -> None:
        """Too slow: take the next level, or the fastest of all if there is none."""
        if self.level + 1 < len(self.levels) and self.level + 1 not in self._speed:
            self.level += 1
        else:
            self.level = max(self._speed, key=lambda level: self._speed[level])


def load_of(options: Mapping[str, Any], algorithm: str | None) -> Load:
    """What ``keep_up`` asks for, beginning with an algorithm (None: the exact one)."""
    rate, exact = options["keep_up"], options.get("exact")
    known = isinstance(rate, Real) and not isinstance(rate, bool)
    if not known or not isfinite(rate) or not rate > 0:
        raise QueryError(
            f"keep_up is {rate!r}", "points per second that it must keep up with", "keep_up=1e4"
        )
    if exact is None:
        exact = "contenders" if algorithm in (None, *APPROXIMATE) else algorithm
    if exact not in _EXACT:
        raise QueryError(f"keep_up with {exact}", "contenders, ada or eva", "leave it out")
    load = Load(float(rate), exact)
    if algorithm is not None:
        if algorithm not in load.levels:
            raise QueryError(
                f"keep_up with {algorithm}, exact={exact!r}", f"one of {', '.join(load.levels)}"
            )
        load.level = load.levels.index(algorithm)
    return load
