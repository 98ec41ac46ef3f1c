"""Benchmarks: how fast Skyband is, and the papers' tables beside what we measure.

``run(["scan"], quick=True, as_json=False)`` is what ``skyband bench scan --quick`` calls; each
table and figure of a paper is also a script: ``python -m benchmarks.papers.sap.table6``.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skyband.errors import QueryError

if TYPE_CHECKING:
    from benchmarks.study import Study

_PLAIN = {
    "scan": ("benchmarks.scan", "Scan"),
    "pushes": ("benchmarks.pushes", "Pushes"),
    "grid": ("benchmarks.grid", "Grid"),
    "memory": ("benchmarks.memory", "Memory"),
    "start": ("benchmarks.start", "Start"),
    "updates": ("benchmarks.updates", "Updates"),
    "peers": ("benchmarks.peers.study", "Peers"),
    "spark": ("benchmarks.spark.study", "Sliding"),
    "spark-sizes": ("benchmarks.spark.sizes", "Sizes"),
    "spark-scale": ("benchmarks.spark.scale", "Scale"),
    "spark-cluster": ("benchmarks.spark.cluster", "Cluster"),
    "spark-state": ("benchmarks.spark.state", "State"),
    "spark-updates": ("benchmarks.spark.updates", "Updates"),
    "spark-page": ("benchmarks.spark.page", "Page"),
    "spark-workload": ("benchmarks.spark.workload", "Workloads"),
    "spark-kafka": ("benchmarks.spark.kafka", "Kafka"),
    "spark-incomplete": ("benchmarks.spark.incomplete", "Incomplete"),
    "spark-dominating": ("benchmarks.spark.dominating", "Dominating"),
    "spark-totals": ("benchmarks.spark.totals", "Totals"),
}
_PAPERS = {
    "sap": "benchmarks.papers.sap",
    "mintopk": "benchmarks.papers.mintopk",
    "mtops": "benchmarks.papers.mtops",
    "dominating": "benchmarks.papers.dominating",
    "incomplete": "benchmarks.papers.incomplete",
}

NAMES = (*_PLAIN, *(f"paper {paper}" for paper in _PAPERS))
"""The benchmarks that can be run; after a paper, some of its tables or figures may be named."""


def run(
    words: Sequence[str],
    *,
    quick: bool = False,
    as_json: bool = False,
    rows: int | None = None,
    server: str | None = None,
    results: Path | None = None,
) -> int:
    """Carry out the benchmark that ``words`` name and return the exit code.

    Tables, or one JSON array of flat records, go to stdout; figures into ``results``. Raises
    :class:`QueryError` for a name that does not exist. ``rows`` sizes the benchmarks of
    Spark and of peers; ``server`` is a broker for ``spark-kafka``, which else starts one.
    """
    from benchmarks.study import perform

    return perform(_studies(list(words), quick, rows, server), as_json=as_json, results=results)


def _studies(
    words: list[str], quick: bool, rows: int | None = None, server: str | None = None
) -> list[Study]:
    if server is not None and words != ["spark-kafka"]:
        raise QueryError(
            f"a server for {' '.join(words)!r}", "the benchmark spark-kafka", "leave it out"
        )
    if rows is not None and (len(words) != 1 or not words[0].startswith(("spark", "peers"))):
        raise QueryError(
            f"rows for {' '.join(words)!r}",
            "the benchmark spark or peers, which they size",
            "leave it out",
        )
    if rows is not None and rows < 100_000:
        raise QueryError(f"rows is {rows:,}", "at least 100,000")
    if len(words) == 1 and words[0] in _PLAIN:
        names = ["scan", "pushes"] if words == ["scan"] else words
        given = {"rows": rows, "server": server}
        size = {name: value for name, value in given.items() if value is not None}
        return [_study(name, quick, size) for name in names]
    if len(words) < 2 or words[0] != "paper" or words[1] not in _PAPERS:
        raise QueryError(
            f"benchmark is {' '.join(words)!r}" if words else "no benchmark was named",
            f"one of: {', '.join(NAMES)}",
            "write skyband bench scan",
        )
    studies = import_module(_PAPERS[words[1]]).STUDIES
    wanted = words[2:] or list(studies)
    for name in wanted:
        if name not in studies:
            raise QueryError(
                f"{name!r} of paper {words[1]}",
                f"one of: {', '.join(studies)}",
                f"write skyband bench paper {words[1]} for all of them",
            )
    return [studies[name](quick) for name in wanted]


def _study(name: str, quick: bool, size: dict[str, Any]) -> Study:
    module, cls = _PLAIN[name]
    study: Study = getattr(import_module(module), cls).sized(quick, **size)
    return study
