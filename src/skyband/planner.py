"""``algorithm="auto"``: which algorithm, and why."""

from __future__ import annotations

from dataclasses import dataclass

from skyband.query import CountWindow, TopK


@dataclass(frozen=True)
class Plan:
    """A chosen algorithm and the reasons, in words."""

    algorithm: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.algorithm}: " + "; ".join(self.reasons)


def plan(query: TopK) -> Plan:
    """Choose an algorithm for a query."""
    window = query.window
    kind = "count" if isinstance(window, CountWindow) else "time"
    return Plan("mintopk", (f"{kind} window",))
