"""Streams to try things on: seeded generators named as in the papers, and small real data.

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

A stream of any length is made in flat memory, and is the same however it is cut into chunks.
"""

from __future__ import annotations

from skyband.datasets.flights import FLIGHTS
from skyband.datasets.gmti import GMTI
from skyband.datasets.planet import PLANET
from skyband.datasets.source import Dataset
from skyband.datasets.stock import STOCK
from skyband.datasets.time_r import TIME_R
from skyband.datasets.time_u import TIME_U
from skyband.datasets.trip import TRIP
from skyband.datasets.writing import write
from skyband.errors import QueryError

__all__ = ["NAMES", "Dataset", "dataset", "write"]

_DATASETS = {found.name: found for found in (TIME_U, TIME_R, STOCK, TRIP, PLANET, GMTI, FLIGHTS)}

NAMES: tuple[str, ...] = tuple(_DATASETS)
"""The names by which data sets are asked for."""


def dataset(name: str) -> Dataset:
    """A data set by name. Raises :class:`QueryError` for a name that is not in ``NAMES``.

    >>> dataset("stock").score
    'price * volume'
    """
    if name not in _DATASETS:
        raise QueryError(
            f"data set is {name!r}", f"one of {', '.join(NAMES)}", "choose one of them"
        )
    return _DATASETS[name]
