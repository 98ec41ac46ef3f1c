"""AHBA, the approximate algorithm with a guarantee by the Hoeffding bound."""

from __future__ import annotations

import math
from numbers import Real

from typing_extensions import override

from skyband.dominating.events.algorithm import EventAlgorithm
from skyband.errors import QueryError

_LEAST = 0.001  # of epsilon and delta, and what is left of them


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
    options = ("obsolete", "partial", "epsilon", "delta")
    advanced = True

    @override
    def sample_size(self) -> int:
        delta = _share(self.setting.options.get("delta", 0.9), "delta", 0.9)
        return math.ceil(math.log(1 / (1 - delta)) / (2 * self.sample_error() ** 2))

    @override
    def sample_error(self) -> float:
        return _share(self.setting.options.get("epsilon", 0.1), "epsilon", 0.1)


def _share(given: object, name: str, usual: float) -> float:
    known = isinstance(given, Real) and not isinstance(given, bool)
    if not known or not _LEAST <= float(given) <= 1 - _LEAST:  # type: ignore[arg-type]
        raise QueryError(
            f"{name} is {given!r}",
            f"a number from {_LEAST} to {1 - _LEAST}",
            f"write {name}={usual}",
        )
    return float(given)  # type: ignore[arg-type]
