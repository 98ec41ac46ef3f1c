"""The numbers in the paper's text, and the same numbers from our records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import Record
from benchmarks.papers import published

FOLDER = Path(__file__).parent


class Claim(NamedTuple):
    """A row of ``published.csv``; ``bound`` is ``least`` or ``most`` where the text says so."""

    figure: str
    dataset: str
    parameter: str
    value: str
    algorithm: str
    metric: str
    number: float
    bound: str
    note: str


@cache
def claims() -> tuple[Claim, ...]:
    """All that the text states."""
    return tuple(
        Claim(
            row["figure"],
            row["dataset"],
            row["parameter"],
            row["value"],
            row["algorithm"],
            row["metric"],
            float(row["number"]),
            row["bound"],
            row["note"],
        )
        for row in published.rows(FOLDER)
    )


def claimed(figure: str, records: list[Record]) -> list[Record]:
    """A record per claim about a figure: the paper's number, and ours from the figure's records."""
    compared = []
    for claim in claims():
        if claim.figure != figure or claim.metric not in _MEASURES:
            continue
        compared.append(
            {
                "paper": "mintopk",
                "figure": figure,
                "dataset": claim.dataset,
                "parameter": claim.parameter,
                "value": claim.value,
                "algorithm": claim.algorithm,
                "metric": claim.metric,
                "measured": _measured(claim, records),
                "published": claim.number,
                "bound": claim.bound,
                "note": claim.note,
            }
        )
    return compared


def _measured(claim: Claim, records: list[Record]) -> float | None:
    """Our number at the claim's value; over all values the mean, or the extreme of its bound."""
    measure = _MEASURES[claim.metric]
    values = [
        v
        for value in dict.fromkeys(record["value"] for record in records)
        if claim.value in ("all", "mean", value)
        for v in [measure(claim, {r["algorithm"]: r for r in records if r["value"] == value})]
        if v is not None
    ]
    if not values:
        return None
    if claim.bound and claim.value == "all":
        return min(values) if claim.bound == "least" else max(values)
    return sum(values) / len(values)


Row = dict[str, Record]
Measure = Callable[[Claim, Row], float | None]


def _field(field: str, scale: float = 1.0) -> Measure:
    def measure(claim: Claim, row: Row) -> float | None:
        record = row.get(claim.algorithm)
        return None if record is None else record[field] * scale

    return measure


def _over(field: str, other: str, saved: bool = False) -> Measure:
    def measure(claim: Claim, row: Row) -> float | None:
        mine, theirs = row.get(claim.algorithm), row.get(other)
        if mine is None or theirs is None:
            return None
        quotient = mine[field] / theirs[field]
        return float(1 - quotient if saved else quotient)

    return measure


def _per_slide(claim: Claim, row: Row) -> float | None:
    record = row.get(claim.algorithm)
    return None if record is None else record["ns_per_object"] * record["s"] / 1e9


def _over_k(claim: Claim, row: Row) -> float | None:
    record = row.get(claim.algorithm)
    return None if record is None else record["candidates"] / record["k"]


_MEASURES: dict[str, Measure] = {
    "cpu_saved_against_sma": _over("ns_per_object", "sma", saved=True),
    "cpu_saved_against_pretopk": _over("ns_per_object", "pretopk", saved=True),
    "memory_saved_against_pretopk": _over("state_bytes", "pretopk", saved=True),
    "cpu_over_sma": _over("ns_per_object", "sma"),
    "recomputation_rate": _field("recomputation_rate"),
    "candidates_over_k": _over_k,
    "candidates_over_k_theory": _over_k,
    "ms_per_object": _field("ns_per_object", 1e-6),
    "s_per_slide": _per_slide,
}


def spoken(claim: Record) -> str:
    """The paper's number with its bound."""
    prefix = {"least": "at least ", "most": "at most "}.get(claim["bound"], "")
    return f"{prefix}{claim['published']:g}"


def stated(records: Iterable[Record]) -> list[tuple[str, str, str, str, float | None, str]]:
    """Claims as rows of a table."""
    return [
        (
            claim["metric"].replace("_", " "),
            claim["algorithm"],
            f"{claim['parameter']} = {claim['value']}",
            spoken(claim),
            claim["measured"],
            claim["note"],
        )
        for claim in records
    ]
