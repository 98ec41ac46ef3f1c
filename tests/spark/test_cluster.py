"""A real cluster: a master and two workers, whose executors are killed while families rank."""

from __future__ import annotations

import ast
import json
import os
import pickle
import re
import signal
import site
import subprocess
import sys
import venv
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from benchmarks.spark.standalone import Standalone, wait_for

from skyband.spark.cluster import package, probe
from skyband.spark.jobs.file import load
from tests import kafka_trades, servers
from tests.spark import samples
from tests.spark.on_cluster import FAMILIES, ROOM, TIMED

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
MOST_SECONDS = 600.0  # for one driver, far more than it takes
QUERY = {**TIMED, "delay": "10 minutes"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """Workers that know nothing of Skyband."""
    home = tmp_path_factory.mktemp("cluster")
    with Standalone(home, environment={"PYTHONPATH": ""}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Pythons that lack something, by its name."""
    home = tmp_path_factory.mktemp("pythons")
    packages = {"empty": "", "bare": "\n".join(site.getsitepackages()), "other": ""}
    paths = {}
    for name, lines in packages.items():
        venv.create(home / name, with_pip=False, symlinks=True)
        folder = next((home / name).glob("lib/python*/site-packages"))
        (folder / "more.pth").write_text(lines)
        paths[name] = str(home / name / "bin" / "python")
    other = next((home / "other").glob("lib/python*/site-packages")) / "other.pth"
    version = "collections.namedtuple('V', 'major minor micro releaselevel serial')"
    lie = f"sys.version_info = {version}(3, 99, 0, 'final', 0)"
    other.write_text(f"import sys, collections; {lie}\n")
    return {**paths, "none": str(home / "none" / "python")}


def environment() -> dict[str, str]:
    modules = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {**os.environ, "PYTHONPATH": modules, "COLUMNS": "100"}


def kill_an_executor(cluster: Standalone, driver: subprocess.Popen[Any], point: Path) -> None:
    """Kill the oldest executor when a driver has made a file, unless it has ended before."""
    wait_for(lambda: point.exists() or driver.poll() is not None, str(point), MOST_SECONDS)
    if driver.poll() is None:
        executors: list[int] = []
        wait_for(lambda: executors.extend(cluster.executors()) or bool(executors), "an executor")
        os.kill(executors[0], signal.SIGKILL)


def test_every_family_outlives_executors(
    cluster: Standalone, pythons: dict[str, str], kafka: servers.KafkaServer, tmp_path: Path
) -> None:
    """From files and from Kafka, as stream and as batch; what executors lack is told before."""
    (tmp_path / "pythons.json").write_text(json.dumps(pythons))
    command = [sys.executable, "-m", "tests.spark.on_cluster"]
    command += [cluster.master, str(kafka.port), str(tmp_path)]
    with (tmp_path / "driver.out").open("wb") as output:
        driver = subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdout=output, stderr=output
        )
    try:
        # all streams have ranked half of their rows; one of them has ended; batches begin
        for point in ("rest", "ended", "batches"):
            kill_an_executor(cluster, driver, tmp_path / point)
        code = driver.wait(MOST_SECONDS)
    finally:
        driver.kill()
    assert code == 0, (tmp_path / "driver.out").read_text()[-5000:]
    check_refusals(json.loads((tmp_path / "refusals.json").read_text()), pythons)
    results = pickle.loads((tmp_path / "results").read_bytes())
    for name, family in FAMILIES.items():
        expected = family.expected(family.rows)
        for which in product(("files", "kafka"), ("stream", "batch")):
            assert family.layout(results.pop((name, *which))) == expected, (name, which)
    assert not results


def check_refusals(messages: dict[str, str], pythons: dict[str, str]) -> None:
    """One line for each thing that executors lack."""
    expected = {
        "empty": f"executors lack {', '.join(probe.PACKAGES)}: {pythons['empty']} on",
        "other": "executors have another Python than the driver: 3.99",
        "none": f"executors have no such Python: {pythons['none']}",
        "cache": "executors cannot keep compiled kernels in /dev/null/cache/skyband/",
        "sent": "executors cannot keep compiled kernels in /dev/null/cache/skyband-sent/",
        "places": "do not see what this machine has in /proc/self/cwd",
    }
    assert set(messages) == set(expected)
    for name, words in expected.items():
        assert words in messages[name], messages
        assert "\n" not in messages[name]
        assert "Traceback" not in messages[name]


def job(home: Path, **parts: Any) -> Path:
    content = {
        "source": {"format": "parquet", "path": "in", "options": {"maxFilesPerTrigger": 1}},
        "query": QUERY,
        "sink": {"format": "parquet", "path": "out"},
        "checkpoint": "checkpoint",
        "drain": True,
        "session": {"shuffle_partitions": 2, "settings": ROOM},
        **parts,
    }
    file = home / "job.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def skyband(*arguments: Any) -> subprocess.Popen[str]:
    inherited = environment()
    inherited.pop("PYSPARK_PYTHON", None)  # of a session in this process
    return subprocess.Popen(
        [sys.executable, "-m", "skyband.cli", "run", *map(str, arguments)],
        env=inherited,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str], code: int) -> str:
    """What a process said on stderr; it must end with a code."""
    out, err = process.communicate(timeout=MOST_SECONDS)
    assert process.returncode == code, f"{out}\n{err}"
    assert "Traceback" not in err
    return err


def test_a_job_from_kafka_brings_skyband_along(
    cluster: Standalone, pythons: dict[str, str], kafka: servers.KafkaServer, tmp_path: Path
) -> None:
    """Also to executors that come later, in the place of one that was killed.

    A signal has stopped the job before, within its first batches; this run goes on from there.
    """
    rows = kafka_trades.trades(11, 200)
    kafka.make_topic("cluster", 3)
    kafka.send("cluster", kafka_trades.spread(rows, 3))
    options = {"kafka.bootstrap.servers": kafka.address, "subscribe": "cluster"}
    options |= {"maxOffsetsPerTrigger": 70}
    own = {
        "spark.pyspark.python": pythons["bare"],
        "spark.executorEnv.NUMBA_CACHE_DIR": "",  # which tests have, comes before
        "spark.executorEnv.XDG_CACHE_HOME": str(tmp_path / "caches"),
    }
    file = kafka_trades.write_job(
        tmp_path,
        kafka,
        "cluster",
        source={"format": "kafka", "json": kafka_trades.FIELDS, "options": options},
        sink={"format": "parquet", "path": "out"},
        connect={"kafka": "auto"},
        session={"shuffle_partitions": 2, "settings": {**ROOM, **own}},
        drain=True,
    )
    commits = tmp_path / "checkpoint" / "commits"
    stopped = skyband(file, "--master", cluster.master)
    wait_for((commits / "0").exists, "a first batch", MOST_SECONDS)
    stopped.terminate()
    ended(stopped, 143)
    done = len([path for path in commits.iterdir() if path.name.isdigit()])
    running = skyband(file, "--master", cluster.master)
    kill_an_executor(cluster, running, commits / str(done))
    ended(running, 0)
    [sent] = (tmp_path / "caches" / "skyband-sent").iterdir()
    assert sent.name == package.digest()
    parts = [pq.read_table(file).to_pylist() for file in _complete(tmp_path / "out")]
    leaders = [
        (
            *(row["sector"] or "", samples.position(row["window"]["end"])),
            *(row["rank"], row["score"], row["id"]),
        )
        for part in parts
        for row in part
    ]
    assert sorted(leaders) == kafka_trades.expected(rows)


def _complete(out: Path) -> list[Path]:
    """The files of Spark's sink that its log names: an executor that is killed leaves others."""
    lines = [
        line
        for log in (out / "_spark_metadata").iterdir()
        if not log.name.startswith(".")
        for line in log.read_text().splitlines()[1:]
    ]
    return sorted({out / Path(json.loads(line)["path"]).name for line in lines})


def test_a_master_that_is_down(tmp_path: Path) -> None:
    master = f"spark://127.0.0.1:{servers.free_port()},127.0.0.1:{servers.free_port()}"
    samples.write(tmp_path / "in", [samples.rows(1, 9)])
    err = ended(skyband(job(tmp_path), "--master", master), 2)
    assert err.startswith(f"skyband: no Spark master answers at {master}: Connection refused")
    assert err.count("\n") == 1


def test_a_cluster_without_room(cluster: Standalone, tmp_path: Path) -> None:
    """A line says that executors are waited for; a signal ends the waiting."""
    samples.write(tmp_path / "in", [samples.rows(1, 9)])
    settings = {**ROOM, "spark.executor.memory": "900g"}
    waiting = skyband(job(tmp_path, session={"settings": settings}), "--master", cluster.master)
    assert waiting.stderr is not None
    line = waiting.stderr.readline()
    waiting.terminate()
    ended(waiting, 143)
    assert re.match(r"waiting for executors, for \d+ seconds now: spark://127.0.0.1:", line)


def test_packages_that_workers_import_are_looked_for() -> None:
    """Of all modules that tasks import; PySpark itself needs pandas."""
    source = ROOT / "src" / "skyband"
    of_driver = {"plan", "explanation", "restart", "planning", "translation", "ranking_plot"}
    of_driver |= {"queries"}  # whose files are of YAML
    folders = ["kernels", "engine", "topk", "totals", "dominating", "incomplete", "workload"]
    folders += ["spark/state", "spark/scan", *(f"spark/families/{name}" for name in folders[3:])]
    files = [file for folder in folders for file in (source / folder).glob("*.py")]
    modules = [file for file in files if file.stem not in of_driver]
    packages = {name for module in modules for name in imported(module)}
    others = {"__future__", "skyband", "pyspark", *sys.stdlib_module_names}
    assert sorted(packages - others | {"pandas"}) == list(probe.PACKAGES)


def imported(module: Path) -> set[str]:
    """The packages that a module imports anywhere but for its types."""
    names: set[str] = set()

    def visit(part: ast.AST) -> None:
        if isinstance(part, ast.If) and ast.unparse(part.test) == "TYPE_CHECKING":
            return
        if isinstance(part, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in part.names)
        elif isinstance(part, ast.ImportFrom):
            names.add((part.module or "").partition(".")[0])
        for inner in ast.iter_child_nodes(part):
            visit(inner)

    visit(ast.parse(module.read_text()))
    return names


def test_places_that_executors_must_see(tmp_path: Path) -> None:
    """Those on the file system of this machine, by their scheme or by default."""
    home = str(tmp_path)
    plain = load(job(tmp_path), "spark://somewhere:7077")
    assert plain.shared_places("file:///") == (
        [f"{home}/in"], [f"{home}/checkpoint", f"{home}/out"]
    )  # fmt: skip
    assert plain.shared_places("hdfs://here:9000") == ([], [])
    delta = job(tmp_path, sink={"format": "delta", "path": "out"})
    of_driver = load(delta, "spark://somewhere:7077")
    assert of_driver.shared_places("file:///")[1] == [f"{home}/checkpoint"]
    source = {"format": "csv", "path": "file:///data/day=*/x.csv", "schema": samples.DDL}
    named = load(job(tmp_path, source=source, checkpoint="s3a://bucket/checkpoint"))
    assert named.shared_places("hdfs://here:9000/") == (["/data"], [])
