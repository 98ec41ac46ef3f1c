"""Leaders in a Declarative Pipeline: a streaming table and a materialized view, updated twice.

python examples/pipeline/run.py [FOLDER]

Copies the project into a folder (a temporary one by default) with trades to rank, starts a Spark
Connect server and runs ``spark-pipelines`` on it. On your machine the last step is all you need.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from skyband.datasets import dataset

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from connect import client, server  # noqa: E402  (the example beside this folder)


def main(home: Path) -> None:
    """Two updates; files come before each."""
    project = home / "project"
    shutil.copytree(HERE, project, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    spec = project / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/leaders", home.resolve().as_uri()))
    (project / "trades").mkdir()
    with server(home) as address, client(address) as spark:
        for part, trades in enumerate(dataset("stock").chunks(100_000, chunk=50_000)):
            pq.write_table(pa.Table.from_batches([trades]), project / f"trades/{part}.parquet")
            update(project, address)
            for table in ("biggest_trades", "best_of_sector"):
                spark.catalog.refreshTable(table)  # the pipeline has sessions of its own
                leaders = spark.table(table)
                ends = sorted({row.end for row in leaders.select("window.end").collect()})
                print(
                    f"{table}: {leaders.count()} rows, {len(ends)} windows that end from "
                    f"{ends[0]:%H:%M:%S} to {ends[-1]:%H:%M:%S}"
                )


def update(project: Path, address: str) -> None:
    """``spark-pipelines run``, where the tables are kept by a server."""
    command = [str(Path(sys.executable).parent / "spark-pipelines"), "--remote", address, "run"]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the update failed:\n{done.stdout}\n{done.stderr}")
    print(*(line[21:] for line in done.stdout.splitlines() if "COMPLETED" in line), sep="\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
