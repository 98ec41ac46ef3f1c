"""PostgreSQL, Redis and Delta as sinks: real servers, each batch once, and nothing by halves."""

from __future__ import annotations

import json
import logging
import shutil
import threading
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import deltalake
import psycopg
import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession

from skyband import QueryError, SkybandError, TopK, Workload, last
from skyband.cli import main
from skyband.spark import claim, drain, top_k, top_k_workload
from skyband.spark.jobs.file import load
from skyband.spark.jobs.run import Run
from skyband.spark.sinks import to_delta, to_postgres, to_redis
from tests import servers
from tests.spark import samples
from tests.spark.scripts import EXAMPLES

QUERY: dict[str, Any] = {
    "k": 3, "by": "price", "time": "ts", "window": "30 seconds", "slide": "10 seconds",
    "partition_by": "sector", "id": "id", "keep": ["id", "seq"], "skew": None,
}  # fmt: skip


@pytest.fixture
def source(tmp_path: Path) -> str:
    return samples.write(tmp_path / "in", samples.split(samples.rows(3, 160), 4, 10))


def expected(spark: SparkSession, source: str, **options: Any) -> list[tuple[Any, ...]]:
    """What a batch answers, as rows of a database."""
    rows = top_k(spark.read.parquet(source), **{**QUERY, **options}).collect()
    return sorted_rows(
        (row.window.end.timestamp(), row.sector, row["rank"], row.score, row.id) for row in rows
    )


def sorted_rows(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: (row[0], row[1] or "", row[2], repr(row)))


def in_postgres(url: str, table: str, name: str) -> list[tuple[Any, ...]]:
    text = f"SELECT window_end, sector, rank, score, id FROM {table} WHERE query = %s"
    with psycopg.connect(url) as connection:
        rows = connection.execute(text, [name]).fetchall()
    return sorted_rows((end.timestamp(), *others) for end, *others in rows)


def in_delta(path: Path) -> list[tuple[Any, ...]]:
    rows = deltalake.DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted_rows(
        (row["window_end"].timestamp(), row["sector"], row["rank"], row["score"], row["id"])
        for row in rows
    )


def in_redis(server: servers.RedisServer, board: str) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each board, best first."""
    client = server.client()
    boards = {}
    for key in client.scan_iter(f"{board}:*:rows"):
        rows = [json.loads(row) for row in client.hgetall(key).values()]
        name = key.removeprefix(f"{board}:").removesuffix(":rows")
        boards[name] = sorted((row["rank"], row["score"], row["id"]) for row in rows)
    return boards


def in_kafka(server: servers.KafkaServer, topic: str) -> list[tuple[Any, ...]]:
    """The rows of a topic, each as often as it was written."""
    rows = [json.loads(message.value()) for message in server.read(topic)]
    return sorted_rows(
        (
            datetime.fromisoformat(row["window"]["end"]).timestamp(),
            *(row.get("sector"), row["rank"], float(row["score"]), row["id"]),
        )
        for row in rows
    )


def newest(rows: list[tuple[Any, ...]]) -> dict[str, list[tuple[Any, ...]]]:
    """The newest board of each sector."""
    ends = {sector or "(null)": end for end, sector, *_ in rows}
    boards: dict[str, list[tuple[Any, ...]]] = {name: [] for name in ends}
    for end, sector, rank, score, id in rows:
        if end == ends[sector or "(null)"]:
            boards[sector or "(null)"].append((rank, score, id))
    return boards


def job(tmp_path: Path, url: str, redis: str, **parts: Any) -> Path:
    """A job with all sinks."""
    content = {
        "source": {"format": "parquet", "path": "in", "schema": samples.DDL},
        "query": QUERY,
        "sinks": [
            {"format": "postgres", "options": {"url": url, "table": "boards", "patience": "0 s"}},
            {"format": "redis", "options": {"url": redis, "board": "b", "patience": "0 s"}},
            {"format": "delta", "path": "table"},
            {"name": "archive", "format": "parquet", "path": "archive"},
        ],
        "checkpoint": "checkpoint",
        "drain": True,
        "name": tmp_path.name,
        **parts,
    }
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def go(spark: SparkSession, file: Path) -> Run:
    with Run(spark, load(file)) as run:
        run.prepare()
        run.go(threading.Event(), lambda: None)
    return run


def test_several_sinks_and_one_that_is_down(
    spark: SparkSession,
    tmp_path: Path,
    source: str,
    postgres: str,
    redis: servers.RedisServer,
    kafka: servers.KafkaServer,
) -> None:
    """The others have everything; it catches up later, and nobody gets anything twice."""
    kafka.make_topic("several", 2)
    topic = {"kafka.bootstrap.servers": kafka.address, "topic": "several"}
    file = job(tmp_path, postgres, redis.url)
    content = yaml.safe_load(file.read_text())
    content["sinks"].append({"format": "kafka", "options": topic})
    file.write_text(yaml.safe_dump(content))
    redis.stop()
    with Run(spark, load(file)) as run:
        run.prepare()
        (note,) = run.notes
        assert note.startswith("Redis cannot be reached")
        assert note.endswith("what sink redis is to get waits in the outbox")
        with pytest.raises(SkybandError, match=r"the sink redis failed.*wait for it in the outbox"):
            run.go(threading.Event(), lambda: None)
    rows = expected(spark, source)
    assert in_postgres(postgres, "boards", tmp_path.name) == rows
    assert in_delta(tmp_path / "table") == rows
    assert in_kafka(kafka, "several") == rows
    redis.start()
    assert in_redis(redis, "b") == {}
    go(spark, file)
    assert in_redis(redis, "b") == newest(rows)
    assert in_postgres(postgres, "boards", tmp_path.name) == rows
    archive = spark.read.parquet(str(tmp_path / "archive"))
    assert archive.count() == len(rows)
    left = [int(path.name.removeprefix("batch=")) for path in outbox(tmp_path).iterdir()]
    assert len(left) <= 1
    with pytest.raises(QueryError, match="this stream was drained"):
        go(spark, file)


def test_servers_that_come_back_while_a_job_runs(
    spark: SparkSession,
    tmp_path: Path,
    source: str,
    redis: servers.RedisServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Their sinks wait for them, the third one does not; then all have everything."""
    archive = {"name": "archive", "format": "parquet", "path": "archive"}
    rows = expected(spark, source)

    def archived() -> int:
        files = list((tmp_path / "archive").glob("*/*.parquet"))
        return spark.read.parquet(*map(str, files)).count() if files else 0

    with servers.postgres_folder() as folder, ExitStack() as postgres:
        postgres_url = postgres.enter_context(servers.postgres(folder))
        of_redis = {"url": redis.url, "board": "b", "patience": "1 hour"}
        of_postgres = {"url": postgres_url, "table": "boards", "patience": "1 hour"}
        boards = [
            {"format": "redis", "options": of_redis},
            {"format": "postgres", "options": of_postgres},
        ]
        file = job(tmp_path, "", "", sinks=[*boards, archive])

        def look() -> None:
            """Start them again, once both are missed and the third sink has all rows."""
            names = ("Redis", "PostgreSQL")
            missed = all(f"{name} cannot be reached" in caplog.text for name in names)
            if redis.process is None and missed and archived() == len(rows):
                redis.start()
                assert postgres.enter_context(servers.postgres(folder)) == postgres_url

        with caplog.at_level(logging.WARNING, "skyband.sinks"), Run(spark, load(file)) as run:
            run.prepare()
            redis.stop()
            postgres.close()
            run.go(threading.Event(), look)
        assert "Redis is there again after" in caplog.text
        assert "PostgreSQL is there again after" in caplog.text
        assert in_redis(redis, "b") == newest(rows)
        assert in_postgres(postgres_url, "boards", tmp_path.name) == rows
    assert archived() == len(rows)


def test_a_server_that_stays_away(
    spark: SparkSession, tmp_path: Path, source: str, redis: servers.RedisServer
) -> None:
    """The stream ends with one line, and the next run goes on where it was."""
    options = {"url": redis.url, "board": "b", "patience": "0 s"}
    file = job(tmp_path, "", "", sinks=[], sink={"format": "redis", "options": options})
    with Run(spark, load(file)) as run:
        run.prepare()
        redis.stop()
        with pytest.raises(SkybandError) as error:
            run.go(threading.Event(), lambda: None)
    assert str(error.value).startswith("the query stopped: Redis cannot be reached: Error 111")
    assert "run again: a stream goes on where it was" in str(error.value)
    redis.start()
    go(spark, file)
    assert in_redis(redis, "b") == newest(expected(spark, source))


def outbox(home: Path) -> Path:
    return home / "checkpoint" / "skyband" / "outbox"


def test_a_batch_for_several_sinks(
    spark: SparkSession, tmp_path: Path, source: str, postgres: str, redis: servers.RedisServer
) -> None:
    """Run twice: what is there is replaced, but files, which are written once."""
    file = job(tmp_path, postgres, redis.url, trigger="batch")
    content = yaml.safe_load(file.read_text())
    content["sinks"].pop()
    del content["checkpoint"], content["drain"]
    file.write_text(yaml.safe_dump(content))
    rows = expected(spark, source)
    for _ in range(2):
        go(spark, file)
        assert in_postgres(postgres, "boards", tmp_path.name) == rows
        assert in_delta(tmp_path / "table") == rows
        assert in_redis(redis, "b") == newest(rows)


@pytest.mark.parametrize("name", ["postgres", "redis", "delta", "sinks", "table"])
def test_jobs_that_are_shown(
    spark: SparkSession,
    tmp_path: Path,
    postgres: str,
    redis: servers.RedisServer,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """Each example writes what a batch over the same files answers, as far as windows ended."""
    file = tmp_path / f"{name}.yaml"
    shutil.copy(EXAMPLES / "jobs" / file.name, file)
    trades = str(tmp_path / "trades-1.parquet")
    assert main(["generate", "stock", "--rows", "30000", "--out", trades]) == 0
    monkeypatch.setenv("BOARD_URL", postgres)
    monkeypatch.setenv("REDIS_URL", redis.url)
    spark.read.parquet(trades).createOrReplaceTempView("trades")  # for the job about a table
    go(spark, file)
    query = yaml.safe_load(file.read_text())["query"]
    answers = top_k(spark.read.parquet(trades), **query).collect()
    rows = sorted(
        (row.window.end.timestamp(), row.sector, row["rank"], row.score) for row in answers
    )

    def ended(ends_and_rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        last = max(end for end, *_ in ends_and_rows)
        return [row for row in rows if row[0] <= last]

    if name in ("postgres", "sinks"):
        title = yaml.safe_load(file.read_text())["name"]
        text = "SELECT window_end, sector, rank, score FROM board WHERE query = %s"
        with psycopg.connect(postgres) as connection:
            selected = connection.execute(text, [title]).fetchall()
        written = sorted((end.timestamp(), *others) for end, *others in selected)
        assert written == ended(written)
    if name in ("delta", "sinks", "table"):
        table = (
            deltalake.DeltaTable(str(tmp_path / f"out/{name}-board")).to_pyarrow_table().to_pylist()
        )
        written = sorted(
            (row["window_end"].timestamp(), row["sector"], row["rank"], row["score"])
            for row in table
        )
        assert written == ended(written)
    if name in ("redis", "sinks"):
        client = redis.client()
        last = client.zrange("leaders#boards", -1, -1, withscores=True)[0][1]
        newest_rows = {(row[1], row[2], row[3]) for row in rows if row[0] == last}
        shown = {
            (unquote(board.removeprefix("leaders:")), row["rank"], float(row["score"]))
            for board in client.zrange("leaders#boards", 0, -1)
            for row in map(json.loads, client.hgetall(f"{board}:rows").values())
        }
        assert shown == newest_rows


def play(spark: SparkSession, home: Path, leaders: DataFrame, writers: list[Any]) -> None:
    """Run a stream to its end; each batch is written twice, as after a crash."""

    def twice(rows: DataFrame, batch: int) -> None:
        for write in (*writers, *writers):
            write(rows, batch)

    for drains in (False, True):
        if drains:
            drain(spark, str(home / "marks"))
        writer = leaders.writeStream.foreachBatch(twice)
        writer = writer.option("checkpointLocation", str(home / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()


@pytest.mark.parametrize("emit", ["all", "updates"])
def test_batches_that_are_run_again_count_once(
    spark: SparkSession,
    tmp_path: Path,
    source: str,
    postgres: str,
    redis: servers.RedisServer,
    emit: str,
) -> None:
    options = {"emit": emit, "open_windows": "current" if emit == "updates" else "all"}
    marks = str(tmp_path / "marks")
    leaders = top_k(samples.stream(spark, source), drain=marks, **QUERY, **options)
    checkpoint = claim(leaders, str(tmp_path / "checkpoint"))
    name = tmp_path.name
    writers = [
        to_postgres(leaders, postgres, f"once_{emit}", name=name, checkpoint=checkpoint),
        to_redis(leaders, redis.url, "b", checkpoint=checkpoint, changes=1000, expire="1 day"),
        to_delta(leaders, tmp_path / "table", checkpoint=checkpoint),
    ]
    play(spark, tmp_path, leaders, writers)
    rows = expected(spark, source)
    assert in_postgres(postgres, f"once_{emit}", name) == rows
    assert in_delta(tmp_path / "table") == rows
    assert in_redis(redis, "b") == newest(rows)
    client = redis.client()
    changes = [entry["change"] for _, entry in client.xrange("b:a:changes")]
    assert changes.count("entered") - changes.count("left") == len(newest(rows)["a"])
    assert client.ttl("b:a") > 0
    other = tmp_path / "other"
    other.mkdir()
    (other / "metadata").write_text('{"id": "another"}')
    batch = top_k(spark.read.parquet(source), **QUERY, **options)
    for write in (
        to_postgres(leaders, postgres, f"once_{emit}", name=name, checkpoint=other),
        to_redis(leaders, redis.url, "b", checkpoint=other),
    ):
        with pytest.raises(SkybandError, match="another checkpoint"):
            write(batch, 0)


def test_changes_of_a_stream_are_rows(
    spark: SparkSession, tmp_path: Path, source: str, postgres: str
) -> None:
    options = {**QUERY, "emit": "changes"}
    leaders = top_k(samples.stream(spark, source), drain=str(tmp_path / "marks"), **options)
    checkpoint = claim(leaders, str(tmp_path / "checkpoint"))
    writers = [
        to_postgres(leaders, postgres, "changes", name="q", checkpoint=checkpoint),
        to_delta(leaders, tmp_path / "table", checkpoint=checkpoint),
    ]
    play(spark, tmp_path, leaders, writers)
    changes = sorted(
        (
            row.window.end.timestamp(),
            row.sector or "",
            row["rank"] or 0,
            row.previous_rank or 0,
            row.id,
        )
        for row in top_k(spark.read.parquet(source), **options).collect()
    )
    text = "SELECT window_end, sector, rank, previous_rank, id FROM changes"
    with psycopg.connect(postgres) as connection:
        rows = connection.execute(text).fetchall()
    table = deltalake.DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
    names = ("window_end", "sector", "rank", "previous_rank", "id")
    for written in (rows, [tuple(row[name] for name in names) for row in table]):
        assert changes == sorted(
            (end.timestamp(), sector or "", rank or 0, previous or 0, id)
            for end, sector, rank, previous, id in written
        )


def test_batches_of_workloads_and_of_shared_ranks(
    spark: SparkSession, tmp_path: Path, source: str, postgres: str, redis: servers.RedisServer
) -> None:
    """Queries of a workload are told apart, and rows that share a rank by their places."""
    rows = spark.read.parquet(source)
    one = {
        name: value for name, value in QUERY.items() if name not in ("k", "by", "window", "slide")
    }
    queries = {
        "short": TopK(k=2, window=last(time="20 seconds", slide="10 seconds")),
        "long": TopK(k=3, window=last(time="60 seconds", slide="30 seconds")),
    }
    for name, leaders in {
        "workload": top_k_workload(rows, Workload(queries, dict.fromkeys(queries, "price")), **one),
        "shared": top_k(rows, **QUERY, rank_by="dense_rank"),
    }.items():
        to_postgres(leaders, postgres, name, name="q")(leaders, 0)
        to_delta(leaders, tmp_path / name)(leaders, 0)
        to_redis(leaders, redis.url, name)(leaders, 0)
        columns = ["sector", "rank", "score", "id", *(["query"] if name == "workload" else [])]
        answers = sorted(
            [row.window.end.timestamp(), *(repr(row[column]) for column in columns)]
            for row in leaders.collect()
        )
        with psycopg.connect(postgres) as connection:
            text = f"SELECT window_end, {', '.join(columns)} FROM {name}"
            selected = connection.execute(text).fetchall()
        in_table = [[end.timestamp(), *map(repr, more)] for end, *more in selected]
        table = deltalake.DeltaTable(str(tmp_path / name)).to_pyarrow_table().to_pylist()
        in_lake = [
            [row["window_end"].timestamp(), *(repr(row[column]) for column in columns)]
            for row in table
        ]
        assert sorted(in_table) == sorted(in_lake) == answers
        boards = redis.client().keys(f"{name}:*:rows")
        assert len(boards) == len(
            {(row.sector, row.asDict().get("query")) for row in leaders.collect()}
        )


def test_what_is_refused_before_anything_runs(
    spark: SparkSession, tmp_path: Path, source: str, postgres: str, redis: servers.RedisServer
) -> None:
    stream = top_k(samples.stream(spark, source), **QUERY)
    batch = top_k(spark.read.parquet(source), **QUERY)
    with pytest.raises(QueryError, match="checkpoint is missing"):
        to_postgres(stream, postgres, "board", name="a")
    with pytest.raises(QueryError, match="what top_k returned"):
        to_delta(spark.range(3), tmp_path / "table")
    with psycopg.connect(postgres) as connection:
        connection.execute("CREATE TABLE other (query text, window_start bigint)")
    with pytest.raises(QueryError, match="column 'window_start' of table other is bigint"):
        to_postgres(batch, postgres, "other", name="a")
    deltalake.write_deltalake(str(tmp_path / "t"), batch.select("rank").toArrow())
    with pytest.raises(QueryError, match="has the columns rank"):
        to_delta(batch, tmp_path / "t")
    for emit, problem in (("changes", "emit is 'changes'"), ("updates", "all open windows")):
        with pytest.raises(QueryError, match=problem):
            to_redis(top_k(spark.read.parquet(source), **QUERY, emit=emit), redis.url, "b")
    nobody = f"redis://127.0.0.1:{servers.free_port()}"
    with pytest.raises(SkybandError, match="Redis cannot be reached"):
        to_redis(batch, nobody, "b", patience="0 s")
    nobody = f"postgresql://127.0.0.1:{servers.free_port()}/x"
    with pytest.raises(SkybandError, match="PostgreSQL cannot be reached"):
        to_postgres(batch, nobody, "b", name="a", patience="0 s")


@pytest.mark.parametrize(
    ("sinks", "problem"),
    [
        ([{"format": "postgres", "options": {"url": "u"}}], "sink.options.table is missing"),
        ([{"format": "redis", "options": {"url": "u", "board": "b", "x": 1}}], "has 'x' for redis"),
        ([{"format": "redis", "path": "p", "options": {}}], "sink.path is given for redis"),
        ([{"format": "delta"}], "sink.path is missing for delta"),
        ([{"format": "delta", "path": "a"}] * 2, "two sinks are called 'delta'"),
        ([], "sink is missing"),
    ],
)
def test_what_a_job_file_is_refused_for(
    tmp_path: Path, source: str, sinks: list[Any], problem: str
) -> None:
    with pytest.raises(QueryError, match=problem):
        load(job(tmp_path, "", "", sinks=sinks))
