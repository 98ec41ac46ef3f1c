"""SAP, Table 3: enhanced dynamic, dynamic and equal partitions."""

from __future__ import annotations

from benchmarks.papers.sap.sweep import REGULAR, Sweep
from benchmarks.study import main

TABLE = Sweep(
    table="3",
    title="running time of enhanced dynamic (sap), dynamic and equal partitions",
    metric="time",
    algorithms=("sap", "sap-dynamic", "sap-equal"),
    base="sap-equal",
    regime=REGULAR,
    remark="The paper's rows of enhanced dynamic on TRIP and on TIME_U are the same numbers.",
)

if __name__ == "__main__":
    raise SystemExit(main(TABLE.sized))
