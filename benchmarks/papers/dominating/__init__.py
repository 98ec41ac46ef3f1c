"""Kontaki et al., *Continuous Top-k Dominating Queries*, TKDE 2012.

The paper shows Figures 7 to 11 as pictures and prints Tables 2 to 4. ``published.csv`` holds the
tables and what the text says about memory: ``figure, dataset, k, epsilon, delta, algorithm, metric,
number, where``; accuracy in percent, counters per 1,000 updates.

What we do differently: FC and ZIL are look-alikes, ``cover`` and ``homes``, which do not end.
``contenders`` is ours and shown beside the paper's algorithms. ADA is shown without and with its
partial counters (``ada partial``), AMSA by our rule and by that of the paper (``amsa paper``), and
the paper's numbers beside both. Where the paper shows running time, we show updates per second.
"""

from __future__ import annotations

from importlib import import_module

from benchmarks.study import Sized, Study


def _later(name: str) -> Sized:
    def sized(quick: bool) -> Study:
        return import_module(f"benchmarks.papers.dominating.{name}").STUDY.sized(quick)  # type: ignore[no-any-return]

    return sized


STUDIES: dict[str, Sized] = {
    name: _later(name)
    for name in (
        *(f"figure{number}" for number in range(7, 12)),
        *(f"table{number}" for number in range(2, 5)),
        "goals",
    )
}
"""The figures and tables by name, and then what they are to show."""
