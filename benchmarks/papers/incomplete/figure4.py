"""Incomplete streams, Figure 4: how many objects are not dominated, if scores are intervals.

Scores are uniform, best scores higher by ``interval`` (at most 1), times are those of arrival. An
object is dominated by a newer one whose score is higher than its best. The paper does not say how
large the other parameter is in each half; we take an interval of 0.1, and 1,000 objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record
from benchmarks.study import main

SIZES = (100, 500, 1_000, 2_000, 5_000, 10_000)
INTERVALS = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
_INTERVAL, _SIZE = 0.1, 1_000


def undominated(scores: np.ndarray, interval: float) -> int:
    """How many objects, oldest first, no newer one dominates."""
    newer = np.maximum.accumulate(scores[::-1])[:-1][::-1]  # the best of those after each
    return 1 + int((np.minimum(scores[:-1] + interval, 1.0) >= newer).sum())


@dataclass(frozen=True)
class Skylines:
    """Both halves; 100 runs each, as in the paper."""

    runs: int = 100
    name: str = "incomplete_figure4"

    def sized(self, quick: bool) -> Skylines:
        """Fewer runs."""
        return Skylines(20) if quick else self

    def collect(self) -> list[Record]:
        """One record per size and interval."""
        points = [("a", size, interval) for size in SIZES for interval in (0.0, _INTERVAL)]
        points += [("b", _SIZE, interval) for interval in INTERVALS]
        return [self._record(*point) for point in points]

    def _record(self, half: str, size: int, interval: float) -> Record:
        rng = np.random.default_rng(size)
        counts = [undominated(rng.random(size), interval) for _ in range(self.runs)]
        return {
            "paper": "incomplete",
            "table": "figure4",
            "half": half,
            "streams": None,
            "window": size,
            "k": 1,
            "xi": None,
            "algorithm": "interval" if interval else "exact scores",
            "interval": interval,
            "items": float(np.mean(counts)),
            "expected": float(np.sum(1 / np.arange(1, size + 1))) if not interval else None,
            "at_least": size * interval if interval else None,
            "precision": None,
            "relative_error": None,
            "tuples_per_s": None,
        }

    def show(self, records: list[Record], console: Console) -> None:
        """Sizes, and what theory says of them."""
        for half, what in (("a", "number of objects"), ("b", "length of the interval")):
            rows = [
                (r["window"], r["interval"], r["items"], r["expected"], r["at_least"])
                for r in records
                if r["half"] == half
            ]
            columns = ("objects", "interval", "undominated", "expected: ln n", "Lemma 1: at least")
            caption = f"Averages of {self.runs} runs. The paper shows a picture without numbers."
            console.print(report.table(f"Figure 4 ({half}): {what}", columns, rows, caption))

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """Both halves."""
        figure, axes = report.panels(
            1, 2, "Figure 4: objects that nobody dominates", panel=(4.2, 3.0)
        )
        first, second = axes[0]
        for label, style in (("exact scores", "s"), ("interval", "o")):
            half = [r for r in records if r["half"] == "a" and r["algorithm"] == label]
            first.plot(
                [r["window"] for r in half],
                [r["items"] for r in half],
                marker=style,
                label=label if label != "interval" else f"interval of {_INTERVAL:g}",
            )
        half = [r for r in records if r["half"] == "b"]
        second.plot([r["interval"] for r in half], [r["items"] for r in half], marker="o")
        first.set_xlabel("objects")
        first.set_ylabel("undominated")
        first.legend(frameon=False)
        second.set_xlabel(f"interval, {_SIZE:,} objects")
        return report.save(figure, folder, self.name)


STUDY = Skylines()

if __name__ == "__main__":
    raise SystemExit(main(STUDY.sized))
