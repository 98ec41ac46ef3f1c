"""The numbers in the paper's text, and the same numbers from our records."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import Record
from benchmarks.papers import published
from benchmarks.report import ratio

FOLDER = Path(__file__).parent


class Claim(NamedTuple):
    """A row of ``published.csv``; ``bound`` is ``least`` or ``most`` where the text says so."""

    figures: tuple[str, ...]
    queries: str
    algorithm: str
    metric: str
    number: float
    bound: str
    where: str
    note: str


@cache
def claims() -> tuple[Claim, ...]:
    """All that the text states."""
    return tuple(
        Claim(
            tuple(row["figure"].split()),
            row["queries"],
            row["algorithm"],
            row["metric"],
            float(row["number"]),
            row["bound"],
            row["where"],
            row["note"],
        )
        for row in published.rows(FOLDER)
    )


def claimed(figure: str, records: list[Record]) -> list[Record]:
    """A record per claim about a figure and stream: the paper's number, and ours."""
    compared = []
    for dataset in dict.fromkeys(record["dataset"] for record in records):
        points = {(r["queries"], r["algorithm"]): r for r in records if r["dataset"] == dataset}
        for claim in claims():
            if figure not in claim.figures:
                continue
            compared.append(
                {
                    "paper": "mtops",
                    "figure": figure,
                    "dataset": dataset,
                    "queries": claim.queries,
                    "algorithm": claim.algorithm,
                    "metric": claim.metric,
                    "measured": _measured(claim, points),
                    "published": claim.number,
                    "bound": claim.bound,
                    "note": claim.note,
                    "where": claim.where,
                }
            )
    return compared


_UNITS = {"ms_per_object": 1e-6, "s_per_object": 1e-9}
_LESS = "_less_than_"


def _measured(claim: Claim, points: dict[tuple[int, str], Record]) -> float | None:
    """Ours: a growth between two numbers of queries, a ratio of two algorithms, or a cost."""
    field = "state_bytes" if claim.metric.startswith("memory") else "ns_per_object"

    def cost(queries: str, algorithm: str) -> float | None:
        record = points.get((int(queries), algorithm))
        return None if record is None else float(record[field])

    if claim.metric in _UNITS:
        value = cost(claim.queries, claim.algorithm)
        return None if value is None else value * _UNITS[claim.metric]
    if _LESS in claim.metric:
        other = claim.metric.partition(_LESS)[2]
        return ratio(cost(claim.queries, other), cost(claim.queries, claim.algorithm))
    least, _, most = claim.queries.partition(" to ")
    return ratio(cost(most, claim.algorithm), cost(least, claim.algorithm))


def stated(records: Iterable[Record]) -> list[tuple[str, str, str, str, str, float | None, str]]:
    """Claims as rows of a table."""
    spoken = {"least": "at least ", "most": "at most "}
    return [
        (
            claim["dataset"],
            claim["metric"].replace("_", " "),
            claim["algorithm"],
            claim["queries"],
            f"{spoken.get(claim['bound'], '')}{claim['published']:g}",
            claim["measured"],
            ", ".join(part for part in (claim["where"], claim["note"]) if part),
        )
        for claim in records
    ]
