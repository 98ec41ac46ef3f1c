"""Kafka as source and sink of jobs: a real broker, uneven partitions, bad records, no broker."""

from __future__ import annotations

import json
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband import DataError, QueryError, SkybandError
from skyband.spark import connectors, drain, top_k
from skyband.spark.jobs import failures
from skyband.spark.jobs.file import load
from skyband.spark.jobs.run import Run
from skyband.spark.sinks import to_kafka
from tests.kafka_trades import (
    FIELDS,
    QUERY,
    as_json,
    board,
    expected,
    moment,
    spread,
    trades,
    write_job,
)
from tests.servers import KafkaServer, free_port

JOBS = Path(__file__).parents[2] / "examples" / "jobs"
ZONE = "spark.sql.session.timeZone"
LONG = 300.0  # seconds, far more than anything here takes


def go(spark: SparkSession, file: Path) -> Run:
    """Run a job to its end."""
    with Run(spark, load(file)) as run:
        run.prepare()
        run.go(threading.Event(), lambda: None)
    return run


@contextmanager
def going(spark: SparkSession, file: Path) -> Iterator[Callable[[Callable[[Run], bool]], None]]:
    """A job that goes on meanwhile; gives a function that waits until something is so."""
    stop = threading.Event()
    failed: list[Exception] = []
    with Run(spark, load(file)) as run:
        run.prepare()

        def work() -> None:
            try:
                run.go(stop, lambda: None)
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()

        def wait(until: Callable[[Run], bool]) -> None:
            limit = time.monotonic() + LONG
            while not until(run):
                if failed:
                    raise failed[0]
                assert time.monotonic() < limit, run.progress
                stop.wait(0.1)

        try:
            yield wait
        finally:
            stop.set()
            thread.join()
        if failed:
            raise failed[0]


def drained(file: Path) -> Path:
    """The same job, to its end."""
    content = yaml.safe_load(file.read_text())
    content.pop("trigger", None)
    file.write_text(yaml.safe_dump({**content, "drain": True}))
    return file


def test_from_topic_to_topic(
    spark: SparkSession, tmp_path: Path, kafka: KafkaServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Partitions are uneven, some are added in flight, records are bad, the broker goes away."""
    kafka.make_topic("uneven", 3)
    kafka.make_topic("uneven-board", 2, cleanup_policy="compact")
    rows = trades(1, 280)
    # the third partition is far behind, within the delay: its rows come in the very end
    behind = [row for row in rows[:210] if row["id"] % 3 == 2]
    first, second, third = (
        [row for row in rows[start : start + 70] if row not in behind] for start in (0, 70, 140)
    )
    file = write_job(tmp_path, kafka, "uneven", trigger={"every": "100 milliseconds"})
    kafka.send("uneven", spread(first, 2))
    with going(spark, file) as wait, caplog.at_level(logging.WARNING, "skyband.sinks"):
        wait(lambda run: run.progress.rows == len(first))
        kafka.add_partitions("uneven", 4)
        kafka.send("uneven", [(3, None, as_json(row)) for row in second])
        wait(lambda run: run.progress.rows == len([*first, *second]))
        kafka.stop()
        wait(lambda run: f"Kafka at {kafka.address} cannot be reached" in caplog.text)
        kafka.start()
        wait(lambda run: f"Kafka at {kafka.address} is there again after" in caplog.text)
        kafka.send("uneven", spread(third, 4))
        wait(lambda run: run.progress.rows == len([*first, *second, *third]))
    kafka.add_partitions("uneven", 5)
    last = rows[210:]
    kafka.send("uneven", [(2, None, as_json(row)) for row in behind])
    kafka.send("uneven", [*spread(last, 5), (0, b"poison", b"{not json"), (4, None, None)])
    run = go(spark, drained(file))
    assert (run.progress.rows, run.progress.bad) == (len(behind) + len(last), 2)
    assert board(kafka, "uneven-board") == expected(rows)
    bad = spark.read.parquet(str(tmp_path / "bad")).collect()
    assert sorted((row.partition, row.key, row.value) for row in bad) == [
        (0, b"poison", b"{not json"),
        (4, None, None),
    ]


@pytest.mark.parametrize("emit", ["changes", "updates"])
def test_other_reports(spark: SparkSession, tmp_path: Path, kafka: KafkaServer, emit: str) -> None:
    topic = f"reported-{emit}"
    kafka.make_topic(topic, 2)
    kafka.make_topic(f"{topic}-board", 2)
    rows = trades(2, 90)
    kafka.send(topic, spread(rows, 2))
    options = {"kafka.bootstrap.servers": kafka.address, "subscribe": topic}
    source = {"format": "kafka", "json": FIELDS, "options": {**options, "maxOffsetsPerTrigger": 50}}
    query = {**QUERY, "emit": emit, "delay": "20 seconds"}
    file = write_job(tmp_path, kafka, topic, source=source, query=query, drain=True)
    assert go(spark, file).progress.rows == len(rows)
    if emit == "updates":
        assert board(kafka, f"{topic}-board") == expected(rows)
        headers = [dict(message.headers()) for message in kafka.read(f"{topic}-board")]
        assert {header["final"] for header in headers} == {b"true", b"false"}
        assert min(int(header["revision"]) for header in headers) == 1
        return
    frame = spark.createDataFrame([{**row, "ts": moment(row["ts"])} for row in rows])
    changes = top_k(frame, **query).collect()
    messages = kafka.read(f"{topic}-board")
    assert len({message.key() for message in messages}) == len(messages) == len(changes)
    values = [json.loads(message.value()) for message in messages]
    assert sorted(
        (value["window"]["end"], value["id"], value.get("rank", 0), value.get("previous_rank", 0))
        for value in values
    ) == sorted(
        (
            row.window.end.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            *(row.id, row["rank"] or 0, row.previous_rank or 0),
        )
        for row in changes
    )


def test_a_batch_of_avro_and_what_a_record_has_beside(
    spark: SparkSession, tmp_path: Path, kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its example has it. Timestamp, key, partition and offset of a record are columns, too."""
    from pyspark.sql.avro.functions import to_avro

    for topic in ("avro", "avro-board"):
        kafka.make_topic(topic, 1)
    rows = trades(3, 60)
    frame = spark.createDataFrame([{**row, "ts": moment(row["ts"])} for row in rows])
    record = F.struct("ts", "id", "sector", "price")
    schema = Path(shutil.copy(JOBS / "trade.avsc", tmp_path)).read_text()
    values = frame.orderBy("id").select(to_avro(record, schema).alias("value")).collect()
    kafka.send("avro", [(0, b"one", bytes(row.value)) for row in values])
    kafka.send("avro", [(0, None, b"\x01\x02"), (0, None, b""), (0, None, None)])
    monkeypatch.setenv("KAFKA", kafka.address)
    text = (JOBS / "kafka-avro.yaml").read_text()
    example = tmp_path / "kafka-avro.yaml"
    example.write_text(text.replace(": trades\n", ": avro\n").replace(": leaders", ": avro-board"))
    run = go(spark, example)
    assert (run.progress.rows, run.progress.bad) == (60, 3)
    assert board(kafka, "avro-board") == expected(rows)
    bad = spark.read.parquet(str(tmp_path / "out/bad-avro")).orderBy("offset").collect()
    assert [(row.offset, row.value) for row in bad] == [(60, b"\x01\x02"), (61, b""), (62, None)]
    options = {"kafka.bootstrap.servers": kafka.address, "subscribe": "avro"}
    source = {"format": "kafka", "avro": "trade.avsc", "options": options}
    batch = {"source": source, "trigger": "batch", "checkpoint": None}
    query = {"k": 2, "by": "offset", "time": "timestamp", "window": "999 days"}
    query["keep"] = ["key", "partition", "topic", "id"]
    sink = {"format": "json", "path": "of-records"}
    go(spark, write_job(tmp_path, kafka, "avro", **batch, query=query, sink=sink))
    out = spark.read.json(str(tmp_path / "of-records")).orderBy("rank").collect()
    assert [(row.score, row.key, row.partition, row.topic, row.id) for row in out] == [
        (59, "one", 0, "avro", 59),
        (58, "one", 0, "avro", 58),
    ]


def test_a_writer_of_batches(spark: SparkSession, tmp_path: Path, kafka: KafkaServer) -> None:
    """A batch that comes again has the same keys, whatever the zone of the session."""
    kafka.make_topic("written", 1)
    rows = trades(6, 60)
    frame = spark.createDataFrame([{**row, "ts": moment(row["ts"])} for row in rows])
    frame.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "in"))
    leaders = top_k(stream, **QUERY, drain=str(tmp_path / "marks"))
    write = to_kafka(leaders, kafka.address, "written")
    drain(spark, str(tmp_path / "marks"))

    def write_twice(batch: DataFrame, number: int) -> None:
        batch.persist()
        write(batch, number)
        batch.sparkSession.conf.set(ZONE, "Asia/Tokyo")
        write(batch, number)
        batch.sparkSession.conf.set(ZONE, "UTC")
        batch.unpersist()

    writer = leaders.writeStream.foreachBatch(write_twice).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.awaitTermination()
    assert len(kafka.read("written")) == 2 * len(expected(rows))
    assert board(kafka, "written") == expected(rows)


def test_a_broker_that_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    """No minutes of attempts, no trace."""
    nobody = KafkaServer(tmp_path)
    began = time.monotonic()
    with pytest.raises(DataError) as error:
        go(spark, write_job(tmp_path, nobody, "t"))
    assert str(error.value) == (
        f"Kafka cannot be reached at {nobody.address}: Connection refused; "
        "expected a broker that listens at one of the addresses in "
        "source.options.kafka.bootstrap.servers; fix: start it, or mend the address"
    )
    assert time.monotonic() - began < LONG
    options = {"kafka.bootstrap.servers": "nonsense", "subscribe": "t"}
    source = {"format": "kafka", "json": FIELDS, "options": options}
    file = write_job(tmp_path, nobody, "t", source=source)
    with pytest.raises(SkybandError, match="'nonsense' is not host:port"):
        go(spark, file)


def test_a_broker_that_goes_while_a_batch_is_written(
    spark: SparkSession, tmp_path: Path, kafka: KafkaServer
) -> None:
    """One line, and the next run writes what is missing."""
    kafka.make_topic("lost-board", 2)
    rows = trades(8, 60)
    frame = spark.createDataFrame([{**row, "ts": moment(row["ts"])} for row in rows])
    frame.write.parquet(str(tmp_path / "in"))

    def written(**hasty: str) -> Path:
        options = {"kafka.bootstrap.servers": kafka.address, "topic": "lost-board", **hasty}
        return write_job(
            tmp_path,
            kafka,
            "lost",
            source={"format": "parquet", "path": "in"},
            sink={"format": "kafka", "options": options},
            session={"shuffle_partitions": 1},
            drain=True,
        )

    hasty = {"delivery.timeout.ms": "300", "request.timeout.ms": "200", "max.block.ms": "300"}
    file = written(**{f"kafka.{name}": value for name, value in hasty.items()})
    with Run(spark, load(file)) as run:
        run.prepare()
        kafka.stop()
        with pytest.raises(SkybandError) as error:
            run.go(threading.Event(), lambda: None)
    assert str(error.value) == (
        f"the query stopped: Kafka cannot be reached at {kafka.address}: Connection refused; "
        "expected a broker that answers; fix: start it and run again: the stream goes on where it "
        "was"
    )
    kafka.start()
    go(spark, written())
    assert board(kafka, "lost-board") == expected(rows)


def test_a_topic_that_is_not_there(spark: SparkSession, tmp_path: Path, kafka: KafkaServer) -> None:
    with pytest.raises(DataError, match="a topic of Kafka is not there"):
        go(spark, write_job(tmp_path, kafka, "nowhere", trigger="batch", checkpoint=None))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node",
            "reached",
        ),
        ("TimeoutException: Topic t not present in metadata after 60000 ms.", "not there: t"),
        ("Some data may have been lost because they are not available in Kafka", "has deleted"),
        ("[AVRO_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE] Cannot call from_avro", "connector for Avro"),
    ],
)
def test_what_kafka_says_is_reworded(words: str, problem: str) -> None:
    assert problem in str(failures.reworded(RuntimeError(words), None))


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ({"options": {"subscribe": "t"}}, r"kafka.bootstrap.servers is missing"),
        ({"options": {"kafka.bootstrap.servers": "h:1"}}, "source.options has no topic"),
        (
            {"options": {"kafka.bootstrap.servers": "h:1", "assign": "a", "subscribe": "t"}},
            "has subscribe and assign",
        ),
        ({"avro": "trade.avsc", "options": {}}, "both source.json and source.avro"),
    ],
)
def test_what_a_job_file_is_refused_for(
    tmp_path: Path, source: dict[str, Any], problem: str
) -> None:
    source = {"format": "kafka", "json": FIELDS, **source}
    with pytest.raises(QueryError, match=problem):
        load(write_job(tmp_path, KafkaServer(tmp_path), "t", source=source))


def test_a_record_is_parsed_once(spark: SparkSession, tmp_path: Path) -> None:
    """For its fields and for whether it is bad: parsing is most of the work."""
    (tmp_path / "in.txt").write_text("\n".join(as_json(row).decode() for row in trades(3, 5)))
    content = {
        "source": {"format": "text", "path": "in.txt", "json": FIELDS},
        "query": QUERY,
        "sink": {"format": "parquet", "path": "out"},
        "trigger": "batch",
    }
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(content))
    with Run(spark, load(file)) as run:
        run.prepare()
        plan = run.leaders._jdf.queryExecution().optimizedPlan().toString()
    parsing = [line for line in plan.splitlines() if "from_json" in line]
    assert len(parsing) == 1, plan
    assert "Project [from_json" in parsing[0]


def test_connectors_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"spark.jars": "x.jar", "spark.jars.packages": "x:y:1"}
    added = connectors.settings({"kafka": "auto", "avro": "a:b:1"}, given)
    assert added["spark.jars"].startswith("x.jar,/")
    assert added["spark.jars"].count("kafka") >= 3
    assert added["spark.jars.packages"] == "x:y:1,a:b:1"
    with pytest.raises(QueryError, match="connect names 'pulsar'"):
        connectors.check({"pulsar": "auto"})
    with pytest.raises(QueryError, match="expected auto, or a coordinate"):
        connectors.check({"kafka": "4.2"})
    file = write_job(tmp_path, KafkaServer(tmp_path), "t", connect={"kafka": "auto"})
    with pytest.raises(QueryError, match="over Spark Connect"):
        load(file, master=f"sc://127.0.0.1:{free_port()}")
    monkeypatch.setattr(connectors.pyspark, "__version__", "9.0.0")
    with pytest.raises(QueryError, match=r"known for Spark 9.0.0; expected Spark 4.2 or 4.3"):
        connectors.check({"kafka": "auto"})


def test_the_example(
    spark: SparkSession, tmp_path: Path, kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it stands in the documentation, but for the names of its topics."""
    monkeypatch.setenv("KAFKA", kafka.address)
    file = JOBS / "kafka.yaml"
    text = file.read_text().replace(": trades\n", ": example\n").replace(": leaders", ": shown")
    (tmp_path / file.name).write_text(text)
    kafka.make_topic("example", 3)
    kafka.make_topic("shown", 1, cleanup_policy="compact")
    made = trades(4, 200)
    first = min(row["ts"] for row in made)
    times = [moment(first + 20 * (row["ts"] - first)) for row in made]  # over more than an hour
    rows = [
        {**row, "ts": at.isoformat(), "symbol": f"S{row['id']}", "volume": 2}
        for row, at in zip(made, times, strict=True)
    ]
    kafka.send("example", [(row["id"] % 3, None, json.dumps(row).encode()) for row in rows])
    with Run(spark, load(tmp_path / file.name).once()) as run:
        run.prepare()
        run.go(threading.Event(), lambda: None)
    values = [json.loads(message.value()) for message in kafka.read("shown")]
    assert {value.get("sector") for value in values} == {"a", "b", None}
    assert {value["rank"] for value in values} == {1, 2, 3}
    assert run.progress.rows == len(rows)
