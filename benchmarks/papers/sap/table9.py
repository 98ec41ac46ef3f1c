"""SAP, Table 9: how much memory the candidates of SAP and MinTopk take on high-speed streams."""

from __future__ import annotations

from benchmarks.papers.sap.sweep import HIGH_SPEED, Sweep
from benchmarks.study import main

TABLE = Sweep(
    table="9",
    title="memory on high-speed streams",
    metric="memory",
    algorithms=("sap", "mintopk"),
    base="mintopk",
    regime=HIGH_SPEED,
    remark=(
        "Ours: every array of the state with its spare room and scratch space, less the raw scores "
        "of the window (8 bytes an object, SAP); the paper counts about 34 bytes per candidate."
    ),
)

if __name__ == "__main__":
    raise SystemExit(main(TABLE.sized))
