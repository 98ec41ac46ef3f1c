"""Flink: SQL over a hopping window table function, by an environment of its own.

PyFlink pins old releases of packages that we use as well, so ``make flink`` installs it apart.
"""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Any

from benchmarks.peers.question import Question
from benchmarks.spark.stream import SLIDE

ROOT = Path(__file__).parents[2]
VERSION = Path(__file__).with_name("flink-requirements.txt").read_text().strip().partition("==")[2]
PARQUET = f"org.apache.flink:flink-sql-parquet:{VERSION}"
MISSING = "Flink is not installed: run make flink"
_CHILD = Path(__file__).with_name("flink_child.py")

SETTINGS = {
    "parallelism.default": "2",
    "taskmanager.numberOfTaskSlots": "2",
    "taskmanager.memory.managed.size": "2g",
    "table.local-time-zone": "UTC",
}
"""Two slots, as the other peers have two cores, and room to sort."""


def home() -> Path:
    """Where ``make flink`` puts it: ``SKYBAND_FLINK``, or a folder of the repository."""
    return Path(os.environ.get("SKYBAND_FLINK") or ROOT / ".venv-flink")


def missing() -> str | None:
    """What to run if Flink is not there; None if it is."""
    python, jars = home() / "bin" / "python", list((home() / "jars").glob("*.jar"))
    return None if python.exists() and jars else MISSING


def command() -> list[str]:
    """How to start it: Parquet needs Hadoop's classes, which come with PySpark."""
    import pyspark

    hadoop = glob.glob(str(Path(pyspark.__file__).parent / "jars" / "hadoop-client-*.jar"))
    jars = [*map(str, sorted((home() / "jars").glob("*.jar"))), *sorted(hadoop)]
    return [str(home() / "bin" / "python"), str(_CHILD), *jars]


def fetch() -> None:
    """Fetch the jar that reads and writes Parquet, unless it is there."""
    from skyband.spark import connectors

    folder = home() / "jars"
    if not (folder / f"flink-sql-parquet-{VERSION}.jar").exists():
        connectors.fetch([PARQUET], folder, with_dependencies=False)


def request(question: Question, source: Path, target: Path) -> dict[str, Any]:
    """What the child is asked to execute."""
    return {"settings": SETTINGS, "statements": statements(question, source, target)}


def statements(question: Question, source: Path, target: Path) -> list[str]:
    """The tables of a question, and the query that answers it.

    A time attribute of Flink has milliseconds; no window ends between two of them.
    """
    return [
        "DROP TABLE IF EXISTS trades",
        "DROP TABLE IF EXISTS answers",
        "CREATE TABLE trades (ts TIMESTAMP(6), id BIGINT, sector STRING, price DOUBLE, "
        "volume BIGINT, moment AS CAST(ts AS TIMESTAMP(3))) "
        f"WITH ({_files(source)}, 'parquet.utc-timezone' = 'true')",
        f"CREATE TABLE answers (window_end BIGINT, score DOUBLE, {_COLUMN[question.kind]}) "
        f"WITH ({_files(target)})",
        f"INSERT INTO answers {_QUERY[question.kind](question)}",
    ]


def _files(folder: Path) -> str:
    return f"'connector' = 'filesystem', 'path' = '{folder.as_uri()}', 'format' = 'parquet'"


_END = (
    "TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', window_end) * CAST(1000000 AS BIGINT)"
)
_COLUMN = {"rows": "id BIGINT", "totals": "sector STRING"}


def _windows(question: Question) -> str:
    return (
        f"TABLE(HOP(TABLE trades, DESCRIPTOR(moment), INTERVAL '{SLIDE}' SECOND, "
        f"INTERVAL '{question.seconds}' SECOND(6)))"
    )


def _best(question: Question, scored: str, column: str) -> str:
    """The documented form of a window Top-N."""
    return (
        f"SELECT {_END}, score, {column} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY "
        f"window_start, window_end ORDER BY score DESC) AS place FROM ({scored})) "
        f"WHERE place <= {question.k}"
    )


def _rows(question: Question) -> str:
    scored = (
        f"SELECT window_start, window_end, id, price * volume AS score FROM {_windows(question)}"
    )
    return _best(question, scored, "id")


def _totals(question: Question) -> str:
    scored = (
        "SELECT window_start, window_end, sector, CAST(SUM(volume) AS DOUBLE) AS score "
        f"FROM {_windows(question)} GROUP BY window_start, window_end, sector"
    )
    return _best(question, scored, "sector")


_QUERY = {"rows": _rows, "totals": _totals}

if __name__ == "__main__":
    fetch()
