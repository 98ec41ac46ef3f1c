"""How many candidates a query keeps, for scores in random order: what every ``explain`` tells.

Of the j-th newest of m equal parts of a window k/j rows are among the k best since then, so about
k(1/1 + 1/2 + ... + 1/m) rows may still win.
"""

from __future__ import annotations

import math


def candidates_of_panes(k: int, panes: int) -> float:
    """Rows that may still win in a window of so many panes: k(1 + ln m).

    >>> candidates_of_panes(10, 1)
    10.0
    """
    return k * (1 + math.log(panes))


def candidates_of_rows(k: int, rows: float) -> float:
    """Rows of a window of so many that are in its k-skyband: k(1 + ln(n/k)).

    >>> candidates_of_rows(10, 7)
    7
    """
    return k * (1 + math.log(rows / k)) if rows > k else rows
