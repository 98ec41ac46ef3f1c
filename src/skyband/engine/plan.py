"""The algorithm that a monitor runs, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """A chosen algorithm and the reasons, in words."""

    algorithm: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.algorithm}: " + "; ".join(self.reasons)
