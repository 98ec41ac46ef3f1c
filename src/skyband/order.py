"""The one total order: higher score, then newer, then larger id.

Everything that ranks in Skyband ranks by this order. Objects are handed to the kernels sorted by
(ordinate, id) and numbered in that sequence, so inside the kernels the order is simply *(score,
sequence number)*, both descending: of two equal scores the newer wins, because it lives at least
as long, so fewer candidates are kept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def arrival_order(times: Ints, ids: Ints) -> Ints:
    """Positions that put rows in sequence: older first, and of equal times the smaller id first.

    The sort is skipped when the rows already stand in that sequence. O(m log m), O(m) if sorted.
    """
    if len(times) < 2:
        return np.arange(len(times), dtype=np.int64)
    # compared, not subtracted: differences of numbers far apart do not fit
    newer, same = times[1:] > times[:-1], times[1:] == times[:-1]
    if bool(np.all(newer | (same & (ids[1:] >= ids[:-1])))):
        return np.arange(len(times), dtype=np.int64)
    return np.lexsort((ids, times)).astype(np.int64, copy=False)
