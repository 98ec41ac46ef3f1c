"""Response time per window when arrivals come in bursts and lulls."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from benchmarks import report
from benchmarks.measure import Floats, Record
from benchmarks.papers.mintopk.claims import claims, spoken
from benchmarks.papers.mintopk.curves import ALGORITHMS
from skyband import Monitor, TopK, last

_SECOND = 1_000_000  # microseconds

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Response:
    """Figure 13: each slide's rows are pushed together when its end has come, and timed."""

    rows: int = 4_400_000
    slides: tuple[int, ...] = (1, 10, 100)
    size: int = 1_000
    k: int = 1_000
    algorithms: tuple[str, ...] = ALGORITHMS
    figure: str = "13"

    @property
    def name(self) -> str:
        """The name of its figure."""
        return f"mintopk_figure{self.figure}"

    def sized(self, quick: bool) -> Response:
        """About 11,000 seconds of trades, or 2,000."""
        return Response(rows=800_000) if quick else self

    def collect(self) -> list[Record]:
        """One record per slide, algorithm and statistic, then one per claim of the text."""
        scores, times = trades(self.rows)
        records: list[Record] = []
        with report.progress(
            f"figure {self.figure}", len(self.slides) * len(self.algorithms)
        ) as step:
            for slide in self.slides:
                for algorithm in self.algorithms:
                    step(f"slide={slide}s {algorithm}")
                    took = self._run(algorithm, slide, scores, times)
                    records += self._records(algorithm, slide, took)
        return [*records, *self._claimed(times)]

    def _run(self, algorithm: str, slide: int, scores: Floats, times: Ints) -> Floats:
        """Milliseconds per window, once the first window is full."""
        for part in (2_000, len(scores)):  # a short run first, to have the kernels compiled
            monitor = Monitor(
                TopK(
                    k=self.k,
                    window=last(time=f"{self.size} seconds", slide=f"{slide} seconds"),
                ),
                algorithm,
            )
            took = []
            for low, high, end in _cuts(times[:part], slide * _SECOND):
                began = time.process_time()
                monitor.push(scores[low:high], times=times[low:high], watermark=end)
                took.append(1e3 * (time.process_time() - began))
        full = self.size // slide
        return np.array(took[full:] if len(took) > full else took)

    def _records(self, algorithm: str, slide: int, took: Floats) -> Iterator[Record]:
        for metric, value in (
            ("min_ms", took.min()),
            ("mean_ms", took.mean()),
            ("max_ms", took.max()),
            ("std_ms", took.std()),
        ):
            yield {
                "paper": "mintopk",
                "figure": self.figure,
                "dataset": "stock",
                "parameter": "s",
                "value": f"{slide}s",
                "algorithm": algorithm,
                "metric": metric,
                "measured": float(value),
                "published": None,
                "bound": "",
                "note": "",
                "k": self.k,
                "windows": len(took),
            }

    def _claimed(self, times: Ints) -> Iterator[Record]:
        """What the text states about the arrivals."""
        arrived = np.array([high - low for low, high, _ in _cuts(times, _SECOND)])
        ours = {
            "arrivals_per_s": float(arrived.mean()),
            "least_arrivals_per_slide": float(arrived.min()),
        }
        for claim in claims():
            if claim.figure == self.figure:
                yield {
                    "paper": "mintopk",
                    "figure": self.figure,
                    "dataset": claim.dataset,
                    "parameter": claim.parameter,
                    "value": claim.value,
                    "algorithm": claim.algorithm,
                    "metric": claim.metric,
                    "measured": ours[claim.metric],
                    "published": claim.number,
                    "bound": claim.bound,
                    "note": claim.note,
                }

    def show(self, records: list[Record], console: Console) -> None:
        """Minimum, mean, maximum and deviation per slide and algorithm."""
        cells = {(r["value"], r["algorithm"], r["metric"]): r for r in records}
        rows = []
        for slide in self.slides:
            for algorithm in self.algorithms:
                value = [
                    cells[f"{slide}s", algorithm, metric]["measured"]
                    for metric in ("min_ms", "mean_ms", "max_ms", "std_ms")
                ]
                windows = cells[f"{slide}s", algorithm, "mean_ms"]["windows"]
                rows.append((f"{slide} s", algorithm, windows, *value))
        console.print(
            report.table(
                f"Figure {self.figure}: response time per window under bursty arrivals",
                ("slide", "algorithm", "windows", "min, ms", "mean, ms", "max, ms", "deviation"),
                rows,
                f"stock look-alike, {self.rows:,} trades; window {self.size:,} s, k = {self.k:,}. "
                "The paper gives the figure alone, over 10,000 windows.",
            )
        )
        stated = [
            (r["metric"].replace("_", " "), spoken(r), r["measured"])
            for r in records
            if r["published"] is not None
        ]
        console.print(
            report.table(
                f"Figure {self.figure}: what the text states",
                ("claim", "paper", "ours"),
                stated,
                "",
            )
        )

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """A panel per slide: from minimum to maximum, the mean with its deviation."""
        figure, axes = report.panels(
            1,
            len(self.slides),
            f"MinTopk, Figure {self.figure}: response time per window, bursty arrivals",
            panel=(3.2, 3.2),
            sharey=True,
        )
        measured = {(r["value"], r["algorithm"], r["metric"]): r["measured"] for r in records}
        for panel, slide in zip(axes[0], self.slides, strict=True):
            for place, algorithm in enumerate(self.algorithms):
                colour, marker = report.STYLES[algorithm]
                least, mean, most, deviation = (
                    max(measured[f"{slide}s", algorithm, metric], 1e-3)
                    for metric in ("min_ms", "mean_ms", "max_ms", "std_ms")
                )
                panel.plot([place, place], [least, most], color=colour, linewidth=1.2)
                panel.plot([place] * 2, [least, most], "_", color=colour, markersize=12)
                low = max(mean - deviation, least)
                panel.plot(
                    [place] * 2,
                    [low, mean + deviation],
                    color=colour,
                    linewidth=6,
                    alpha=0.35,
                    solid_capstyle="butt",
                )
                panel.plot([place], [mean], marker, color=colour, markersize=7)
            panel.set_xticks(range(len(self.algorithms)), self.algorithms)
            panel.set_xlim(-0.6, len(self.algorithms) - 0.4)
            panel.set_yscale("log")
            panel.set_title(f"slide {slide} s", loc="left")
            panel.grid(axis="x", visible=False)
        axes[0][0].set_ylabel("ms: min to max, mean, deviation")
        report.plain_ticks(axes[0][0])
        return report.save(figure, folder, self.name)


@lru_cache(maxsize=1)
def trades(rows: int) -> tuple[Floats, Ints]:
    """Scores and times (microseconds) of trades that arrive in bursts."""
    from skyband.datasets import dataset

    scores, times = [], []
    for batch in dataset("stock").chunks(rows, seed=0, chunk=1_000_000, rate="bursty"):
        price, volume, moment = (
            batch.column(name).to_numpy(zero_copy_only=False) for name in ("price", "volume", "ts")
        )
        scores.append(price * volume)
        times.append(moment.astype("datetime64[us]").astype(np.int64))
    return np.concatenate(scores), np.concatenate(times)


def _cuts(times: Ints, slide: int) -> Iterator[tuple[int, int, int]]:
    """For each slide that is over: its rows ``low .. high``, and its end."""
    first, final = int(times[0]) // slide + 1, int(times[-1]) // slide
    ends = np.arange(first, final + 1, dtype=np.int64) * slide
    cuts = np.searchsorted(times, ends, side="left")
    low = 0
    for end, high in zip(ends.tolist(), cuts.tolist(), strict=True):
        yield low, high, end
        low = high
