"""TRIP: taxi trips, slow by day and fast by night."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from typing_extensions import override

from skyband.datasets.arrivals import HOUR, SECOND, WEEK, Clock, Rate
from skyband.datasets.blocks import BLOCK, generator
from skyband.datasets.source import Dataset, Source
from skyband.order import Floats, Ints

TAXIS = 13_437

_STREAM = 4

# By hour of the day, from midnight: trips (relative) and miles an hour of a two-mile trip.
_WEEKDAY_TRIPS = "4 3 2 1 1 2 5 8 10 9 9 9 9 9 9 9 8 10 12 12 11 11 10 7"
_WEEKEND_TRIPS = "12 11 9 7 4 2 2 3 4 6 8 9 10 10 10 10 9 10 11 11 10 10 10 9"
_WEEKDAY_SPEED = "16 17 18 20 21 20 16 12 10 10 10 10 10 10 10 10 10 10 10 11 12 13 14 15"
_WEEKEND_SPEED = "14 14 15 16 18 20 20 19 17 15 13 12 12 11 11 11 12 12 12 12 13 13 14 14"


def _by_hour(weekday: str, weekend: str) -> Floats:
    return np.array((weekday.split() * 5 + weekend.split() * 2), dtype=np.float64)


_TRIPS = _by_hour(_WEEKDAY_TRIPS, _WEEKEND_TRIPS)
_SPEED = _by_hour(_WEEKDAY_SPEED, _WEEKEND_SPEED)


def _through_the_week(by_hour: Floats, seconds: Floats) -> Floats:
    """Interpolate a curve of values at half past each hour, given seconds after Monday, 00:00."""
    return np.interp(seconds, np.arange(len(by_hour)) * HOUR + HOUR / 2, by_hour, period=WEEK)


def demand(seconds: Floats) -> Floats:
    """Relative number of trips that begin, given seconds after Monday, 00:00."""
    return _through_the_week(_TRIPS, seconds)


def flow(seconds: Floats) -> Floats:
    """Miles an hour of a usual trip, given seconds after Monday, 00:00."""
    return _through_the_week(_SPEED, seconds)


CLOCK = Clock(
    start="2010-01-04",  # a Monday
    cycle=WEEK,
    sessions=(0,),
    length=WEEK,
    rows=3_300_000,
    rhythm=demand,
)


class Trips(NamedTuple):
    """A block of trips, as numbers."""

    taxi: Ints
    pickup: Ints
    distance: Floats
    duration: Ints


class Trip(Source):
    """Trips with a daily and weekly rhythm in their number and in their speed.

    3.3 million trips a week. Distances (miles) are log-normal, longer trips are faster, and the
    duration (whole seconds, never 0) follows from the speed. Times are whole seconds, so some
    trips begin at the same time.

    Reference: Zhu et al., TKDE 29(6), 2017, section 6.1 (distance over time of travel).

    Deviations: drawn, not the city's records; times are the city's clock, written as UTC.
    """

    schema = pa.schema(
        [
            ("taxi", pa.int64()),
            ("pickup", pa.timestamp("us", tz="UTC")),
            ("dropoff", pa.timestamp("us", tz="UTC")),
            ("distance", pa.float64()),
            ("duration", pa.int64()),
        ]
    )
    rated = True

    @override
    def block(self, seed: int, number: int, rate: Rate) -> pa.RecordBatch:
        trips = _trips(seed, number, rate)
        moment = self.schema.field("pickup").type
        columns = [
            pa.array(trips.taxi),
            pa.array(trips.pickup, moment),
            pa.array(trips.pickup + trips.duration * SECOND, moment),
            pa.array(trips.distance),
            pa.array(trips.duration),
        ]
        return pa.record_batch(columns, schema=self.schema)

    @override
    def scores(self, seed: int, number: int) -> Floats:
        trips = _trips(seed, number, "even")
        return trips.distance / trips.duration


def _trips(seed: int, number: int, rate: Rate) -> Trips:
    rng = generator(seed, _STREAM, number)
    times, seconds = CLOCK.times(seed, number, rate)
    taxi = rng.integers(1, TAXIS + 1, BLOCK)
    distance = np.clip(1.8 * np.exp(0.75 * rng.standard_normal(BLOCK)), 0.1, 60.0)
    distance = np.rint(distance * 100) / 100
    speed = flow(seconds) * (distance / 2) ** 0.25 * np.exp(0.25 * rng.standard_normal(BLOCK))
    duration = np.rint(distance / np.clip(speed, 2.0, 70.0) * HOUR)
    pickup = times // SECOND * SECOND
    return Trips(taxi, pickup, distance, np.maximum(duration, 1).astype(np.int64))


TRIP = Dataset(
    name="trip",
    title="TRIP: taxi trips",
    description="Taxi trips of a large city by average speed, slow by day and fast by night.",
    score="distance / duration",
    time="pickup",
    source=Trip(),
)
