"""Variables of the environment in job files, and that nobody gets to see their values."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from skyband import QueryError, ServerDownError
from skyband.serve.of_job import job_page
from skyband.spark.jobs import run as runs
from skyband.spark.jobs.file import load
from skyband.spark.jobs.run import Run, explained, job_lines
from skyband.spark.jobs.variables import masked, redaction
from tests import servers
from tests.command_line import Runner
from tests.conftest import INTERPRETED_PLANS
from tests.signalled import command
from tests.spark import samples

SECRET = "hunter2-hunter2"


def job(home: Path, **parts: Any) -> Path:
    samples.write(home / "in", [samples.rows(1, 10)])
    content = {
        "source": {"format": "parquet", "path": "in"},
        "query": {"k": 1, "by": "price", "window": "1 minute", "time": "ts"},
        "sink": {"format": "parquet", "path": "out"},
        "trigger": "batch",
        **parts,
    }
    file = home / "job.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def test_values_are_filled_in_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "here")
    sinks = [{"format": "parquet", "path": "${PLACE}/$${PLACE}"}, {"format": "console"}]
    loaded = load(job(tmp_path, name="of ${PLACE}", sink=None, sinks=sinks))
    assert loaded.name == "of here"
    assert loaded.sinks[0].path == "here/${PLACE}"


def test_a_name_is_masked_where_others_see_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the page, and as the name of an application, which a cluster shows."""
    monkeypatch.setenv("SECRET", SECRET)
    loaded = load(job(tmp_path, name="of ${SECRET}"))
    with job_page(loaded, "0") as page:
        assert page is not None
        assert page.feed.title == "of ${SECRET}"
    apps: list[str] = []
    monkeypatch.setattr(runs, "session", lambda *_, app, **others: apps.append(app))
    runs._session(loaded)
    assert apps == ["skyband of ${SECRET}"]


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"name": "${NOT_SET}"}, r"line \d+: name needs the variable NOT_SET, which is not set"),
        ({"name": "${not a name}"}, r"name has \$\{not a name\}"),
        ({"query": {"by": "${SECRET}"}}, "query.by has a variable"),
        ({"sinks": [{"name": "${SECRET}"}]}, r"sinks\[0\].name has a variable"),
        ({"trigger": "${SECRET}"}, r"trigger is '\$\{SECRET\}'"),
        ({"trigger": "${LONG}"}, r"trigger is '\$\{LONG\}'"),
        ({"sink": {"format": "${SECRET}", "file_format": "x"}}, r"given for \$\{SECRET\}"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: dict[str, Any], problem: str
) -> None:
    monkeypatch.setenv("SECRET", SECRET)
    monkeypatch.setenv("LONG", 5 * SECRET)
    monkeypatch.delenv("NOT_SET", raising=False)
    with pytest.raises(QueryError, match=problem) as caught:
        load(job(tmp_path, **parts))
    assert SECRET not in str(caught.value)


def test_nobody_sees_a_secret(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", SECRET)
    monkeypatch.setenv("URL", f"postgresql://me:{SECRET}@127.0.0.1:{servers.free_port()}/x")
    loaded = load(job(tmp_path, sink={"format": "parquet", "path": "${SECRET}/out"}))
    lines = job_lines(loaded, explained(spark, loaded).plan)
    assert any("${SECRET}/out" in line for _, line in lines)
    assert SECRET not in str(lines)
    options = {"url": "${URL}", "table": "board", "patience": "0 s"}
    failing = load(job(tmp_path, sink={"format": "postgres", "options": options}))
    failure = pytest.raises(ServerDownError, match="cannot be reached")
    with Run(spark, failing) as run, failure as caught:
        run.prepare()
    assert SECRET not in str(caught.value)


def test_values_are_masked_however_they_are_written() -> None:
    values = {"A": 'it\'s \\ "odd" & é', "URL": "redis://me:p%40ss@host/0", "NO": "ab"}
    shown = masked('it\'s \\ "odd" & é; %27%20; it%27s+%5C+%22odd%22+%26+%C3%A9; ab', values)
    assert shown == "${A}; %27%20; ${A}; ab"
    assert masked(f"{values['A']!r} {json.dumps(values['A'])}", values) == "'${A}' \"${A}\""
    assert masked("to redis://me:p%40ss@host/0 as p@ss or p%40ss", values) == (
        "to ${URL} as *** or ***"
    )


def test_spark_redacts_what_holds_variables() -> None:
    settings = {"spark.my.setting": f"a {SECRET}", "spark.other": "b"}
    options = {"kafka.sasl.x": SECRET, "maxFilesPerTrigger": "3"}
    made = redaction(settings, options, {"SECRET": SECRET})
    assert re.search(made["spark.redaction.regex"], "spark.my.setting")
    assert re.search(made["spark.redaction.regex"], "spark.some.password")
    assert not re.search(made["spark.redaction.regex"], "spark.other")
    assert re.search(made["spark.sql.redaction.options.regex"], "kafka.sasl.x")
    assert not re.search(made["spark.sql.redaction.options.regex"], "maxFilesPerTrigger")


def leaks(folder: Path) -> list[Path]:
    """The files that hold the secret."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if SECRET.encode() in path.read_bytes()]


@pytest.mark.spark
@pytest.mark.cli
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_process_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its command lines, nor what it prints, nor what it leaves when it fails."""
    monkeypatch.setenv("SECRET", SECRET)
    settings = {"spark.jars": "/nowhere/${SECRET}.jar", "spark.my.setting": "${SECRET}"}
    file = job(
        tmp_path,
        name="of ${SECRET}",
        source={"format": "parquet", "path": "in", "options": {"note": "${SECRET}"}},
        query={"k": 1, "by": "price / (id * 0)", "window": "1 minute", "time": "ts"},
        sink={"format": "parquet", "path": "out", "options": {"note": "${SECRET}"}},
        session={"master": "local[2]", "memory": "1g", "settings": settings | INTERPRETED_PLANS},
        trigger="available_now",
        checkpoint="checkpoint",
    )
    with command(tmp_path, "run", file) as running:
        lines: set[str] = set()
        while running.process.poll() is None:
            lines |= set(running.others().values())
        assert running.process.wait() == 2
    assert any("SparkSubmit" in line for line in lines)
    assert not any(SECRET in line for line in lines)
    assert "the score divides by zero" in running.err
    assert SECRET not in running.err + running.out
    (log,) = running.temporary.glob("skyband-spark-*.log")
    assert "/nowhere/${SECRET}.jar" in log.read_text()
    assert leaks(tmp_path) == []


def test_paths_are_shown_by_the_names_of_variables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Spark's own files name the files that it has read and written; ours do not."""
    monkeypatch.setenv("SECRET", SECRET)
    (tmp_path / SECRET).mkdir()
    samples.write(tmp_path / SECRET / "in", [samples.rows(1, 10)])
    options = {"maxFilesPerTrigger": 1}
    file = job(
        tmp_path,
        name="${SECRET}",
        source={"format": "parquet", "path": "${SECRET}/in", "options": options},
        sinks=[
            {"name": "one", "format": "parquet", "path": "${SECRET}/out"},
            {"name": "two", "format": "parquet", "path": "${SECRET}/more"},
        ],
        sink=None,
        trigger="available_now",
        drain=True,
        checkpoint="${SECRET}/checkpoint",
    )
    run = Runner(capsys, monkeypatch)
    names: list[str] = []
    name_query = DataStreamWriter.queryName

    def note_name(writer: DataStreamWriter, name: str) -> DataStreamWriter:
        names.append(name)
        return name_query(writer, name)

    monkeypatch.setattr(DataStreamWriter, "queryName", note_name)
    ran = [run("explain", file, "--physical"), run("explain", file, "--json"), run("run", file)]
    assert [one.code for one in ran] == [0, 0, 0]
    assert "${SECRET}" in ran[0].out
    assert "${SECRET}/out" in ran[2].out
    assert not any(SECRET in one.out + one.err for one in ran)
    assert set(names) == {"${SECRET}"}
    ours = tmp_path / SECRET / "checkpoint" / "skyband"
    assert list(ours.iterdir()) != []
    assert leaks(ours) == []


def test_plain_passwords_are_noted(tmp_path: Path) -> None:
    """By the names of options, in urls and in logins of Kafka; what is no secret is not."""
    jaas = 'org.apache.kafka.X required username="me" password="{}";'
    options = {
        "other": jaas.format("plain"),
        "login": jaas.format("${HOME}"),
        "safe": "redis://me:${HOME}@host",
        "credentials.provider": "org.example.Provider",
        "ssl.key.password.file": "/run/secrets/key",
    }
    settings = {"settings": {"spark.kafka.password": "x", "spark.some.token": "${HOME}"}}
    sink = {"format": "redis", "options": {"url": "redis://me:secret@${HOME}", "board": "b"}}
    source = {"format": "parquet", "path": "in", "options": options}
    notes = load(job(tmp_path, sink=sink, session=settings, source=source)).notes
    assert [note.split(" holds ")[0] for note in notes] == [
        "session.settings.spark.kafka.password",
        "sink.options.url",
        "source.options.other",
    ]
    assert "secret" not in str(notes)
