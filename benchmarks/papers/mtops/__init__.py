"""Shastri et al., *MTopS: Scalable Processing of Continuous Top-K Multi-Query Workloads*, CIKM 11.

The paper shows Figures 8 to 15 as pictures. ``published.csv`` holds the numbers that its text
states about them: ``figure, queries, algorithm, metric, number, bound, where, note``; ``figure``
lists several where a claim is about all of them, ``queries`` is a number or two with ``to`` between
them (growth), ``bound`` is ``least`` or ``most`` where the text gives no more than a bound.

What we do differently: STT (trades) and GMTI (moving targets) are look-alikes, both are shown for
every figure, and so is MTopMerge, which is ours. The paper's MinTopK, one per query, is
``independent``. Slides of Figures 10 and 11 are drawn as all others, from 10,000 to 100,000.
"""

from __future__ import annotations

from importlib import import_module

from benchmarks.study import Sized, Study


def _later(name: str) -> Sized:
    def sized(quick: bool) -> Study:
        return import_module(f"benchmarks.papers.mtops.{name}").FIGURE.sized(quick)  # type: ignore[no-any-return]

    return sized


STUDIES: dict[str, Sized] = {
    name: _later(name) for name in (*(f"figure{number}" for number in range(8, 16)), "goals")
}
"""The figures by name, in the paper's order, and then what they are to show."""
