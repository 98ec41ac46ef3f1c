"""The paper's workloads: windows, slides and k drawn at random, or all alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyband import TopK, Workload, last

Range = tuple[int, int]

_SEED = 2011


@dataclass(frozen=True)
class Parameters:
    """From where to where each parameter is drawn, both ends included; alike if they are equal.

    A workload of fewer queries is the beginning of one of more.
    """

    window: Range = (1_000_000, 1_000_000)
    slide: Range = (100_000, 100_000)
    k: Range = (1_000, 1_000)

    def queries(self, number: int) -> tuple[TopK, ...]:
        """So many queries."""
        rng = np.random.default_rng(_SEED)
        low, high = zip(self.window, self.slide, self.k, strict=True)
        drawn = rng.integers(low, high, size=(number, 3), endpoint=True).tolist()
        return tuple(TopK(k=k, window=last(count=n, slide=s)) for n, s, k in drawn)

    @property
    def spoken(self) -> str:
        """In words."""
        parts = (("win", self.window), ("slide", self.slide), ("k", self.k))
        return ", ".join(
            f"{name} {low:,}" if low == high else f"{name} {low:,} to {high:,}"
            for name, (low, high) in parts
        )


def workload(queries: tuple[TopK, ...]) -> Workload:
    """Queries with names."""
    return Workload({f"q{number}": query for number, query in enumerate(queries)})


ARBITRARY_K = Parameters(k=(10, 1_000))
ARBITRARY_SLIDE = Parameters(slide=(10_000, 100_000))
ARBITRARY_WINDOW_AND_SLIDE = Parameters((100_000, 1_000_000), (10_000, 100_000), (100, 100))
ALL_ARBITRARY = Parameters((100_000, 1_000_000), (10_000, 100_000), (10, 1_000))
