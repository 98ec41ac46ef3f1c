"""SAP, Table 8: how much memory the candidates of SAP, MinTopk and k-skyband take."""

from __future__ import annotations

from benchmarks.papers.sap.sweep import REGULAR, Sweep
from benchmarks.study import main

TABLE = Sweep(
    table="8",
    title="memory",
    metric="memory",
    algorithms=("sap", "mintopk", "kskyband"),
    base="kskyband",
    regime=REGULAR,
    remark=(
        "Ours: every array of the state with its spare room and scratch space, less the raw scores "
        "of the window (8 bytes an object, SAP); the paper counts 25 to 34 bytes per candidate."
    ),
)

if __name__ == "__main__":
    raise SystemExit(main(TABLE.sized))
