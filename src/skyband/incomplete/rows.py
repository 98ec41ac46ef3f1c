"""How rows of incomplete streams wait in one matrix for the watermark."""

from __future__ import annotations

import numpy as np

from skyband.order import Floats, Ints


def beside(stream: Ints, id: Ints) -> Floats:
    """Stream numbers and ids as the columns of one matrix; ids travel as their bits."""
    return np.stack([stream.astype(np.float64), id.view(np.float64)], axis=1)


def rows_of(matrix: Floats) -> tuple[Ints, Ints]:
    """The stream numbers and ids of a matrix that :func:`beside` made."""
    stream = matrix[:, 0].astype(np.int64)
    return stream, np.ascontiguousarray(matrix[:, 1]).view(np.int64)
