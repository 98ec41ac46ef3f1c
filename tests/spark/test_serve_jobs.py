"""The page of a job: what it shows is what the job has ranked."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from pyspark.sql import SparkSession

from skyband import QueryError
from skyband.serve.of_job import JobPage, job_page
from skyband.spark.jobs.file import load
from skyband.spark.jobs.run import Run
from skyband.spark.watching import _cell
from tests.spark import samples
from tests.spark.samples import SECOND

QUERY = {"k": 3, "by": "price", "time": "ts", "window": "20 seconds", "slide": "5 seconds"}
QUERY |= {"id": "id", "keep": ["id", "price"], "delay": "1 hour"}


def job(home: Path, query: dict[str, Any], **parts: Any) -> Path:
    content = {
        "source": {"format": "parquet", "path": "in", "schema": samples.DDL},
        "query": query,
        "sink": {"format": "parquet", "path": "out"},
        "checkpoint": "checkpoint",
        "drain": True,
        **parts,
    }
    content["source"]["options"] = {"maxFilesPerTrigger": 1}
    (home / "in").mkdir(exist_ok=True)
    file = home / "job.yaml"
    file.write_text(yaml.safe_dump({name: part for name, part in content.items() if part}))
    return file


def shown_by(spark: SparkSession, file: Path) -> JobPage:
    """Run a job to its end with a page, and return the page."""
    loaded = load(file)
    with job_page(loaded, "0") as page, Run(spark, loaded, reports_answers=True) as run:
        assert page is not None
        run.prepare()
        page.describe(run)
        info = httpx.get(f"{page.url}api/info", trust_env=False).json()
        assert info["title"] == "job"
        assert info["explain"]
        run.go(threading.Event(), lambda: page.see(run))
        health = httpx.get(f"{page.url}api/health", trust_env=False).json()
        assert (health["state"], health["batch"]["number"]) == ("running", run.progress.last.number)
        assert health["rows"] == run.progress.rows
    assert page.feed.health()["state"] == "ended"
    return page


def boards(page: JobPage, query: str = "") -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    """All rankings of a page, by key and the end of their window."""
    history = page.feed.history
    shown = {}
    for key in history.keys(query, "", 1_000)["keys"]:
        for window in history.windows(query, key)["windows"]:
            answer = history.leaders(query, key, window["id"])
            assert answer["window"]["final"]
            rows = [(row["rank"], row["number"], row["cells"][0]) for row in answer["rows"]]
            shown[(*key, window["end"])] = rows
    return shown


def written(spark: SparkSession, home: Path, final: bool = False) -> dict[Any, Any]:
    """What the sink of a job holds, in the same layout."""
    rows: dict[Any, list[tuple[Any, ...]]] = {}
    leaders = spark.read.parquet(str(home / "out"))
    for row in (leaders.filter("final") if final else leaders).collect():
        number = None if row.score in (float("inf"), float("-inf")) else row.score
        end = f"{row.window.end:%Y-%m-%dT%H:%M:%S}.000Z"
        rows.setdefault((row.sector, end), []).append((row["rank"], number, f"{row.id:,}"))
    return {at: sorted(group, key=lambda row: row[0]) for at, group in rows.items()}


@pytest.mark.parametrize("emit", ["all", "updates"])
def test_a_page_shows_what_the_sink_gets(spark: SparkSession, tmp_path: Path, emit: str) -> None:
    rows = samples.rows(5, 60)
    samples.write(tmp_path / "in", samples.split(rows, 3, 5))
    query = {**QUERY, "partition_by": "sector", "emit": emit}
    page = shown_by(spark, job(tmp_path, query))
    answers = boards(page)
    assert answers == written(spark, tmp_path, final=emit == "updates")
    ends = {end for _, end in answers}
    expected = samples.expected(rows, 3, 20 * SECOND, 5 * SECOND, key="sector")
    assert len(ends) == len({row[1] for row in expected})


def test_changes_are_shown_as_whole_rankings(spark: SparkSession, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    for home in (tmp_path, whole):
        samples.write(home / "in", samples.split(samples.rows(5, 60), 3, 5))
    query = {**QUERY, "partition_by": "sector"}
    page = shown_by(spark, job(tmp_path, {**query, "emit": "changes"}))
    every = boards(shown_by(spark, job(whole, query)))
    for at, ranking in boards(page).items():
        assert ranking == every.get(at, [])


def test_queries_of_a_workload_can_be_chosen(spark: SparkSession, tmp_path: Path) -> None:
    samples.write(tmp_path / "in", samples.split(samples.rows(5, 60), 3, 5))
    each = "name,k,window,slide\nshort,1,5 seconds,\nlong,2,20 seconds,5 seconds\n"
    (tmp_path / "queries.csv").write_text(each)
    query = {"workload": "queries.csv", "by": "price", "time": "ts", "id": "id", "keep": ["id"]}
    page = shown_by(spark, job(tmp_path, {**query, "delay": "1 hour"}))
    names = [query["name"] for query in page.feed.info()["queries"]]
    assert sorted(names) == ["long", "short"]
    for name, k in (("short", 1), ("long", 2)):
        assert max(map(len, boards(page, name).values())) == k


def test_large_numbers_are_shown_exactly(spark: SparkSession, tmp_path: Path) -> None:
    samples.write(tmp_path / "in", [samples.rows(5, 6)])
    query = {**QUERY, "by": "cast(seq + 123456789012345.678 AS decimal(18,3))", "keep": ["seq"]}
    page = shown_by(spark, job(tmp_path, {**query, "k": 1, "id": "seq"}))
    newest = page.feed.history.leaders("", None, None)
    assert newest["rows"][0]["score"] == "123456789012350.678"


def test_keys_that_begin_alike_stay_apart(spark: SparkSession) -> None:
    long = "x" * 300
    texts = [f"{long}{end}" for end in "ab"]
    rows = spark.createDataFrame(
        [(text, text) for text in [*texts, "y" * 200]], "key string, name string"
    )
    cells = rows.select(_cell(rows, "key", 200, True), _cell(rows, "name", 200, False)).collect()
    keys, names = [row.key for row in cells], [row["name"] for row in cells]
    assert len(set(keys)) == 3
    assert all(key.startswith("x" * 191 + "…") and len(key) == 200 for key in keys[:2])
    assert names == ["x" * 199 + "…"] * 2 + ["y" * 200]
    assert keys[2] == "y" * 200


@pytest.mark.parametrize(
    ("serve", "problem"),
    [
        ("a page", r"serve is 'a page'; expected \[HOST:\]PORT"),
        ({"address": "x"}, r"serve is 'x'; expected \[HOST:\]PORT"),
    ],
)
def test_wrong_addresses_are_refused(tmp_path: Path, serve: Any, problem: str) -> None:
    loaded = load(job(tmp_path, QUERY, serve=serve))
    with pytest.raises(QueryError, match=problem), job_page(loaded, None):
        raise AssertionError("it was served")


def test_a_wrong_part_of_serve_is_named(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="serve"):
        load(job(tmp_path, QUERY, serve={"port": 80}))


def test_the_token_of_a_job_file_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGE_TOKEN", "open sesame")
    serve = {"address": "0", "token": "${PAGE_TOKEN}"}
    with job_page(load(job(tmp_path, QUERY, serve=serve)), None) as page:
        assert page is not None
        assert httpx.get(page.url, trust_env=False).status_code == 401
        bearer = {"Authorization": "Bearer open sesame"}
        url = f"{page.url}api/health"
        assert httpx.get(url, headers=bearer, trust_env=False).status_code == 200
