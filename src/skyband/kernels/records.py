"""Single numbers of a kernel's state, by name: arrays of one record.

A kernel takes the record out once, ``now = state.now[0]``, and then reads and writes its fields,
``now.first += 1``: compiled that costs what an array slot costs, interpreted each field is a
property, which is read eight times as fast as that of a NumPy record. To mypy they are such
records (``np.record``), since it lets those have any attribute.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

Record = NDArray[Any]
"""An array of one record."""


def fields(*whole: str, real: tuple[str, ...] = ()) -> np.dtype[Any]:
    """A record type: ``whole`` names are int64 fields, ``real`` ones float64.

    >>> fields("k", "first", real=("threshold",)).names
    ('k', 'first', 'threshold')
    """
    hidden = [name for name in (*whole, *real) if hasattr(np.void, name)]
    assert not hidden, f"NumPy's records have an attribute {hidden[0]!r} of their own"
    columns = [(name, np.int64) for name in whole] + [(name, np.float64) for name in real]
    return np.dtype((_with_properties((*whole, *real)), np.dtype(columns, align=True)))


def _with_properties(names: tuple[str, ...]) -> type[np.void]:
    """A class of records whose fields are properties; it has no other attributes to set."""

    def setter(name: str) -> Callable[[np.void, float], None]:
        return lambda one, value: one.__setitem__(name, value)

    properties = {name: property(itemgetter(name), setter(name)) for name in names}
    return type("Fields", (np.void,), {"__slots__": (), **properties})


def record(kind: np.dtype[Any], **values: float) -> Record:
    """One record: the fields that are named here, and zero in all others.

    From Python, ``made["first"][0]`` is read sooner than ``made[0].first``.
    """
    made = np.zeros(1, kind)
    for name, value in values.items():
        made[name] = value
    return made
