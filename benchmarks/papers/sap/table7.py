"""SAP, Table 7: how many candidates SAP and MinTopk keep on high-speed streams."""

from __future__ import annotations

from benchmarks.papers.sap.sweep import HIGH_SPEED, Sweep
from benchmarks.study import main

TABLE = Sweep(
    table="7",
    title="candidates on high-speed streams",
    metric="candidates",
    algorithms=("sap", "mintopk"),
    base="mintopk",
    regime=HIGH_SPEED,
    thousands=True,
    remark="The paper's title says KB; the numbers are thousands of candidates.",
)

if __name__ == "__main__":
    raise SystemExit(main(TABLE.sized))
