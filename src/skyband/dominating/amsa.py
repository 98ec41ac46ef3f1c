"""AMSA, the approximate algorithm that leaves points of low cells alone."""

from __future__ import annotations

from skyband.dominating.events.algorithm import EventAlgorithm


class Amsa(EventAlgorithm):
    """Maintains what ADA does, for points of promising cells only.

    A point is left alone for good if the largest score of its cell does not reach the k-th, and the
    smallest one is further behind it than it is behind the best. There is no guarantee; if the
    distribution of the stream changes, answers may be missed.

    Complexity: as ADA's, with hardly any events.

    Reference: Kontaki et al., TKDE 2012, section 7.2.
    """

    name = "amsa"
    options = ("obsolete", "partial")
    advanced = True
    pruning = True
