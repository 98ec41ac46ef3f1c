"""SAP, Table 5: SAP and MinTopk on high-speed streams."""

from __future__ import annotations

from benchmarks.papers.sap.sweep import HIGH_SPEED, Sweep
from benchmarks.study import main

TABLE = Sweep(
    table="5",
    title="running time on high-speed streams",
    metric="time",
    algorithms=("sap", "mintopk"),
    base="mintopk",
    regime=HIGH_SPEED,
)

if __name__ == "__main__":
    raise SystemExit(main(TABLE.sized))
