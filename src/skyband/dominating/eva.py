"""EVA, the event-based algorithm."""

from __future__ import annotations

from skyband.dominating.events.algorithm import EventAlgorithm


class Eva(EventAlgorithm):
    """Maintains for every point the tick until which it cannot be an answer (SI_1).

    An incoming point's score is bounded by that of a point that dominates it; an event's by the
    score noted when it was generated and the arrivals since. Only if such a bound reaches the k-th
    score is the exact score computed. Every event is due when the oldest answer expires.

    Complexity: O(k d) per arrival and expiry, O(1) per event, O(n d) per exact score; space O(n d).

    Reference: Kontaki et al., TKDE 2012, section 4.
    """

    name = "eva"
    options = ("obsolete",)
