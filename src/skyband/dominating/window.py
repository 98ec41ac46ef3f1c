"""What the algorithms that keep the points of the window in a field have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import numpy as np
from typing_extensions import override

from skyband.dominating.point_window import (
    ARRIVED,
    NEXT,
    OLDEST,
    POINTS,
    SLOTS,
    Field,
    choose_bounds,
    resized_field,
)
from skyband.engine.algorithm import Algorithm, Setting
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.kernels.jit import entry
from skyband.order import Floats, Ints

CODED = -1
"""Where ``state.numbers`` holds the arrivals when codes were chosen."""


_WASTED = 8  # slots per point held beyond which they are too many
_LEAST = 1024  # slots that are never too many


@entry
def stale(held: Field, numbers: Ints) -> bool:
    """Whether so many points came since codes were chosen that they may not suit any more."""
    since = held.numbers[ARRIVED] - numbers[CODED]
    return since >= 64 and 2 * since >= held.numbers[POINTS]


class WindowAlgorithm(Algorithm):
    """Maintains a field of the window's points, codes of which are chosen anew as it turns over.

    The state has fields ``held`` (the field), ``work`` and ``numbers``.
    """

    attributes = True

    def accuracies(self, steps: Steps) -> Floats:
        """Per step of the last push, the share of the answer that is expected to be right."""
        return np.ones(len(steps.stop))

    def __init__(self, setting: Setting, width: int) -> None:
        self.width = width
        super().__init__(setting)

    def least_room(self) -> int:
        """Slots that there are at least."""
        return 64

    @abstractmethod
    def resized(self, held: Field) -> None:
        """The field has been given more slots."""

    @abstractmethod
    def recoded(self) -> None:
        """Codes have been chosen anew."""

    def reserve(self, rows: Rows, steps: Steps) -> None:
        """Make room for as many points as are held at a time, and give up much that is not used."""
        del rows
        held: Field = self.state.held
        before = np.concatenate([steps.base, steps.base + steps.stop[:-1]])[: len(steps.stop)]
        most = (steps.base + steps.stop - np.minimum(steps.first, before)).max(initial=0)
        room = max(int(most), int(held.numbers[NEXT] - held.numbers[OLDEST]), self.least_room())
        slots = int(held.numbers[SLOTS])
        if room > slots or (slots > _WASTED * room and slots > _LEAST):
            self.resized(resized_field(held, room))
            self._coded()

    def take_over(self, other: WindowAlgorithm) -> None:
        """Go on with the window of another algorithm."""
        self.state.work[:] = other.work
        self.resized(other.state.held)
        self._coded()

    def recode(self) -> None:
        """Choose codes that suit the points of the window as they are now."""
        choose_bounds(self.state.held)
        self._coded()

    def _coded(self) -> None:
        self.state.numbers[CODED] = self.state.held.numbers[ARRIVED]
        self.recoded()

    def kept(self) -> Ints:
        """Every point counts for the scores of others."""
        held: Field = self.state.held
        seqs = np.arange(int(held.numbers[OLDEST]), int(held.numbers[NEXT]), dtype=np.int64)
        return seqs[~np.isnan(held.points[(seqs & (int(held.numbers[SLOTS]) - 1)) * self.width])]

    @property
    @override
    def work(self) -> Ints:
        return self.state.work

    def true_scores(self, alive: Mapping[int, float]) -> tuple[list[int], list[int]]:
        """The points of the window, which must be those ``alive``, and their scores, counted."""
        held: Field = self.state.held
        seqs = self.kept()
        assert seqs.tolist() == sorted(alive), "1: not the window's points"
        assert int(held.numbers[POINTS]) == len(seqs), "1: points are miscounted"
        slots = int(held.numbers[SLOTS])
        points = held.points.reshape(slots, self.width)[seqs & (slots - 1)]
        scores = [
            int(((point <= points).all(axis=1) & (point < points).any(axis=1)).sum())
            for point in points
        ]
        return seqs.tolist(), scores
