"""What the algorithms that maintain a point window have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import numpy as np
from typing_extensions import override

from skyband.dominating.point_window import PointWindow, choose_bounds, resized_window
from skyband.engine.algorithm import Algorithm
from skyband.engine.plan import Setting
from skyband.engine.rows import Rows
from skyband.engine.steps import Steps
from skyband.order import Floats, Ints

_WASTED = 8  # slots per point beyond which they are too many
_LEAST = 1024  # slots that are never too many


class WindowAlgorithm(Algorithm):
    """Maintains the points of the window, codes of which are chosen anew as it turns over.

    The state has fields ``window`` (the points) and ``work``.
    """

    attributes = True
    keeps_window = True

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
    def resized(self, window: PointWindow) -> None:
        """Go on with a window that has other slots."""

    @abstractmethod
    def recoded(self) -> None:
        """Adapt to codes that have been chosen anew."""

    @override
    def reserve(self, rows: Rows, steps: Steps) -> None:
        # room for as many points as are alive at a time; much that is not used is given up
        del rows
        window: PointWindow = self.state.window
        now = window.now[0]
        before = np.concatenate([steps.base, steps.base + steps.stop[:-1]])[: len(steps.stop)]
        most = (steps.base + steps.stop - np.minimum(steps.first, before)).max(initial=0)
        room = max(int(most), int(now.end - now.oldest), self.least_room())
        slots = int(now.slots)
        if room > slots or (slots > _WASTED * room and slots > _LEAST):
            self.resized(resized_window(window, room))
            self._coded()

    def take_over(self, other: WindowAlgorithm) -> None:
        """Go on with the window of another algorithm."""
        self.state.work[:] = other.work
        self.resized(other.state.window)
        self._coded()

    def recode(self) -> None:
        """Choose codes that suit the points of the window as they are now."""
        choose_bounds(self.state.window)
        self._coded()

    def _coded(self) -> None:
        now = self.state.window.now[0]
        now.coded_at = now.arrived
        self.recoded()

    @override
    def kept(self) -> Ints:
        # every point counts for the scores of others
        window: PointWindow = self.state.window
        now = window.now[0]
        seqs = np.arange(now.oldest, now.end, dtype=np.int64)
        return seqs[~np.isnan(window.points[(seqs & (int(now.slots) - 1)) * self.width])]

    @property
    @override
    def work(self) -> Ints:
        return self.state.work

    def true_scores(self, alive: Mapping[int, float]) -> tuple[list[int], list[int]]:
        """The points of the window, which must be those ``alive``, and their scores, counted."""
        window: PointWindow = self.state.window
        seqs = self.kept()
        assert seqs.tolist() == sorted(alive), "1: not the window's points"
        assert int(window.now[0].points) == len(seqs), "1: points are miscounted"
        slots = int(window.now[0].slots)
        points = window.points.reshape(slots, self.width)[seqs & (slots - 1)]
        scores = [
            int(((point <= points).all(axis=1) & (point < points).any(axis=1)).sum())
            for point in points
        ]
        return seqs.tolist(), scores
