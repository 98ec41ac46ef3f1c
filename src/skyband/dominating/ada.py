"""ADA, the advanced algorithm."""

from __future__ import annotations

from skyband.dominating.events.algorithm import EventAlgorithm


class Ada(EventAlgorithm):
    """Maintains events as EVA does, later ones (SI_2), and the exact scores of candidates.

    A point that r others outrank for life, none of them an answer, can be an answer only after they
    are: it is examined against better scores and later expiries. Counters per cell and per point
    give a lower bound of r; option ``partial`` counts points also where they dominate a cell in
    part, whenever their scores are computed. Points whose events are near become candidates, whose
    scores are kept up to date as those of the answers are; how near adjusts itself to their number.
    What the points of a cell can score at most spares exact scores that old bounds would ask for.

    Complexity: O((k + c) d + cells) per arrival for c candidates, O(k) per event, O(n d) per exact
    score; space O(n d).

    Reference: Kontaki et al., TKDE 2012, section 5.
    """

    name = "ada"
    options = ("obsolete", "partial")
    advanced = True
