"""SAP, Table 6: how many candidates SAP, MinTopk and k-skyband keep."""

from __future__ import annotations

from benchmarks.papers.sap.sweep import REGULAR, Sweep
from benchmarks.study import main

TABLE = Sweep(
    table="6",
    title="candidates",
    metric="candidates",
    algorithms=("sap", "mintopk", "kskyband"),
    base="kskyband",
    regime=REGULAR,
    remark=(
        "Averages over the slides after the first full window; of SAP the set C, without the "
        "meaningful objects of the front partition (field 'meaningful'). The paper prints two "
        "values of MinTopk for the default query on TIME_R (5104 under n and k, 3017 under s)."
    ),
)

if __name__ == "__main__":
    raise SystemExit(main(TABLE.sized))
