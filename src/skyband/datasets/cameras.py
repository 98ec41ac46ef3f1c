"""CAMERAS: cars on the roads of a region, and how fast they pass the cameras on their routes."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from skyband.datasets.arrivals import DAY, HOUR, SECOND, Clock, Rate
from skyband.datasets.blocks import BLOCK, generator
from skyband.datasets.journeys import in_time, running
from skyband.datasets.source import Dataset, Source
from skyband.order import Floats, Ints

CARS = 400_000
FASTEST = 250  # km/h
CAMERAS = {  # where they stand, in km, and the speed limit there
    "airport": (-14.0, 9.0, 100),
    "bridge": (2.0, -1.0, 60),
    "centre": (0.0, 0.0, 50),
    "east": (12.0, 1.0, 100),
    "harbour": (5.0, -6.0, 60),
    "north": (0.0, 13.0, 120),
    "pass": (-20.0, -8.0, 80),
    "ring-1": (-5.0, 4.0, 90),
    "ring-2": (5.0, 5.0, 90),
    "south": (1.0, -15.0, 120),
    "tunnel": (-4.0, -3.0, 70),
    "west": (-12.0, -1.0, 100),
}
ROUTES = {  # the cameras in turn, and how many cars take the route, in both directions
    ("north", "ring-2", "east"): 14,
    ("north", "ring-1", "centre", "bridge"): 12,
    ("west", "ring-1", "ring-2", "east"): 16,
    ("west", "tunnel", "bridge", "harbour", "south"): 12,
    ("airport", "ring-1", "tunnel", "centre"): 10,
    ("pass", "west", "tunnel"): 6,
    ("south", "harbour", "bridge", "centre"): 12,
    ("north", "ring-2", "bridge", "south"): 10,
    ("airport", "ring-1", "ring-2", "harbour"): 8,
}

_STREAM = 15
_SEEN = 0.9  # of the cars that pass a camera; it misses the others
_LETTERS = "ABCDEFGHJKLMNPRSTUVWXYZ"


def traffic(seconds: Floats) -> Floats:
    """Relative number of cars, given seconds after midnight: most in the morning and at five."""
    hour = seconds / HOUR
    day = 0.25 + 0.6 * np.exp(-(((hour - 13) / 5) ** 2))
    rush: Floats = day + np.exp(-(((hour - 8) / 1.2) ** 2)) + np.exp(-(((hour - 17) / 1.6) ** 2))
    return rush


CLOCK = Clock(
    start="2009-11-02",
    cycle=DAY,
    sessions=(0,),
    length=DAY,
    rows=8 * DAY,
    rhythm=traffic,
)


class Cameras(Source):
    """Cars that twelve cameras see on nine routes, 8 a second on average: plate, camera, speed.

    A car takes one route, in either direction, at the pace of its driver: a car that is fast at
    one camera is fast at the next one, some minutes later. Cameras on the same routes see the same
    cars, others have few cars in common. One car in ten passes a camera unseen. Speeds are in km/h,
    at most 250.

    Reference: Haghani et al., CIKM 2009, section 1 (cameras on highways that report plates and
    speeds; not all vehicles are seen by all cameras).

    Deviations: the region is ours. A car on the way when a block ends goes on under another plate.
    """

    schema = pa.schema(
        [
            ("ts", pa.timestamp("us", tz="UTC")),
            ("plate", pa.string()),
            ("camera", pa.string()),
            ("speed", pa.float64()),
        ]
    )
    rated = True

    @override
    def block(self, seed: int, number: int, rate: Rate) -> pa.RecordBatch:
        times, car, camera, speed = _passings(seed, number, rate)
        columns = [
            pa.array(times, self.schema.field("ts").type),
            plates(car),
            pa.array(list(CAMERAS)).take(pa.array(camera)),
            pa.array(speed),
        ]
        return pa.record_batch(columns, schema=self.schema)

    @override
    def scores(self, seed: int, number: int) -> Floats:
        return _passings(seed, number, "even")[3]


class _Roads(NamedTuple):
    """Routes in both directions: cameras by their places, km up to each, stops, and shares."""

    camera: Ints
    km: Floats
    stops: Ints
    share: Floats


@cache
def _roads() -> _Roads:
    names = list(CAMERAS)
    ways = [way for route in ROUTES for way in (route, route[::-1])]
    width = max(map(len, ways))
    camera = np.zeros((len(ways), width), np.int64)
    km = np.zeros((len(ways), width))
    for at, way in enumerate(ways):
        camera[at, : len(way)] = [names.index(name) for name in way]
        spots = np.array([CAMERAS[name][:2] for name in way])
        km[at, 1 : len(way)] = 1.2 * np.hypot(*np.diff(spots, axis=0).T)  # roads bend
    share = np.repeat(np.array(list(ROUTES.values()), np.float64), 2)
    return _Roads(camera, km, np.array([*map(len, ways)]), np.cumsum(share / share.sum()))


def plates(car: Ints) -> pa.Array:
    """The plate of each car: two letters and three digits."""
    letters = [one + other for one in _LETTERS for other in _LETTERS]
    digits = [f"{number:03d}" for number in range(1_000)]
    parts = [pa.array(letters).take(car // 1_000), pa.array(digits).take(car % 1_000)]
    return pc.binary_join_element_wise(*parts, "-")


def _passings(seed: int, number: int, rate: Rate) -> tuple[Ints, Ints, Ints, Floats]:
    """A block of passings, by time: when, which car, which camera, how fast."""
    rng = generator(seed, _STREAM, number)
    roads = _roads()
    times, _ = CLOCK.times(seed, number, rate)
    length = max(1.0, (times[-1] - times[0]) / SECOND)
    cars = BLOCK // 3  # some more than pass cameras often enough
    route = np.searchsorted(roads.share, rng.random(cars))
    pace = np.exp(0.12 * rng.standard_normal(cars))  # of the driver
    journey = np.repeat(np.arange(cars), roads.stops[route])
    first = np.flatnonzero(np.diff(journey, prepend=-1))
    stop = np.arange(len(journey)) - np.repeat(first, roads.stops[route])
    camera = roads.camera[route[journey], stop]
    limit = np.array([limit for *_, limit in CAMERAS.values()], np.float64)[camera]
    speed = limit * pace[journey] * np.exp(0.06 * rng.standard_normal(len(journey)))
    travel = roads.km[route[journey], stop] / (0.85 * speed) * HOUR
    seen = np.flatnonzero(rng.random(len(journey)) < _SEEN)[:BLOCK]
    since = running(journey, travel)
    stops = in_time(journey[seen], rng.uniform(0, length, cars), since[seen], length)
    drawn = seen[stops.drawn]
    plate = rng.integers(0, CARS, cars * (1 + int(stops.journey.max()) // cars))
    rounded = np.rint(speed.clip(5, FASTEST) * 10) / 10
    return times, plate[stops.journey], camera[drawn], rounded[drawn]


CAMERAS_SEEN = Dataset(
    name="cameras",
    title="CAMERAS: cars and their speeds",
    description="Plates and speeds of cars that pass the cameras on their routes.",
    score="speed",
    time="ts",
    source=Cameras(),
    seen=("plate", "camera", "speed"),
)
