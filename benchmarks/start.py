"""How long until the first answer: in a fresh process, with the kernels already compiled."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record
from skyband.topk import ALGORITHMS

_SCRIPT = """
import json, sys, time
began = time.perf_counter()
import skyband
imported = time.perf_counter() - began
first = None
if len(sys.argv) > 1:
    import numpy
    scores = numpy.random.default_rng(0).random(1_000)
    began = time.perf_counter()
    monitor = skyband.Monitor(
        skyband.TopK(k=10, window=skyband.last(count=100, slide=10)), sys.argv[1]
    )
    assert len(monitor.push(scores)) == 100
    first = time.perf_counter() - began
print(json.dumps({"import_s": imported, "first_answer_s": first}))
"""


@dataclass(frozen=True)
class Start:
    """Import alone, then the first answer of each algorithm: the best of some fresh processes."""

    algorithms: tuple[str, ...] = (*ALGORITHMS, "auto")
    repeats: int = 3
    name: str = "start"

    @classmethod
    def sized(cls, quick: bool) -> Start:
        """Every algorithm three times, or those that matter once."""
        return cls(("mintopk", "sap", "auto"), 1) if quick else cls()

    def collect(self) -> list[Record]:
        """One record per algorithm, and one for the import (algorithm ``import``)."""
        records: list[Record] = []
        with report.progress("start", len(self.algorithms) + 1) as step:
            for algorithm in ("import", *self.algorithms):
                _fresh(algorithm)  # compiles whatever no earlier run has compiled
                runs = [_fresh(algorithm) for _ in range(self.repeats)]
                best = min(runs, key=lambda run: float(run["process_s"]))
                records.append({"workload": "start", "algorithm": algorithm, **best})
                step(algorithm)
        return records

    def show(self, records: list[Record], console: Console) -> None:
        """One table."""
        console.print(
            report.table(
                "A fresh process, kernels compiled before",
                ("algorithm", "import skyband, s", "first answer, s", "whole process, s"),
                [
                    (r["algorithm"], r["import_s"], r["first_answer_s"], r["process_s"])
                    for r in records
                ],
                "Wanted: import below 0.3 s, first answer below 2 s.",
            )
        )

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """Stacked bars: import, then first answer."""
        figure, axes = report.panels(1, 1, "Time to the first answer", panel=(6.5, 3.2))
        panel = axes[0][0]
        labels = [r["algorithm"] for r in records]
        imported = [r["import_s"] for r in records]
        answered = [r["first_answer_s"] or 0.0 for r in records]
        panel.barh(labels, imported, color="#999999", label="import skyband")
        panel.barh(labels, answered, left=imported, color="#0072B2", label="first answer")
        panel.invert_yaxis()
        panel.set_xlabel("seconds in a fresh process, kernels compiled before")
        panel.grid(axis="y", visible=False)
        panel.legend()
        return report.save(figure, folder, self.name)


def _fresh(algorithm: str) -> Record:
    arguments = [] if algorithm == "import" else [algorithm]
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *arguments], check=True, capture_output=True, text=True
    )
    return {**json.loads(done.stdout), "process_s": time.perf_counter() - began}
