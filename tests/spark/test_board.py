"""The live board: what a stream reports of its leaders, shown while it runs and when it is over."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import skyband.spark
from skyband import QueryError, TopK, Workload, last
from skyband.html_tables import MOST_ROWS
from skyband.spark import board, live_board, top_k, top_k_workload, watched
from skyband.spark.derive import derived
from skyband.spark.explain import explain_lines
from skyband.spark.families.top_k import FAMILY, TopKOptions
from skyband.spark.live_board import Board
from tests.spark import samples

pytestmark = pytest.mark.spark

QUERY: dict[str, Any] = {"k": 2, "by": "price", "time": "ts", "window": "1 minute"}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three files of ordinary prices, and a key that looks like a script."""
    rows = [
        {
            "ts": samples.BASE + number * samples.SECOND,
            "seq": number,
            "id": number,
            "sector": ("<script>alert(1)</script>", "b")[number % 2],
            "price": float(number * 37 % 101),
        }
        for number in range(600)
    ]
    folder = tmp_path_factory.mktemp("board")
    return samples.write(folder / "in", [rows[at : at + 200] for at in (0, 200, 400)])


@pytest.fixture
def queries() -> Iterator[list[Any]]:
    """Streams that a test has started: they end with it."""
    started: list[Any] = []
    yield started
    for query in started:
        query.stop()


def start(leaders: DataFrame, home: Path, name: str | None = None, once: bool = True) -> Any:
    writer = leaders.writeStream.format("noop").option("checkpointLocation", str(home / "marks"))
    writer = writer if name is None else writer.queryName(name)
    return (writer.trigger(availableNow=True) if once else writer).start()


class Handle:
    """A place in a notebook's output, which remembers what was drawn there."""

    def __init__(self, bundle: dict[str, str]) -> None:
        self.bundles = [bundle]

    def update(self, bundle: dict[str, str], raw: bool) -> None:
        assert raw
        self.bundles.append(bundle)


class Notebook:
    """A shell with a kernel, as far as a board sees one."""

    kernel = True

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.execution_count = 1
        self.handles: list[Handle] = []
        monkeypatch.setattr("IPython.get_ipython", lambda: self)
        monkeypatch.setattr("IPython.display.display", self.display)

    def display(self, bundle: dict[str, str], raw: bool, display_id: bool) -> Handle:
        assert raw
        assert display_id
        self.handles.append(Handle(bundle))
        return self.handles[-1]


def test_a_board_shows_the_newest_window_when_the_query_has_ended(
    spark: SparkSession, source: str, tmp_path: Path
) -> None:
    leaders = top_k(samples.stream(spark, source), keep=["id", "sector"], **QUERY)
    query = start(watched(leaders), tmp_path, "busiest")
    query.awaitTermination()
    live = board(query)
    text = str(live)
    assert live.status == "The query has ended. This is its last board."
    assert [row["rank"] for row in live.leaders] == [1, 2]
    assert re.search(r"^busiest: 2023-11-14 22:\d\d:00 to 2023-11-14 22:\d\d:00$", text, re.M)
    assert re.search(r"^rank  score +id  sector$", text, re.M)
    expected = top_k(spark.read.parquet(source), keep=["id"], **QUERY)
    end = live.leaders[0]["window"]["end"]
    rows = expected.filter(f"window.end = timestamp'{end}'").collect()
    assert [(r["rank"], r["score"], r["id"]) for r in live.leaders] == sorted(
        (row["rank"], row.score, row.id) for row in rows
    )


def test_names_in_a_board_are_text(spark: SparkSession, source: str, tmp_path: Path) -> None:
    leaders = top_k(samples.stream(spark, source), partition_by="sector", keep=["id"], **QUERY)
    query = start(watched(leaders), tmp_path, "<b>bold</b>")
    query.awaitTermination()
    html = board(query)._repr_html_()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "&lt;b&gt;bold&lt;/b&gt;" in html
    assert "<script" not in html
    assert "<b>" not in html
    assert html.count("&lt;script&gt;") == 1  # a key stands once, before its rows


def test_a_board_of_a_workload(spark: SparkSession, source: str, tmp_path: Path) -> None:
    workload = Workload(
        {
            "fast": TopK(k=1, window=last(time="1 minute")),
            "slow": TopK(k=3, window=last(time="2 minutes", slide="1 minute")),
        },
        {"fast": "price", "slow": "price"},
    )
    leaders = top_k_workload(samples.stream(spark, source), workload, time="ts", keep=["id"])
    query = start(watched(leaders), tmp_path)
    query.awaitTermination()
    live = board(query)
    assert str(live).splitlines()[1].split() == ["query", "rank", "score", "id"]
    assert live.leaders[0]["query"] in ("fast", "slow")


def test_a_board_of_changes(spark: SparkSession, source: str, tmp_path: Path) -> None:
    rows = samples.stream(spark, source)
    leaders = top_k(rows, keep=["id"], emit="changes", **QUERY)
    query = start(watched(leaders), tmp_path)
    query.awaitTermination()
    columns = str(board(query)).splitlines()[1].split()
    assert columns == ["rank", "score", "change", "previous_rank", "id"]


def test_a_board_has_not_more_rows_than_it_says(
    spark: SparkSession, source: str, tmp_path: Path
) -> None:
    leaders = top_k(samples.stream(spark, source), keep=["id"], **{**QUERY, "k": 50})
    query = start(watched(leaders), tmp_path)
    query.awaitTermination()
    live = board(query)
    assert len(live.leaders) == MOST_ROWS
    assert f"Not more than {MOST_ROWS} rows are shown." in str(live)


def test_a_board_follows_a_stream_in_a_notebook(
    spark: SparkSession,
    source: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    queries: list[Any],
) -> None:
    notebook = Notebook(monkeypatch)
    monkeypatch.setattr(live_board, "_PAUSE", 0.01)
    leaders = top_k(samples.stream(spark, source), keep=["id"], **QUERY)
    query = start(watched(leaders), tmp_path, once=False)
    queries.append(query)
    live = board(query)
    live._ipython_display_()  # as the last line of the cell that drew it
    assert len(notebook.handles) == 1
    assert "The query is running" in notebook.handles[0].bundles[0]["text/plain"]

    query.processAllAvailable()
    assert live.look()
    assert re.fullmatch(
        r"The query is running: batch \d+, 600 rows read, [\d,]+ a second\.", live.status
    )
    notebook.execution_count = 2
    live._ipython_display_()  # in another cell
    assert len(notebook.handles) == 2
    query.stop()
    assert live._thread is not None
    live._thread.join(60)
    assert not live._thread.is_alive()
    for handle in notebook.handles:
        assert "The query has ended. This is its last board." in handle.bundles[-1]["text/html"]
        assert "<table" in handle.bundles[-1]["text/html"]
    assert not live.look()


def test_a_board_says_why_a_query_failed(
    spark: SparkSession, source: str, tmp_path: Path, queries: list[Any]
) -> None:
    rows = samples.stream(spark, source)
    by = "price / if(seq = 599, 0, 1)"
    with pytest.warns(UserWarning, match="stops the stream"):
        leaders = top_k(rows, keep=["id"], **{**QUERY, "by": by})
    query = start(watched(leaders), tmp_path)
    queries.append(query)
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        query.awaitTermination()
    live = board(query)
    text = str(live)
    assert live.leaders  # of the files before
    assert re.search(
        r"The query has failed: the query stopped: the score divides by zero.*try_divide.*"
        r"This is its last board\.",
        text,
    )


def test_a_board_of_a_stream_that_is_not_watched_says_what_to_write(
    spark: SparkSession, source: str, tmp_path: Path, queries: list[Any]
) -> None:
    leaders = top_k(samples.stream(spark, source), keep=["id"], **QUERY)
    query = start(leaders, tmp_path, once=False)
    queries.append(query)
    query.processAllAvailable()
    live = board(query)
    for words in ("The query is running.", "The query has ended."):
        assert str(live).splitlines()[1:] == [
            f"{words} It does not report its leaders: write watched(leaders).writeStream where it "
            "says leaders.writeStream."
        ]
        query.stop()


class GoneQuery:
    """A query whose Spark does not answer."""

    name = None
    recentProgress: tuple[Any, ...] = ()  # noqa: N815

    @property
    def isActive(self) -> bool:  # noqa: N802
        raise ConnectionRefusedError("<b>nobody</b> is there\nat all")


def test_a_board_outlives_spark() -> None:
    live = board(GoneQuery())  # type: ignore[arg-type]
    assert "Spark does not answer any more: <b>nobody</b> is there" in str(live)
    assert "<b>" not in live._repr_html_()
    assert not live.look()


def test_a_terminal_prints_the_board(capsys: pytest.CaptureFixture[str]) -> None:
    Board(GoneQuery())._ipython_display_()  # type: ignore[arg-type]
    assert capsys.readouterr().out.startswith("leaders\n")


def test_what_cannot_be_watched_is_refused(spark: SparkSession, source: str) -> None:
    leaders = top_k(samples.stream(spark, source), keep=["id"], **QUERY)
    with pytest.raises(QueryError, match=r"query is DataFrame.*watched\(leaders\)"):
        board(leaders)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="leaders is NoneType"):
        watched(None)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match=r"a batch.*leaders\.show\(\)"):
        watched(top_k(spark.read.parquet(source), keep=["id"], **QUERY))
    with pytest.raises(QueryError, match="a DataFrame of ts"):
        watched(samples.stream(spark, source))
    with pytest.raises(QueryError, match="without the column 'score'"):
        watched(leaders.drop("score"))


def test_a_plan_is_a_table(spark: SparkSession, source: str) -> None:
    options = TopKOptions(**QUERY, where="sector <> '<b>'")
    rows, options = derived(spark.read.parquet(source), options)
    plan = FAMILY.resolve(rows, options)
    html = plan._repr_html_()
    assert "only those for which sector &lt;&gt; &#x27;&lt;b&gt;&#x27;" in html
    assert html.count("<tr>") == len(explain_lines(plan))


def test_the_names_are_public() -> None:
    assert {"board", "watched"} <= set(skyband.spark.__all__)
    assert skyband.spark.__all__ == sorted(skyband.spark.__all__)
