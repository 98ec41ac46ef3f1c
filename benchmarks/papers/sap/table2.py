"""SAP, Table 2: equal partitions under different m; delay policy and S-AVL on and off."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.papers.sap.sweep import REGULAR, Sweep
from benchmarks.study import main

TABLE = Sweep(
    table="2",
    title="running time of equal partitions under different m",
    metric="time",
    algorithms=("non-delay", "algorithm-1", "algorithm-1+s-avl"),
    base="non-delay",
    regime=replace(REGULAR, settings={"m": tuple(str(m) for m in range(5, 38, 2))}),
    variants={
        "non-delay": ("sap-equal", {"delay": False, "savl": False, "amortise": False}),
        "algorithm-1": ("sap-equal", {"delay": True, "savl": False, "amortise": False}),
        "algorithm-1+s-avl": ("sap-equal", {"delay": True, "savl": True, "amortise": False}),
    },
    remark="The paper prints m* = 33; its formula gives ceil(sqrt(n / max(s, k))) = 32.",
)

if __name__ == "__main__":
    raise SystemExit(main(TABLE.sized))
