"""Data sets: seeded generators named as in the papers, and one small real data set.

========  ===========================================  ==================================
name      what                                         score
========  ===========================================  ==================================
time_u    uniform scores                               independent of the order
time_r    sin(pi * t / 10^6)                           bound to the order
stock     trades of 2,300 stocks                       price * volume
trip      taxi trips                                   distance / duration
planet    observations of minor planets                distance to a point
gmti      vehicles and helicopters on the move         distance to a ground station
flights   flights that left New York in 2013 (real)    distance / air_time
========  ===========================================  ==================================

Some are streams of points, to study dominance; ``dimensions`` says which direction is better:

========  ===========================================  ==================================
name      what                                         dimensions
========  ===========================================  ==================================
ind       independent attributes                       x1, x2, ... of one to eight
ant       anticorrelated attributes                    x1, x2, ... of one to eight
cor       correlated attributes                        x1, x2, ... of one to eight
cover     plots of forest, area by area                eight of mixed scales
homes     real estate                                  five, correlated
network   computers of a campus, some of which attack  bandwidth, connections, destinations
========  ===========================================  ==================================

Some are incomplete streams: objects arrive in several streams, or their totals are ranked:

=========  ==========================================  ==================================
name       what                                        object, stream and value
=========  ==========================================  ==================================
sightings  objects that come in some of the streams    id, stream, value
cameras    cars that pass cameras on their routes      plate, camera, speed
flows      traffic that passes routers                 flow, router, bytes
worldcup   requests to the servers of a web site       client, server, bytes
=========  ==========================================  ==================================

Memory does not grow with the length of a stream, and the chunk size does not change its rows.
"""

from __future__ import annotations

from typing import Any

from skyband.datasets.cameras import CAMERAS_SEEN
from skyband.datasets.cover import COVER
from skyband.datasets.flights import FLIGHTS
from skyband.datasets.flows import FLOWS
from skyband.datasets.gmti import GMTI
from skyband.datasets.homes import HOMES
from skyband.datasets.incomplete import sighted
from skyband.datasets.network import NETWORK
from skyband.datasets.planet import PLANET
from skyband.datasets.skyline import NAMES as _SKYLINE
from skyband.datasets.skyline import USUAL, skyline
from skyband.datasets.source import Dataset
from skyband.datasets.stock import STOCK
from skyband.datasets.time_r import TIME_R
from skyband.datasets.time_u import TIME_U
from skyband.datasets.trip import TRIP
from skyband.datasets.worldcup import WORLDCUP
from skyband.datasets.writing import write
from skyband.errors import QueryError

__all__ = ["NAMES", "Dataset", "dataset", "write"]

_DATASETS = {
    each.name: each
    for each in (
        *(TIME_U, TIME_R, STOCK, TRIP, PLANET, GMTI, FLIGHTS),
        *(skyline(name) for name in _SKYLINE),
        *(COVER, HOMES, NETWORK),
        *(sighted(), CAMERAS_SEEN, FLOWS, WORLDCUP),
    )
}

NAMES: tuple[str, ...] = tuple(_DATASETS)
"""The names that :func:`dataset` accepts."""


def dataset(name: str, dimensions: int = USUAL, **how: Any) -> Dataset:
    """Return a data set by name; ``ind``, ``ant`` and ``cor`` have ``dimensions`` attributes.

    ``sightings`` takes three options: the number of ``streams`` (3), the probability ``xi`` that
    a row repeats a recent object of another stream (0.5), and ``memory``, how many objects of a
    stream are recent (100).

    Raises :class:`QueryError` for a name that is not in ``NAMES``, and for dimensions or streams
    that the data set does not have.

    >>> dataset("stock").score
    'price * volume'
    >>> dataset("ant", dimensions=2).columns
    ('t', 'x1', 'x2')
    """
    if name not in _DATASETS:
        raise QueryError(
            f"data set is {name!r}", f"one of {', '.join(NAMES)}", "choose one of them"
        )
    if name in _SKYLINE:
        return skyline(name, dimensions)
    if how and name != "sightings":
        raise QueryError(
            f"{next(iter(how))} is {next(iter(how.values()))!r} for {name}",
            "sightings",
            f"leave it out: the streams of {name} are fixed",
        )
    if dimensions != USUAL:
        raise QueryError(
            f"dimensions is {dimensions!r} for {name}",
            f"one of {', '.join(_SKYLINE)}",
            f"leave it out: the columns of {name} are fixed",
        )
    return sighted(**how) if how else _DATASETS[name]
