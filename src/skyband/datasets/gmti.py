"""GMTI: radar reports of moving vehicles and helicopters."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from typing_extensions import override

from skyband.datasets.arrivals import HOUR, SECOND, Clock, Rate
from skyband.datasets.blocks import BLOCK, generator
from skyband.datasets.source import Dataset, Source
from skyband.order import Floats, Ints

GROUPS = 64
MEMBERS = 16
HELICOPTERS = 16  # groups of helicopters; the others are vehicles
STATION = (35, -117)  # latitude and longitude

_STREAM = 7
_PATHS = 8
_MILES = 69.0  # a degree of latitude
_NARROW = 0.671  # square of the cosine of the station's latitude: degrees of longitude are shorter
_SWERVE = 5.0  # miles an hour of members about their group, at most

CLOCK = Clock(
    start="2011-03-21",
    cycle=6 * HOUR,
    sessions=(0,),
    length=6 * HOUR,
    rows=100_000,
    rhythm=np.ones_like,
)


class Paths(NamedTuple):
    """Sums of circular functions of the hours passed: miles, radians an hour, radians.

    The axes are: east or north; the term (two for the group, one for the member); the group; the
    member (of length one where all members are alike).
    """

    centre: Floats
    reach: Floats
    turn: Floats
    phase: Floats
    member_reach: Floats
    member_turn: Floats
    member_phase: Floats


class Reports(NamedTuple):
    """A block of reports, as numbers."""

    times: Ints
    target: Ints
    lat: Floats
    lon: Floats
    speed: Floats


class Gmti(Source):
    """Reports of 1,024 objects in 64 groups that move smoothly about a ground station.

    100,000 reports in every six hours. The radar dwells on one group after another and reports
    each of its members; so the scores of successive reports are similar, and so are those of one
    object in successive dwells. Speeds are those of the paths, 0 to 200 miles an hour.

    Invariants: (1) the object's position is a smooth function of time; (2) speed is its derivative
    and never above 200.

    Reference: Yang et al., EDBT 2011, section 6 (distance from a stationary ground station).

    Deviations: drawn, not the original recording. Where the paper appends varied copies to get
    longer streams, the objects here simply go on. Distances are on the plane about the station,
    which over some fifty miles is exact to a few parts in a thousand.
    """

    schema = pa.schema(
        [
            ("ts", pa.timestamp("us", tz="UTC")),
            ("object", pa.int64()),
            ("kind", pa.string()),
            ("lat", pa.float64()),
            ("lon", pa.float64()),
            ("speed", pa.float64()),
        ]
    )
    rated = True

    @override
    def block(self, seed: int, number: int, rate: Rate) -> pa.RecordBatch:
        reports = _reports(seed, number, rate)
        flies: NDArray[np.int8] = (reports.target < HELICOPTERS * MEMBERS).view(np.int8)
        columns = [
            pa.array(reports.times, self.schema.field("ts").type),
            pa.array(reports.target + 1),
            pa.array(["vehicle", "helicopter"]).take(pa.array(flies)),
            pa.array(reports.lat),
            pa.array(reports.lon),
            pa.array(reports.speed),
        ]
        return pa.record_batch(columns, schema=self.schema)

    @override
    def scores(self, seed: int, number: int) -> Floats:
        reports = _reports(seed, number, "even")
        north, east = reports.lat - STATION[0], reports.lon - STATION[1]
        miles: Floats = _MILES * np.sqrt(north * north + _NARROW * east * east)
        return miles


@lru_cache(maxsize=2)
def _paths(seed: int) -> Paths:
    rng = generator(seed, _PATHS, 0)
    flies = np.arange(GROUPS) < HELICOPTERS
    top = np.where(flies, rng.uniform(60, 190, GROUPS), rng.uniform(8, 70, GROUPS))
    wide, close = rng.uniform(5, 20, (2, 1, GROUPS, 1)), rng.uniform(1, 5, (2, 1, GROUPS, 1))
    reach = np.concatenate([wide, close], axis=1)
    # Each direction gets 1 / sqrt(2) of the top speed, so that both together cannot exceed it.
    share = np.array([0.6, 0.4])[None, :, None, None]
    shape = (2, 1, GROUPS, MEMBERS)
    member_reach = rng.uniform(0.1, 0.6, shape)
    return Paths(
        centre=rng.uniform(-25, 25, (2, GROUPS, 1)),
        reach=reach,
        turn=share * top[:, None] / np.sqrt(2) / reach,
        phase=rng.uniform(0, 2 * np.pi, reach.shape),
        member_reach=member_reach,
        member_turn=rng.uniform(0.2, 1.0, shape) * _SWERVE / np.sqrt(2) / member_reach,
        member_phase=rng.uniform(0, 2 * np.pi, shape),
    )


def _reports(seed: int, number: int, rate: Rate) -> Reports:
    rng = generator(seed, _STREAM, number)
    times, _ = CLOCK.times(seed, number, rate)
    group = rng.integers(0, GROUPS, BLOCK // MEMBERS)
    target = group[:, None] * MEMBERS + np.arange(MEMBERS)
    start = int(np.datetime64(CLOCK.start, "us").astype(np.int64))
    hours = ((times - start) / (HOUR * SECOND)).reshape(-1, MEMBERS)
    (east, north), speed = _whereabouts(_paths(seed), group, hours)
    lat = STATION[0] + north / _MILES
    lon = STATION[1] + east / (_MILES * np.sqrt(_NARROW))
    return Reports(times, target.ravel(), lat.round(6), lon.round(6), speed.round(3))


def _whereabouts(paths: Paths, group: Ints, hours: Floats) -> tuple[Floats, Floats]:
    """Miles east and north of the station, and miles an hour; ``hours`` has a row a dwell."""
    place = np.repeat(paths.centre[:, group], MEMBERS, axis=2)
    pace = np.zeros_like(place)
    for reach, turn, phase in (
        (paths.reach, paths.turn, paths.phase),
        (paths.member_reach, paths.member_turn, paths.member_phase),
    ):
        for term in range(reach.shape[1]):
            angle = turn[:, term, group] * hours + phase[:, term, group]
            place += reach[:, term, group] * np.cos(angle)
            pace -= (reach * turn)[:, term, group] * np.sin(angle)
    return place.reshape(2, -1), np.hypot(pace[0], pace[1]).ravel()


GMTI = Dataset(
    name="gmti",
    title="GMTI: moving targets",
    description="Radar reports of vehicles and helicopters, by distance from a ground station.",
    score=(
        f"{_MILES} * sqrt((lat - {STATION[0]}) * (lat - {STATION[0]})"
        f" + {_NARROW} * (lon + {-STATION[1]}) * (lon + {-STATION[1]}))"
    ),
    time="ts",
    source=Gmti(),
)
