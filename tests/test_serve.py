"""The data of a live page: windows that are remembered, answers to requests, and who gets them."""

from __future__ import annotations

import itertools
import json
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

import skyband
from skyband import QueryError
from skyband.serve import app, metrics
from skyband.serve.address import Address
from skyband.serve.app import Answers, page
from skyband.serve.feed import Feed, ServedQuery
from skyband.serve.history import History, Layout
from skyband.serve.openapi import DOCUMENT
from skyband.serve.server import PageServer
from skyband.spark.jobs.progress import Batch, Progress

LAYOUT = Layout(keys=("sector",), columns=("symbol", "price"), names=("symbol",))
WIDE = Layout(keys=("sector",), columns=("symbol", "note"))
EVENT = DOCUMENT["components"]["schemas"]["Event"]
ROOT = Path(__file__).parents[1]
FIRST = datetime(2026, 1, 5, 9, tzinfo=UTC)


def moment(window: int) -> str:
    return f"{FIRST + timedelta(minutes=window):%Y-%m-%dT%H:%M:%S.000Z}"


def rows(window: int, sector: str | None, symbols: str, **more: Any) -> list[dict[str, Any]]:
    """A ranking of symbols, letter by letter."""
    return [
        {
            "window": {"start": moment(window - 10), "end": moment(window)},
            "sector": sector,
            "rank": rank,
            "score": 100.0 - rank,
            "symbol": symbol,
            "price": 12.5,
            **more,
        }
        for rank, symbol in enumerate(symbols, 1)
    ]


def moves(answer: dict[str, Any]) -> list[tuple[str, str | None, int | None]]:
    return [(row["id"], row["change"], row["previous_rank"]) for row in answer["rows"]]


def test_a_board_tells_what_moved_since_the_window_before() -> None:
    history = History()
    history.add(rows(0, "Energy", "ABC"), LAYOUT)
    assert moves(history.leaders("", ["Energy"], None)) == [
        ("A", None, None),
        ("B", None, None),
        ("C", None, None),
    ]
    history.add(rows(1, "Energy", "ACD"), LAYOUT)
    answer = history.leaders("", ["Energy"], None)
    assert moves(answer) == [("A", "same", 1), ("C", "moved", 3), ("D", "entered", None)]
    assert [(row["id"], row["previous_rank"]) for row in answer["left"]] == [("B", 2)]
    assert answer["newest"]
    earlier = history.leaders("", ["Energy"], moment(0))
    assert [row["id"] for row in earlier["rows"]] == ["A", "B", "C"]
    assert not earlier["newest"]
    for key, window in (("Energy", "never"), ("Gold", None)):
        nothing = history.leaders("", [key], window)
        assert (nothing["window"], nothing["rows"], nothing["rankings"]) == (None, [], 1)


def test_revisions_replace_each_other_until_the_final_one() -> None:
    history = History()
    history.add(rows(0, None, "AB", revision=1, final=False), LAYOUT)
    history.add(rows(0, None, "BAC", revision=2, final=False), LAYOUT)
    answer = history.leaders("", [None], None)
    assert [row["id"] for row in answer["rows"]] == ["B", "A", "C"]
    assert (answer["window"]["final"], answer["window"]["revision"]) == (False, 2)
    history.add(rows(0, None, "BA", revision=3, final=True), LAYOUT)
    history.add(rows(0, None, "X", revision=2, final=False), LAYOUT)  # comes again, too late
    answer = history.leaders("", [None], None)
    assert [row["id"] for row in answer["rows"]] == ["B", "A"]
    assert answer["window"]["final"]


def test_an_open_window_that_ranks_nothing_any_more_is_empty() -> None:
    history = History()
    history.add(rows(0, None, "AB", revision=1, final=False), LAYOUT)
    (gone, *_) = rows(0, None, "A", revision=2, final=False)
    history.add([{**gone, "rank": None, "symbol": None, "score": None}], LAYOUT)
    assert history.leaders("", [None], None)["rows"] == []


def test_changes_are_put_together() -> None:
    layout = Layout(keys=("sector",), columns=("symbol",), names=("symbol",), emit="changes")
    history = History()
    history.add(rows(0, "a", "ABC", change="entered", previous_rank=None), layout)
    entered, moved, left = rows(1, "a", "DAC")
    changes = [
        {**entered, "change": "entered", "previous_rank": None},
        {**moved, "change": "moved", "previous_rank": 1},
        {**left, "change": "left", "rank": None, "previous_rank": 3},
    ]
    history.add([*changes, {**rows(1, "a", "xxB")[2], "previous_rank": 2}], layout)
    answer = history.leaders("", ["a"], None)
    assert [(row["id"], row["rank"]) for row in answer["rows"]] == [("D", 1), ("A", 2), ("B", 3)]


def identical(window: int, count: int) -> list[dict[str, Any]]:
    """A ranking of rows that nothing but their scores tells apart."""
    return [{**row, "symbol": "A"} for row in rows(window, "a", "A" * count)]


def test_rows_of_the_same_name_are_told_apart() -> None:
    history = History()
    layout = Layout(keys=("sector",), columns=("symbol",))
    history.add(identical(0, 3), layout)
    history.add(identical(1, 2), layout)
    answer = history.leaders("", ["a"], None)
    assert [(row["change"], row["previous_rank"]) for row in answer["rows"]] == [
        ("same", 1),
        ("same", 2),
    ]
    assert [row["previous_rank"] for row in answer["left"]] == [3]
    assert len({row["id"] for row in history.leaders("", ["a"], moment(0))["rows"]}) == 3
    ways = history.windows("", ["a"])["leaders"]
    assert [leader["ranks"] for leader in ways] == [[1, 1], [2, 2], [3, None]]


def test_changes_of_rows_of_the_same_name_lose_none() -> None:
    history = History()
    layout = Layout(keys=("sector",), columns=("symbol",), emit="changes")
    entered = [{**row, "change": "entered", "previous_rank": None} for row in identical(0, 3)]
    history.add(entered, layout)
    assert len(history.leaders("", ["a"], None)["rows"]) == 3
    first, second, third = identical(1, 3)
    changes = [
        {**third, "change": "left", "rank": None, "previous_rank": 3},
        {**first, "change": "entered", "previous_rank": None},
        {**second, "change": "moved", "previous_rank": 1},
        {**third, "change": "moved", "previous_rank": 2},
    ]
    history.add(changes, layout)
    assert [row["rank"] for row in history.leaders("", ["a"], None)["rows"]] == [1, 2, 3]


CHANGES = Layout(keys=("sector",), columns=("symbol",), names=("symbol",), emit="changes", k=3)


def change(window: int, symbol: str, rank: int | None, previous: int | None) -> dict[str, Any]:
    (row,) = rows(window, "a", symbol)
    return {**row, "rank": rank, "previous_rank": previous}


def test_changes_that_went_before_are_missing_until_all_rows_are_known() -> None:
    feed = Feed("trades")
    query = ServedQuery("top 3", CHANGES)

    def take(number: int, *answers: dict[str, Any]) -> tuple[bool, list[str]]:
        feed.take(Batch(number, ranked=len(answers), answers=answers), query)
        board = feed.history.leaders("", ["a"], None)
        return board["window"]["complete"], [row["id"] for row in board["rows"]]

    # the job goes on from a checkpoint: who has not moved since is not known
    assert take(7, change(0, "A", 1, 2), change(0, "B", 2, 1)) == (False, ["A", "B"])
    assert take(8, change(1, "C", 3, None)) == (True, ["A", "B", "C"])
    assert take(9, change(2, "B", 1, 2), change(2, "A", 2, 1)) == (True, ["B", "A", "C"])
    # a batch is missed, in which C may have left: D has its rank now, so it has
    assert take(11, change(3, "D", 3, None)) == (True, ["B", "A", "D"])
    # another is missed, in which A left and E came
    assert take(13, change(4, "B", 3, 2)) == (False, ["A", "B"])
    assert take(14, change(5, "E", 1, None), change(5, "F", 2, 1)) == (True, ["E", "F", "B"])


def test_changes_from_the_first_batch_on_are_complete() -> None:
    feed = Feed("trades")
    feed.take(Batch(0), ServedQuery("top 3", CHANGES))
    answers = (change(0, "A", 1, None),)
    feed.take(Batch(1, ranked=1, answers=answers), ServedQuery("top 3", CHANGES))
    assert feed.history.leaders("", ["a"], None)["window"]["complete"]


def test_a_large_ranking_is_given_in_part() -> None:
    history = History()
    layout = Layout(keys=("sector",), columns=("note",))
    many = [{**row, "note": f"row {row['rank']}"} for row in rows(0, "a", "x" * 700)]
    history.add(many, layout)
    history.add(rows(1, "a", "B"), layout)
    answer = history.leaders("", ["a"], moment(0))
    assert (answer["total"], len(answer["rows"])) == (700, 500)
    answer = history.leaders("", ["a"], None)
    assert (answer["total"], answer["left_total"], len(answer["left"])) == (1, 700, 500)
    assert len(history.leaders("", ["a"], moment(0), limit=1_000)["rows"]) == 700


def test_leaders_are_those_of_the_windows_looked_at() -> None:
    history = History()
    for window in range(100):  # rows are new in each window
        ranking = rows(window, "a", "ABC")
        history.add([{**row, "symbol": f"{row['symbol']}{window}"} for row in ranking], LAYOUT)
    past = history.windows("", ["a"], moment(20))
    ids = {leader["id"] for leader in past["leaders"]}
    assert {"A20", "B20", "C20"} <= ids
    assert all(0 <= int(name[1:]) < 41 for name in ids)
    (leader,) = (each for each in past["leaders"] if each["id"] == "A20")
    assert [at for at, rank in enumerate(leader["ranks"]) if rank is not None] == [20]
    newest = history.windows("", ["a"])
    assert {"A99", "B99", "C99"} <= {leader["id"] for leader in newest["leaders"]}
    assert [window["best"] for window in newest["windows"]] == [99.0] * 100


def test_what_is_remembered_to_forget_is_bounded_as_well() -> None:
    history = History(windows=5)
    for window in range(1_000):
        history.add(rows(window, "a", "AB"), LAYOUT)
    assert len(history) == 5
    small = History(rows=20)
    for window in (3, 1, 2, 0, *range(4, 50)):  # some out of order
        small.add(rows(window, "a", "AB"), LAYOUT)
        assert len(small) == len(small.windows("", ["a"])["windows"]) <= 10
    assert [w["id"] for w in small.windows("", ["a"])["windows"]][-1] == moment(49)
    empty = History(rows=20)
    for window in range(100):  # windows without rows take room as well
        (row,) = rows(0, f"key {window}", "A", revision=1, final=False)
        empty.add([{**row, "rank": None}], LAYOUT)
    assert len(empty) <= 20


def test_memory_is_bounded() -> None:
    history = History(windows=5, rows=100)
    for window in range(200):
        history.add(rows(window, "a", "ABCDEFG") + rows(window, "b", "AB"), LAYOUT)
        stored = [w for key in "ab" for w in history.windows("", [key])["windows"]]
        assert len(stored) <= 10
    assert [w["id"] for w in history.windows("", ["a"])["windows"]] == [
        moment(window) for window in range(195, 200)
    ]
    large = History(windows=1_000, rows=100)
    for window in range(200):
        large.add(rows(window, f"key {window}", "ABCDEFG"), LAYOUT)
    assert large.keys("", "", 1_000)["total"] == 14
    assert "100 rows" in large.words


def test_windows_that_come_out_of_order_stand_in_order() -> None:
    order = list(range(30))
    random.Random(3).shuffle(order)
    history = History()
    for window in order:
        history.add(rows(window, "a", "AB"), LAYOUT)
    ids = [window["id"] for window in history.windows("", ["a"])["windows"]]
    assert ids == [moment(window) for window in range(30)]


def test_the_way_of_leaders_is_told_window_by_window() -> None:
    history = History()
    for window, symbols in enumerate(["AB", "BA", "BC"]):
        history.add(rows(window, "a", symbols), LAYOUT)
    leaders = {leader["id"]: leader for leader in history.windows("", ["a"])["leaders"]}
    assert leaders["A"]["ranks"] == [1, 2, None]
    assert leaders["B"]["ranks"] == [2, 1, 1]
    assert leaders["C"]["scores"] == [None, None, 98.0]


def test_leaders_are_called_by_their_first_column() -> None:
    history = History()
    layout = Layout(columns=("symbol", "price"), names=("price", "symbol"))
    history.add(rows(0, None, "AB"), layout)
    leaders = history.windows("", None)["leaders"]
    assert [(leader["id"], leader["label"]) for leader in leaders] == [
        ("12.5 · A", "A"),
        ("12.5 · B", "B"),
    ]


def test_keys_are_searched_whatever_their_case() -> None:
    history = History()
    for sector in [*(f"Sector {n:05}" for n in range(10_000)), None]:
        history.add(rows(0, sector, "A"), LAYOUT)
    answer = history.keys("", "SECTOR 0000", 3)
    assert answer == {
        "total": 10_001,
        "matching": 10,
        "keys": [["Sector 00000"], ["Sector 00001"], ["Sector 00002"]],
    }
    assert history.leaders("", None, None)["key"] == ["Sector 00000"]


def test_queries_of_a_workload_are_apart() -> None:
    layout = Layout(queries=("query",), columns=("symbol",))
    history = History()
    history.add(rows(0, None, "AB", query="short") + rows(0, None, "C", query="long"), layout)
    assert [row["id"] for row in history.leaders("long", None, None)["rows"]] == ["C"]
    assert [row["id"] for row in history.leaders("short", [], None)["rows"]] == ["A", "B"]


def progress(*batches: Batch) -> Progress:
    whole = Progress()
    for batch in batches:
        whole.add(batch)
    return whole


def test_health_adds_up_what_streams_report() -> None:
    feed = Feed("trades")
    assert feed.health()["state"] == "starting"
    feed.describe([ServedQuery("top 3", LAYOUT)], "top-k", [("panes", "1 minute")], ["a note"])
    assert feed.health()["state"] == "waiting"
    batch = Batch(3, rows=1_000, seconds=2.0, late=1, no_time=2, null_score=3, watermark=FIRST)
    feed.see(progress(batch), clock=FIRST + timedelta(seconds=90))
    health = feed.health()
    assert health["state"] == "running"
    assert health["rows_per_second"] == 500
    assert (health["lag_seconds"], health["watermark"]) == (90.0, "2026-01-05T09:00:00Z")
    assert health["batch"] == {"number": 3, "seconds": 2.0}
    assert health["set_aside"] == {"no_time": 2, "future": 0}
    assert health["notes"] == ["a note"]
    feed.see(progress(batch), name="other", clock=FIRST)
    assert feed.health()["rows"] == 2_000
    feed.end("Spark is gone", failed=True)
    assert feed.health()["lag_seconds"] == 0  # by the stream's own clock, to the end
    feed.see(progress(batch, Batch(4)))
    assert (feed.health()["state"], feed.health()["batches"]) == ("failed", 2)
    assert (feed.health()["state"], feed.health()["message"]) == ("failed", "Spark is gone")


def test_an_idle_stream_has_no_speed() -> None:
    clock = [FIRST]
    feed = Feed("trades", now=lambda: clock[0])
    batch = Batch(0, rows=1_000, seconds=2.0)
    stream = progress(batch)
    feed.see(stream)
    assert feed.health()["rows_per_second"] == 500
    clock[0] += timedelta(seconds=5)  # the next batch is under way
    assert feed.health()["rows_per_second"] == 500
    clock[0] += timedelta(seconds=100)
    assert feed.health()["rows_per_second"] == 10
    stream.add(Batch(1, seconds=1.0))
    feed.see(stream)  # reads nothing: the time goes on
    assert feed.health()["rows_per_second"] == 10
    clock[0] += timedelta(days=1)
    assert feed.health()["rows_per_second"] < 0.1
    feed.end("The job has ended.")
    assert feed.health()["rows_per_second"] == 0


@pytest.mark.parametrize(("windows", "words"), [("sequence", "row 4,500"), ("tick", "4,500")])
def test_numbers_are_no_moments(windows: str, words: str) -> None:
    feed = Feed("trades")
    feed.describe([ServedQuery("top 3", LAYOUT)], "top-k", windows=windows)
    reached = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=4_500)
    feed.see(progress(Batch(0, rows=1, watermark=reached)))
    health = feed.health()
    assert (health["watermark"], health["lag_seconds"]) == (words, None)
    assert b"skyband_lag_seconds" not in metrics.exposition(feed)


def sink(waiting: int = 0, error: str = "", delivered: int | None = None) -> dict[str, Any]:
    return {"name": "kafka:boards", "waiting": waiting, "delivered": delivered, "error": error}


def test_sinks_are_shown_between_batches() -> None:
    feed = Feed("trades")
    feed.describe([ServedQuery("top 3", LAYOUT)], "top-k")
    stream = progress(Batch(0, rows=1))
    versions = []
    for state in (sink(1), sink(1), sink(1, "refused"), sink(0, "", 0), sink(0, "", 0)):
        feed.see(stream, sinks=[state])
        versions.append(feed.version)
        assert feed.health()["sinks"] == [state]
    assert [after - before for before, after in itertools.pairwise(versions)] == [0, 1, 1, 0]
    lines = metrics.exposition(feed).decode().splitlines()
    assert 'skyband_sink_failed{sink="kafka:boards"} 0.0' in lines
    assert 'skyband_sink_delivered_batch{sink="kafka:boards"} 0.0' in lines
    feed.see(stream, sinks=[sink(2, "refused")])
    lines = metrics.exposition(feed).decode().splitlines()
    assert 'skyband_sink_failed{sink="kafka:boards"} 1.0' in lines
    assert not any(line.startswith("skyband_sink_delivered_batch{") for line in lines)


def test_a_run_that_only_catches_up_is_ready() -> None:
    feed = Feed("trades")
    feed.describe([ServedQuery("top 3", LAYOUT)], "top-k")
    feed.see(progress(), sinks=[sink(3)])
    assert (feed.is_ready, feed.health()["state"]) == (False, "waiting")
    feed.see(progress(), sinks=[sink(3)], catches_up=True)
    assert (feed.is_ready, feed.health()["state"]) == (True, "running")


def test_health_is_that_of_the_moment() -> None:
    clock, seconds = [FIRST], [0.0]
    feed = Feed("trades", now=lambda: clock[0])
    feed.see(progress(Batch(0, rows=1, watermark=FIRST)))
    answers = Answers(feed, clock=lambda: seconds[0])
    for lag in (0.0, 30.0):
        state = answers.state("", None).decode()
        assert f'"lag_seconds": {lag}' in answers.health().decode()
        assert f'"lag_seconds": {lag}' in state
        assert f'"lag_seconds": {lag}' in answers.alive().decode()
        feed.readers += 1
        clock[0] += timedelta(seconds=30)
        seconds[0] += 30.0
    assert '"readers": 2' in answers.health().decode()


def test_answers_that_are_made_once_are_bounded() -> None:
    feed = Feed("trades")
    answers = Answers(feed)
    for number in range(10_000):
        answers.leaders("", json.dumps([f"key {number}"]), None)
    assert len(answers) <= 256
    for number in range(10):
        answers.made(("large", number), lambda: "x" * 10_000_000)
    assert len(answers) <= 6


def test_batches_that_were_missed_are_told() -> None:
    feed = Feed("trades")
    feed.describe([ServedQuery("top 3", LAYOUT)], "top-k")
    feed.see(progress(Batch(4), Batch(5), Batch(5)))
    assert (feed.health()["missed_batches"], feed.health()["notes"]) == (0, [])
    feed.see(progress(Batch(4), Batch(5), Batch(9)))
    assert (feed.health()["missed_batches"], feed.health()["batches"]) == (3, 3)
    assert feed.health()["notes"] == [
        "3 batches were over before they were looked at: "
        "what they counted and ranked is not shown here"
    ]
    assert b"skyband_missed_batches_total 3.0" in metrics.exposition(feed)


def test_a_state_made_of_old_and_new_is_not_given_twice() -> None:
    feed = Feed("trades")
    answers = Answers(feed)

    def make_while_it_changes() -> list[int]:
        feed.describe([ServedQuery("top 3", LAYOUT)], "top-k")
        answers.health()
        return [1]

    assert answers.made("what", make_while_it_changes) == b"[1]"
    assert answers.made("what", lambda: [2]) == b"[2]"
    assert answers.made("what", lambda: [3]) == b"[2]"


def test_rows_that_are_not_shown_are_told() -> None:
    feed = Feed("trades")
    feed.describe([ServedQuery("top 3", LAYOUT)], "top-k")
    batch = Batch(0, ranked=5, answers=tuple(rows(0, "a", "AB")))
    feed.take(batch, ServedQuery("", LAYOUT))
    feed.see(progress(batch))
    assert feed.health()["notes"] == ["3 rows of large batches are ranked, but not shown here"]


@pytest.fixture
def feed() -> Feed:
    feed = Feed("trades")
    feed.describe([ServedQuery("top 3", LAYOUT)], "top-k")
    answers = tuple(rows(0, "Energy", "ABC") + rows(0, "<script>alert(1)</script>", "AB"))
    batch = Batch(0, rows=5, seconds=1.0, windows=2, ranked=5, answers=answers)
    feed.take(batch, ServedQuery("", LAYOUT))
    feed.see(progress(batch))
    return feed


@pytest.fixture
def server(feed: Feed) -> Iterator[PageServer]:
    with PageServer(feed, Address.parsed(0)) as server:
        yield server


def get(server: PageServer, path: str, **options: Any) -> httpx.Response:
    return httpx.get(server.address.url().rstrip("/") + path, trust_env=False, **options)


def test_every_path_answers_as_it_is_described(server: PageServer) -> None:
    for path, methods in DOCUMENT["paths"].items():
        if path == "/api/events":
            continue
        answer = get(server, path)
        assert answer.status_code == 200, path
        content = methods["get"]["responses"]["200"]["content"]
        (kind, described) = next(iter(content.items()))
        assert answer.headers["content-type"].startswith(kind)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers
        if kind == "application/json":
            check(answer.json(), described["schema"], path)
    assert get(server, "/api/openapi.json").json() == json.loads(json.dumps(DOCUMENT))
    assert get(server, "/nothing").status_code == 404


def check(value: Any, schema: dict[str, Any], where: str) -> None:
    """Hold an answer to its description: as much of JSON Schema as that uses."""
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
    if "anyOf" in schema:
        null = value is None
        check(value, schema["anyOf"][1 if null else 0], where)
        return
    if "enum" in schema:
        assert value in schema["enum"], where
        return
    kinds = {
        "object": dict,
        "array": list,
        "string": str,
        "number": (int, float),
        "integer": int,
        "boolean": bool,
        "null": type(None),
    }
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    assert any(isinstance(value, kinds[name]) for name in names), f"{where}: {value!r}"
    if isinstance(value, dict) and "properties" in schema:
        assert set(value) == set(schema["properties"]), where
        for name, part in value.items():
            check(part, schema["properties"][name], f"{where}.{name}")
    for part in value if isinstance(value, list) else ():
        check(part, schema["items"], f"{where}[]")


def test_boards_are_chosen_by_key_and_window(server: PageServer) -> None:
    chosen = {"key": json.dumps(["Energy"]), "window": moment(0)}
    answer = get(server, "/api/leaders", params=chosen).json()
    assert [row["id"] for row in answer["rows"]] == ["A", "B", "C"]
    assert answer["rows"][0]["cells"] == ["A", "12.5"]
    nothing = get(server, "/api/leaders", params={"key": '["Gold"]'}).json()
    assert (nothing["window"], nothing["rows"]) == (None, [])
    for wrong in ("Energy", "{}", "[1]", '["\\ud800"]', "[" * 15_000):
        refused = get(server, "/api/leaders", params={"key": wrong})
        assert refused.status_code == 400
        assert "a list of texts in JSON" in refused.json()["error"]
    for limit in ("many", "0", "1001", "9" * 5_000, "00000100099999", "00001" + "9" * 5_000, "٣"):
        assert get(server, "/api/keys", params={"limit": limit}).status_code == 400
    assert len(get(server, "/api/leaders", params={"limit": "2"}).json()["rows"]) == 2


def test_what_others_send_is_not_written_to_the_terminal(
    server: PageServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_connection(("127.0.0.1", server.address.port), timeout=60) as garbage:
        garbage.sendall(b"\x16\x03\x01 is no HTTP\r\n\r\n")
        assert b" 400 " in garbage.recv(1 << 16).split(b"\r\n")[0]
    monkeypatch.setattr(History, "keys", None)  # a mistake of ours
    assert get(server, "/api/keys").status_code == 500
    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []


def test_numbers_for_prometheus() -> None:
    clock = [FIRST + timedelta(seconds=90)]
    feed = Feed("trades", now=lambda: clock[0])
    feed.describe([ServedQuery("top 3", LAYOUT)], "top-k")
    batch = Batch(0, rows=5, seconds=1.0, late=2, no_time=4, state_bytes=4_096, watermark=FIRST)
    feed.see(progress(batch), sinks=[sink(3)])
    with PageServer(feed, Address.parsed(0)) as server:
        lines = get(server, "/metrics").text.splitlines()
        assert {
            "skyband_rows_total 5.0",
            "skyband_lag_seconds 90.0",
            "skyband_batch_seconds 1.0",
            "skyband_state_bytes 4096.0",
            "skyband_late_groups_total 2.0",
            'skyband_set_aside_rows_total{reason="no_time"} 4.0',
            'skyband_sink_waiting_batches{sink="kafka:boards"} 3.0',
            "skyband_up 1.0",
        } <= set(lines)
        clock[0] += timedelta(minutes=10)  # in which no batch ends
        assert "skyband_lag_seconds 690.0" in get(server, "/metrics").text.splitlines()
        feed.end("The disk is full.", failed=True)
        clock[0] += timedelta(minutes=10)
        lines = get(server, "/metrics").text.splitlines()
        assert {"skyband_lag_seconds 690.0", "skyband_up 0.0"} <= set(lines)


def test_readiness_comes_with_the_first_batch() -> None:
    with PageServer(Feed("trades"), Address.parsed(0)) as server:
        assert get(server, "/healthz").status_code == 200
        assert get(server, "/readyz").status_code == 503
        server.feed.describe([ServedQuery("top 3", LAYOUT)], "top-k")
        server.feed.see(progress(Batch(0, rows=1)))
        assert get(server, "/readyz").status_code == 200


def events(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def test_readers_get_the_newest_state_as_it_changes(server: PageServer, feed: Feed) -> None:
    url = server.address.url() + "api/events"
    params = {"key": json.dumps(["Energy"])}
    with httpx.stream("GET", url, params=params, trust_env=False, timeout=60) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        sent = events(stream.iter_lines())
        assert next(sent)[0] == "health"
        name, board = next(sent)
        assert (name, [row["id"] for row in board["rows"]]) == ("leaders", ["A", "B", "C"])
        batch = Batch(1, rows=1, answers=tuple(rows(1, "Energy", "CAB")))
        feed.take(batch, ServedQuery("", LAYOUT))
        feed.see(progress(Batch(0, rows=5), batch))
        assert next(sent)[0] == "health"
        name, board = next(sent)
        assert [row["change"] for row in board["rows"]] == ["moved", "moved", "moved"]
        assert feed.readers == 1
        feed.end("The job has ended.")
        assert [name for name, _ in sent] == ["health", "leaders", "end"]
    assert feed.health()["state"] == "ended"


def test_a_reader_who_does_not_read_holds_up_nobody(server: PageServer, feed: Feed) -> None:
    path, windows = "/api/events?key=%5B%22Energy%22%5D", 12
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    url = server.address.url().rstrip("/") + path
    server._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
    with socket.socket() as sleeper, httpx.stream("GET", url, trust_env=False, timeout=60) as eager:
        sleeper.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sleeper.settimeout(60)
        sleeper.connect(("127.0.0.1", server.address.port))
        sleeper.sendall(request.encode())
        sent = events(eager.iter_lines())
        batches = [Batch(0, rows=5)]
        for window in range(1, windows):  # many times what the system holds for a reader
            answers = rows(window, "Energy", "ABC" * 300, note="x" * 200)
            batches.append(Batch(window, rows=1, answers=tuple(answers)))
            feed.take(batches[-1], ServedQuery("", WIDE))
            feed.see(progress(*batches))
            boards = (board for name, board in sent if name == "leaders")
            while next(boards)["window"]["id"] != moment(window):
                pass
        feed.end("The job has ended.")
        awake = b"".join(iter(lambda: sleeper.recv(1 << 20), b""))
    # what was under way when he fell asleep, and the newest: nothing else was kept for him
    assert awake.count(b"event: leaders") < windows / 2
    assert moment(windows - 1).encode() in awake
    assert b"event: end" in awake


def test_it_stops_though_readers_are_connected(feed: Feed) -> None:
    server = PageServer(feed, Address.parsed(0))
    with server:
        url = server.address.url() + "api/events"
        streams = [httpx.Client(trust_env=False, timeout=60) for _ in range(20)]
        opened = [client.stream("GET", url) for client in streams]
        bodies = [context.__enter__().iter_lines() for context in opened]
        for body in bodies:
            assert "event: health" in itertools.islice(body, 3)
    assert not server._thread.is_alive()
    assert feed.health()["state"] == "ended"
    for body, context, client in zip(bodies, opened, streams, strict=True):
        assert "event: end" in list(body)
        context.__exit__(None, None, None)
        client.close()
    with pytest.raises(httpx.ConnectError):
        get(server, "/healthz")


def test_it_stops_though_very_many_readers_are_connected(feed: Feed) -> None:
    request = b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    server = PageServer(feed, Address.parsed(0))
    with ExitStack() as connections:
        with server:
            place = ("127.0.0.1", server.address.port)
            sockets = [
                connections.enter_context(socket.create_connection(place, timeout=60))
                for _ in range(500)
            ]
            for each in sockets:
                each.sendall(request)
            begun = [each.recv(1 << 16) for each in sockets]
            assert all(answer.startswith(b"HTTP/1.1 200") for answer in begun)
        assert not server._thread.is_alive()
        for answer, each in zip(begun, sockets, strict=True):
            rest = b"".join(iter(lambda each=each: each.recv(1 << 16), b""))
            assert b"event: end" in answer + rest


def test_readers_of_the_benchmark_look_back_as_pages_do(
    server: PageServer, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, windows = threading.Event(), feed.history.windows

    def look(*ranking: Any) -> dict[str, Any]:
        looked.set()
        return windows(*ranking)

    monkeypatch.setattr(feed.history, "windows", look)
    command = [sys.executable, "-m", "benchmarks.spark.readers", str(server.address.port), "3"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        assert looked.wait(60)
        printed, _ = process.communicate(timeout=60)
    connected, result = map(json.loads, printed.splitlines())
    assert connected == {"connected": 3}
    assert result["looks"] >= 1
    assert result["lost"] == 0


def test_a_failure_is_told_to_readers(feed: Feed) -> None:
    server = PageServer(feed, Address.parsed(0))
    with pytest.raises(ValueError, match="no such column"), server:
        raise ValueError("no such column")
    assert (feed.health()["state"], feed.message) == ("failed", "no such column")


def test_other_machines_need_a_token(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKYBAND_TOKEN", raising=False)
    server = PageServer(feed, Address("127.0.0.1", 0), token="open sesame")
    assert "sesame" not in server.url
    with server:
        assert get(server, "/").status_code == 401
        assert get(server, "/api/leaders").status_code == 401
        assert get(server, "/metrics").status_code == 401
        assert get(server, "/healthz").status_code == 200
        assert get(server, "/?token=wrong").status_code == 401
        bearer = {"Authorization": "Bearer open sesame"}
        assert get(server, "/api/leaders", headers=bearer).status_code == 200
        welcome = get(server, "/", params={"token": "open sesame"})
        assert (welcome.status_code, welcome.headers["location"]) == (303, "./")
        cookie = welcome.headers["set-cookie"]
        # of another job on this host the browser has another one
        assert cookie.startswith(f"skyband-{server.address.port}=")
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        name_and_value = cookie.split(";")[0]
        assert get(server, "/", headers={"Cookie": name_and_value}).status_code == 200
    everywhere = PageServer(feed, Address.parsed("0.0.0.0:0"))
    assert everywhere.token is not None
    assert everywhere.url.endswith(f"?token={everywhere.token}")
    everywhere._socket.close()


def test_pages_from_elsewhere_do_not_reach_it_by_another_name(server: PageServer) -> None:
    assert get(server, "/api/leaders", headers={"Host": "evil.example"}).status_code == 403
    assert get(server, "/api/leaders", headers={"Host": "localhost:1"}).status_code == 200


def test_the_page_runs_nothing_but_itself(server: PageServer) -> None:
    answer = get(server, "/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert policy.count("sha256-") == 2
    assert "unsafe" not in policy
    text = page()[0].decode()
    assert text.count("<script") == text.count("<style") == 1
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
    assert "innerHTML" not in text


@pytest.mark.parametrize("text", ["", "port", "99999", "host:", ":80", "1.2.3.4:x"])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(QueryError, match=r"expected \[HOST:\]PORT"):
        Address.parsed(text)


def test_addresses() -> None:
    assert Address.parsed("8080") == Address("127.0.0.1", 8080)
    assert Address.parsed("[::1]:80").is_loopback
    assert Address.parsed("localhost:80").is_loopback
    assert not Address.parsed("0.0.0.0:80").is_loopback
    assert not Address.parsed("example.org:80").is_loopback
    assert Address.parsed("0.0.0.0:80").url() == "http://127.0.0.1:80/"


def test_a_port_that_is_taken_is_an_error_at_once(feed: Feed) -> None:
    listener, taken = Address.parsed(0).bound()
    threads = threading.active_count()
    with listener, pytest.raises(QueryError, match=r"--serve: nobody can listen on 127\.0\.0\.1"):
        PageServer(feed, taken)
    assert threading.active_count() == threads
    with pytest.raises(QueryError, match="nobody can listen"):
        PageServer(feed, Address("no.such.host.invalid", 0))


def test_a_silent_connection_hears_how_time_goes_on(
    server: PageServer, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_ALIVE", 0.0)
    url = server.address.url() + "api/events"
    with httpx.stream("GET", url, trust_env=False, timeout=60) as stream:
        sent = events(stream.iter_lines())
        assert [next(sent)[0], next(sent)[0]] == ["health", "leaders"]
        name, passing = next(sent)
        assert name == "alive"
        check(passing, {"$ref": "Alive"}, "alive")
        assert passing["readers"] == 1


def test_tokens_and_failures_are_described() -> None:
    schemes = DOCUMENT["components"]["securitySchemes"]
    assert {name for each in DOCUMENT["security"] for name in each} == set(schemes)
    for path, methods in DOCUMENT["paths"].items():
        responses = set(methods["get"]["responses"])
        if path in ("/healthz", "/readyz"):
            assert "503" in responses
            assert methods["get"]["security"] == []
        else:
            assert {"401", "403"} <= responses
    names = [each["properties"]["event"]["const"] for each in EVENT["oneOf"]]
    assert names == ["health", "leaders", "alive", "end"]


def test_events_are_as_they_are_described(server: PageServer, feed: Feed) -> None:
    url = server.address.url() + "api/events"
    described = {
        each["properties"]["event"]["const"]: each["properties"]["data"] for each in EVENT["oneOf"]
    }
    with httpx.stream("GET", url, trust_env=False, timeout=60) as stream:
        for at, (name, data) in enumerate(events(stream.iter_lines())):
            check(data, described[name], name)
            if at == 1:
                feed.end("The job has ended.")


def test_the_version_is_that_of_the_package(server: PageServer) -> None:
    assert get(server, "/api/info").json()["version"] == skyband.__version__
