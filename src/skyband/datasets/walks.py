"""Random walks with random access: the level at a step does not need the steps before it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from skyband.datasets.blocks import generator
from skyband.order import Floats

_STREAM = 200
_OCTAVES = 14  # the walk is free for 2**13 steps, and wanders around its start after that


@lru_cache(maxsize=4)
def walks(seed: int, count: int, step: int) -> Floats:
    """Levels of ``count`` walks at a step, whose moves from step to step have unit variance.

    A walk is a sum of noises, each twice as slow as the one before and larger by the square root
    of two, which is how a random walk spreads. Each noise is a polyline through independent normal
    points, so a level takes two points of each: O(count) for each of the 14 noises.
    """
    level = np.zeros(count)
    for octave in range(_OCTAVES):
        point, past = divmod(step, 1 << octave)
        along = past / (1 << octave)
        before, after = _points(seed, count, octave, point), _points(seed, count, octave, point + 1)
        # Moves of the octaves add up to a variance of 4, so the unit is a half.
        level += 0.5 * 2 ** (octave / 2) * ((1 - along) * before + along * after)
    return level


@lru_cache(maxsize=4 * _OCTAVES)
def _points(seed: int, count: int, octave: int, point: int) -> Floats:
    return generator(seed, _STREAM + octave, point).standard_normal(count)
