"""Zhu et al., *SAP: Improving Continuous Top-K Queries over Streaming Data*, TKDE 29(6), 2017.

``published.csv`` holds Tables 2, 3, 5, 6, 7, 8 and 9 as printed: ``table, dataset, parameter,
value, algorithm, number``. Algorithms have our names: ``sap`` is the paper's EN-DYNA, and SAP
wherever it is compared with others; ``sap-dynamic`` is DYNA, ``sap-equal`` is EQUAL. Times are
seconds, memory is KB, Table 7 is in thousands of candidates.

What we do differently: streams are shorter and STOCK, TRIP and PLANET are look-alikes, so compare
ratios within a row, not seconds; answers of every slide are written out, ours and theirs.
"""

from __future__ import annotations

from importlib import import_module

from benchmarks.study import Sized, Study


def _later(name: str) -> Sized:
    def sized(quick: bool) -> Study:
        return import_module(f"benchmarks.papers.sap.{name}").TABLE.sized(quick)  # type: ignore[no-any-return]

    return sized


STUDIES: dict[str, Sized] = {
    name: _later(name)
    for name in ("table2", "table3", "table5", "table6", "table7", "table8", "table9")
}
"""The tables by name, in the paper's order."""
