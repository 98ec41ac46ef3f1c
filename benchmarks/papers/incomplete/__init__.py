"""Haghani, Michel, Aberer, *Evaluating Top-k Queries over Incomplete Data Streams*, CIKM 2009.

The paper prints Tables 1 to 4 and shows Figures 4 and 5 as pictures, of which the text tells some
numbers. ``published.csv`` holds them: ``table, streams, window, k, xi, algorithm, metric, number,
where``.

What the paper leaves open, and what we take: the values are uniform, the streams take turns, and
each remembers the last 240 / n items, so that n streams remember 240 rows together (C is not
given; this one gives EAA the sizes of Tables 1 and 2). An item is an object, of however many
instances; so counted, EAA's sizes are the paper's. The 1998 log is a look-alike, ``worldcup``.
``likely`` is ours, allowed to miss about a tenth of the answers.
"""

from __future__ import annotations

from importlib import import_module

from benchmarks.study import Sized, Study


def _later(name: str) -> Sized:
    def sized(quick: bool) -> Study:
        study: Study = import_module(f"benchmarks.papers.incomplete.{name}").STUDY.sized(quick)
        return study

    return sized


STUDIES: dict[str, Sized] = {
    name: _later(name)
    for name in ("figure4", "figure5", "table1", "table2", "table3", "table4", "goals")
}
"""The figures and tables by name, and then what they are to show."""
