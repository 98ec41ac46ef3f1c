"""Arrival times: evenly along the rhythm of a day or week, or in bursts and lulls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from skyband.datasets.blocks import BLOCK, generator
from skyband.order import Floats, Ints

Rate = Literal["even", "bursty"]
RATES = ("even", "bursty")

SECOND = 1_000_000  # in microseconds
HOUR = 3_600  # in seconds, as all lengths of a clock
DAY = 24 * HOUR
WEEK = 7 * DAY

_STREAM = 100
_SPREAD = 1.2  # of the logarithm of a second's rate: 3 % of seconds below a twentieth of the mean
_MEMORY = 0.8 ** np.arange(24)  # how much of a second's burst is left in the seconds after it


@dataclass(frozen=True, eq=False)
class Clock:
    """Computes the arrival time of any row of a stream without counting the rows before it.

    Time is a cycle of sessions, each ``length`` seconds long and beginning at the offsets
    ``sessions`` in the cycle; no rows arrive between sessions. Each session holds exactly ``rows``
    rows, spread over it in proportion to ``rhythm``, the relative rate at a second of the session.
    With ``rate="bursty"`` each second's rate is also multiplied by a log-normal factor that is
    correlated over some seconds.

    Invariants: (1) times never go back; (2) session i holds rows ``i * rows`` to
    ``(i + 1) * rows - 1``, at either rate.

    Complexity: O(1) a row, and O(length) once a session.

    Reference: Yang et al., EDBT 2011, section 6, non-uniform arrival rates.
    """

    start: str
    cycle: int
    sessions: tuple[int, ...]
    length: int
    rows: int
    rhythm: Callable[[Floats], Floats]

    def times(self, seed: int, number: int, rate: Rate) -> tuple[Ints, Floats]:
        """Arrival times of a block in microseconds, and in seconds since their session began."""
        place, end = number * BLOCK, (number + 1) * BLOCK
        times, seconds = [], []
        while place < end:
            session, first = divmod(place, self.rows)
            past = min(self.rows, first + end - place)
            passed = _passed(self, seed if rate == "bursty" else None, session, first, past)
            times.append(self._opening(session) + (passed * SECOND).astype(np.int64))
            seconds.append(passed)
            place += past - first
        return np.concatenate(times), np.concatenate(seconds)

    def _opening(self, session: int) -> int:
        cycle, part = divmod(session, len(self.sessions))
        start = int(np.datetime64(self.start, "us").astype(np.int64))
        return start + (cycle * self.cycle + self.sessions[part]) * SECOND


def _passed(clock: Clock, seed: int | None, session: int, first: int, past: int) -> Floats:
    """Seconds into the session at which its rows ``first`` to ``past`` arrive."""
    arrived = _even(clock) if seed is None else _bursty(clock, seed, session)
    rows = np.arange(first, past, dtype=np.float64)
    return np.interp(rows, arrived, np.arange(clock.length + 1, dtype=np.float64))


@lru_cache(maxsize=8)
def _even(clock: Clock) -> Floats:
    """Rows that have arrived at the end of each second of any session, from 0 on."""
    return _arrived(clock, _rhythm(clock))


@lru_cache(maxsize=4)
def _bursty(clock: Clock, seed: int, session: int) -> Floats:
    """Rows that have arrived at the end of each second of this session, from 0 on."""
    noise = generator(seed, _STREAM, session).standard_normal(clock.length + len(_MEMORY) - 1)
    burst = np.convolve(noise, _MEMORY / np.sqrt(np.sum(_MEMORY**2)), mode="valid")
    return _arrived(clock, _rhythm(clock) * np.exp(_SPREAD * burst))


def _rhythm(clock: Clock) -> Floats:
    return clock.rhythm(np.arange(clock.length, dtype=np.float64) + 0.5)


def _arrived(clock: Clock, weights: Floats) -> Floats:
    total = np.concatenate([[0.0], np.cumsum(weights)])
    scaled: Floats = total * (clock.rows / total[-1])
    return scaled
