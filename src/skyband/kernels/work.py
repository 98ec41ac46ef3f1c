"""Work counters: what the algorithms do, counted, as the papers' tables report it."""

from __future__ import annotations

import numpy as np

from skyband.order import Ints

SLIDES = 0  # windows completed
CANDIDATES = 1  # candidates kept, summed over the slides
INSERTIONS = 2  # objects that became candidates
DELETIONS = 3  # candidates dropped because others dominate them
RESCANS = 4  # times the window, or a part of it, was read again
RESCANNED = 5  # objects read again
EVENTS = 6  # by algorithm: pointer moves, partitions, cells visited
MEANINGFUL = 7  # SAP: objects in the meaningful set, summed over the slides
REFERENCES = 8  # PreTopk: objects predicted for open windows now, counted once per window
UNRANKED = 9  # NaN scores met, by algorithms that count them in passing
EXACT = 10  # top-k dominating: scores computed exactly
COMPARISONS = 11  # top-k dominating: comparisons of two numbers
NAMES = (
    "slides",
    "candidates",
    "insertions",
    "deletions",
    "rescans",
    "rescanned",
    "events",
    "meaningful",
    "references",
    "unranked",
    "exact_computations",
    "comparisons",
)


def counters() -> Ints:
    """Counters at zero."""
    return np.zeros(len(NAMES), np.int64)
