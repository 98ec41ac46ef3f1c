"""AHBA, the approximate algorithm with a guarantee by the Hoeffding bound."""

from __future__ import annotations

import math

from skyband.dominating.events.algorithm import EventAlgorithm
from skyband.errors import QueryError


class Ahba(EventAlgorithm):
    """Maintains what ADA does, and samples of cells whose scores stand for those of other points.

    ``epsilon`` is the error of the mean, as part of the range of scores of the cell, that is
    exceeded with a probability of at most ``1 - delta``: a sample has ln(1 / (1 - delta)) / (2
    epsilon^2) points. A point counts as scoring no more than that mean and error, or than the
    largest of the sample; one that scores more may be missed, or found too late.

    Complexity: as ADA's, the points of samples counting as candidates do.

    Reference: Kontaki et al., TKDE 2012, section 7.1.
    """

    name = "ahba"
    options = ("obsolete", "epsilon", "delta")
    advanced = True

    def sample_size(self) -> int:  # noqa: D102
        delta = _share(self.setting.options.get("delta", 0.9), "delta")
        return math.ceil(math.log(1 / (1 - delta)) / (2 * self.sample_error() ** 2))

    def sample_error(self) -> float:  # noqa: D102
        return _share(self.setting.options.get("epsilon", 0.1), "epsilon")


def _share(given: object, name: str) -> float:
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given < 1:
        raise QueryError(f"{name} is {given!r}", "a number between 0 and 1", f"write {name}=0.1")
    return float(given)
