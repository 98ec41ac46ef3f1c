"""Single numbers of a kernel's state, by name: arrays of one record.

A kernel takes the record out once, ``now = state.now[0]``, and then reads and writes its fields,
``now.first += 1``: compiled that costs what an array slot costs, interpreted NumPy's record arrays
give the same attributes.
"""

from __future__ import annotations

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
    hidden = [name for name in (*whole, *real) if hasattr(np.record, name)]
    assert not hidden, f"NumPy's records have an attribute {hidden[0]!r} of their own"
    columns = [(name, np.int64) for name in whole] + [(name, np.float64) for name in real]
    return np.dtype((np.record, np.dtype(columns, align=True)))


def record(kind: np.dtype[Any], **values: float) -> Record:
    """One record: the fields that are named here, and zero in all others.

    From Python, ``made["first"][0]`` is read ten times as fast as ``made[0].first``.
    """
    made = np.zeros(1, kind)
    for name, value in values.items():
        made[name] = value
    return made
