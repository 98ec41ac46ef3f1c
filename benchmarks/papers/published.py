"""What the papers print, from ``published.csv``, and how well two columns of numbers agree."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def rows(folder: Path) -> list[dict[str, str]]:
    """The rows of a paper's ``published.csv``."""
    with (folder / "published.csv").open(newline="", encoding="utf-8") as text:
        return list(csv.DictReader(text))


def amount(value: str) -> float:
    """A parameter as printed: ``0.1%`` is 0.001, ``100`` is 100."""
    return float(value[:-1]) / 100 if value.endswith("%") else float(value)


def agreement(ours: Sequence[float | None], published: Sequence[float | None]) -> float | None:
    """Spearman's rank correlation of the pairs that are complete: 1 if both order them alike.

    None where there are fewer than three pairs, or a side does not vary.
    """
    pairs = [
        (a, b) for a, b in zip(ours, published, strict=True) if a is not None and b is not None
    ]
    if len(pairs) < 3:
        return None
    left, right = (_ranks([pair[side] for pair in pairs]) for side in (0, 1))
    if np.ptp(left) == 0 or np.ptp(right) == 0:
        return None
    return float(np.corrcoef(left, right)[0, 1])


def _ranks(values: Sequence[float]) -> NDArray[np.float64]:
    """Ranks from 1, equal values sharing the mean of their ranks."""
    array = np.asarray(values, dtype=np.float64)
    below = (array[:, None] > array[None, :]).sum(axis=1)
    equal = (array[:, None] == array[None, :]).sum(axis=1)
    ranks: NDArray[np.float64] = below + (equal + 1) / 2
    return ranks
