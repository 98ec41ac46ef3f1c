"""``skyband bench``: the repository's benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path

import skyband
from skyband.errors import QueryError


def run(words: list[str], quick: bool, as_json: bool, rows: int | None = None) -> int:
    """Run the benchmark that the words name and return its exit code."""
    root = Path(skyband.__file__).resolve().parents[2]
    if not (root / "benchmarks" / "__init__.py").is_file():
        raise QueryError(
            "the benchmarks are not here",
            "Skyband run from its repository, which they come with",
            "clone the repository and run make setup",
        )
    sys.path.insert(0, str(root))
    import benchmarks

    return int(benchmarks.run(words, quick=quick, as_json=as_json, rows=rows))
