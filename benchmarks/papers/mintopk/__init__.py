"""Yang et al., *An Optimal Strategy for Monitoring Top-k Queries in Streaming Windows*, EDBT 2011.

The paper shows Figures 7 to 13 as pictures. ``published.csv`` holds the numbers that its text
states about them: ``figure, dataset, parameter, value, algorithm, metric, number, bound, note``;
``value`` is ``all`` or ``mean`` for a claim over all values of the parameter, ``bound`` is
``least`` or ``most`` where the text gives no more than a bound.

What we do differently: STT (trades) and GMTI (moving targets) are look-alikes, runs are shorter
than 10,000 windows, and SAP is shown as well. Memory is what the state's arrays occupy, raw window
included. MTK is averaged over slides, so its largest size is that of the settings' averages.
"""

from __future__ import annotations

from importlib import import_module

from benchmarks.study import Sized, Study


def _later(name: str) -> Sized:
    def sized(quick: bool) -> Study:
        return import_module(f"benchmarks.papers.mintopk.{name}").FIGURE.sized(quick)  # type: ignore[no-any-return]

    return sized


STUDIES: dict[str, Sized] = {
    f"figure{number}": _later(f"figure{number}") for number in range(7, 14)
}
"""The figures by name, in the paper's order."""
