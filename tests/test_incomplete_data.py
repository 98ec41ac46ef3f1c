"""Incomplete streams: properties of each, beyond those of every data set."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from skyband.datasets import cameras, dataset, flows, worldcup
from skyband.datasets.incomplete import sightings
from skyband.errors import QueryError
from tests.command_line import Runner

ROWS = 60_000  # less than a block


def table(name, rows=ROWS):
    return pa.Table.from_batches(dataset(name).chunks(rows, seed=2)).combine_chunks()


def journeys(name, key, stream, value):
    """The (time, stream, value) of each object, in order of time."""
    by_object = defaultdict(list)
    read = table(name)
    times = read.column("ts").cast(pa.int64()).to_pylist()
    columns = [read.column(one).to_pylist() for one in (key, stream, value)]
    for time, who, where, what in zip(times, *columns, strict=True):
        by_object[who].append((time / 1e6, where, what))
    return by_object


# The paper's generator


def test_sightings_come_at_most_once_in_each_stream():
    read = table("sightings", 140_000)  # three blocks
    pairs = list(zip(read.column("id").to_pylist(), read.column("stream").to_pylist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert set(read.column("stream").to_pylist()) == {"s1", "s2", "s3"}
    value = read.column("value").to_numpy()
    assert 0 <= value.min() < value.max() <= 1


def test_half_of_the_sightings_are_of_objects_that_another_stream_saw():
    _, times = np.unique(table("sightings").column("id").to_numpy(), return_counts=True)
    assert 1 - len(times) / ROWS == pytest.approx(0.5, abs=0.02)
    assert np.bincount(times)[1:].min() > 1_000  # in one stream, in two, in all three
    for xi in (0.2, 0.8):
        rows = sightings(20_000, streams=6, xi=xi)
        assert 1 - len(np.unique(rows.id)) / 20_000 == pytest.approx(xi, abs=0.02)


def test_objects_come_again_within_the_memory():
    rows = sightings(20_000, streams=2, xi=0.5, memory=50)
    place = np.arange(20_000)
    first = np.full(rows.id.max() + 1, -1)
    first[rows.id[::-1]] = place[::-1]
    late = place - first[rows.id]
    assert 0 < late.max() <= 2 * 50 + 1


# Cars and cameras


def test_cars_keep_to_their_routes():
    neighbours = {
        pair
        for route in cameras.ROUTES
        for way in (route, route[::-1])
        for at, one in enumerate(way)
        for pair in [(one, other) for other in way[at + 1 :]]
    }
    seen = journeys("cameras", "plate", "camera", "speed")
    pairs, apart = [], []
    for stops in seen.values():
        for before, after in pairwise(stops):
            if after[0] - before[0] < 3_600:
                pairs.append((before[1], after[1]) in neighbours)
                apart.append(after[0] - before[0])
    assert np.mean(pairs) > 0.97  # the rest are plates that were drawn twice within the hour
    assert 60 < np.median(apart) < 1_800
    assert {camera for stops in seen.values() for _, camera, _ in stops} == set(cameras.CAMERAS)


def test_fast_cars_are_fast_everywhere_and_no_car_passes_all_cameras():
    limits = {name: limit for name, (*_, limit) in cameras.CAMERAS.items()}
    seen = journeys("cameras", "plate", "camera", "speed").values()
    first = [stops[0][2] / limits[stops[0][1]] for stops in seen if len(stops) > 1]
    second = [stops[1][2] / limits[stops[1][1]] for stops in seen if len(stops) > 1]
    assert np.corrcoef(first, second)[0, 1] > 0.5
    speeds = [speed for stops in seen for *_, speed in stops]
    assert 0 < min(speeds) < max(speeds) <= cameras.FASTEST
    assert max(len({camera for _, camera, _ in stops}) for stops in seen) < len(cameras.CAMERAS)


def test_some_cameras_see_the_same_cars():
    by_camera = defaultdict(set)
    for plate, stops in journeys("cameras", "plate", "camera", "speed").items():
        for _, camera, _ in stops:
            by_camera[camera].add(plate)

    def shared(one, other):
        return len(by_camera[one] & by_camera[other]) / len(by_camera[one] | by_camera[other])

    assert shared("ring-1", "ring-2") > 0.2
    assert shared("pass", "west") > 5 * shared("pass", "harbour")


# Flows and routers


def test_flows_pass_the_routers_between_their_networks():
    edges = dict(zip(flows.NETWORKS, flows.ROUTERS, strict=False))
    seen = journeys("flows", "flow", "router", "bytes")
    right = []
    for flow, reports in seen.items():
        source, destination = (end.rpartition(".")[0] for end in flow.split("-"))
        routers = {router for _, router, _ in reports}
        right.append(routers <= {edges[source], edges[destination], *flows.ROUTERS[3:]})
        assert source != destination or routers == {edges[source]}
        assert len(set(flow.split("-"))) == 2
    assert all(right)
    assert np.mean([len(reports) for reports in seen.values()]) > 2


def test_a_flow_is_about_as_large_at_each_router():
    once = [
        reports
        for reports in journeys("flows", "flow", "router", "bytes").values()
        if len({router for _, router, _ in reports}) == len(reports) > 2
    ]
    assert len(once) > 200
    for reports in once:
        sizes = [size for *_, size in reports]
        if max(sizes) < 1.1 * min(sizes) + 50:  # one flow, not two between the same computers
            assert sizes == sorted(sizes, reverse=True)
    alike = [max(size for *_, size in r) < 1.1 * min(size for *_, size in r) + 50 for r in once]
    assert np.mean(alike) > 0.5


def test_few_computers_make_most_of_the_flows_and_few_flows_most_of_the_bytes():
    read = table("flows")
    counts = np.unique(read.column("flow").to_pylist(), return_counts=True)[1]
    assert np.sort(counts)[::-1][: len(counts) // 10].sum() > 0.3 * counts.sum()
    size = np.sort(read.column("bytes").to_numpy())[::-1]
    assert size[: ROWS // 100].sum() > 0.3 * size.sum()


# Requests


def test_requests_have_heavy_tails_of_clients_and_sizes():
    read = table("worldcup")
    counts = np.sort(np.unique(read.column("client").to_numpy(), return_counts=True)[1])[::-1]
    assert counts[0] > 20 * np.median(counts)
    size = np.sort(read.column("bytes").to_numpy())[::-1]
    assert size[: ROWS // 100].sum() > 0.2 * size.sum()
    assert size.max() <= worldcup.LARGEST
    assert set(read.column("server").to_pylist()) == set(worldcup.servers())


def test_interest_is_great_around_matches():
    hours = np.arange(24 * 60) / 60
    busy = worldcup.interest(hours * 3_600)
    assert worldcup.CLOCK.rows == 160 * 86_400
    for start in worldcup.MATCHES:
        assert busy[(hours > start) & (hours < start + 2)].max() > 4 * busy[hours < 6].max()


def test_chunks_are_the_sums_of_clients_and_servers():
    """Against plain loops over the same requests."""
    rows, servers, delta = 3_000, 3, 5_000
    chunks = worldcup.chunked(rows, servers, delta, seed=4)
    log = worldcup.requests(4, 0)
    sums, last = defaultdict(int), {}
    for time, client, server, size in zip(*(column.tolist() for column in log), strict=True):
        if server < servers:
            sums[time // (delta * 1_000), client, server] += size
            last[time // (delta * 1_000), client, server] = time
    order = sorted(sums, key=lambda chunk: (chunk[0], last[chunk]))[:rows]
    objects, came, total = {}, defaultdict(set), 0
    for at, (chunk, client, server) in enumerate(order):
        if client not in objects or server in came[objects[client]]:
            objects[client], total = total, total + 1
        came[objects[client]].add(server)
        assert chunks.id[at] == objects[client]
        assert chunks.stream[at] == server
        size = math.log1p(sums[chunk, client, server]) / math.log1p(worldcup.FULL)
        assert chunks.value[at] == pytest.approx(min(1.0, size), rel=1e-12)


def test_chunks_send_no_object_twice_in_a_stream_and_grow_at_their_end():
    chunks = worldcup.chunked(50_000, servers=4)
    assert len(chunks.id) == 50_000
    assert len(np.unique(chunks.id * 4 + chunks.stream)) == 50_000
    assert 0 < chunks.value.min() < chunks.value.max() <= 1
    for long, short in zip(chunks, worldcup.chunked(900, servers=4), strict=True):
        np.testing.assert_array_equal(long[:900], short)
    assert len(worldcup.chunked(0).id) == 0


@pytest.mark.parametrize("wrong", [{"rows": -1}, {"servers": 0}, {"servers": 9}, {"delta_ms": 0}])
def test_chunks_that_make_no_sense_are_refused(wrong):
    with pytest.raises(QueryError, match="one to 8 servers"):
        worldcup.chunked(**{"rows": 10, **wrong})


# As files


def test_generate_shapes_sightings(capsys, monkeypatch, tmp_path):
    run = Runner(capsys, monkeypatch)
    out = tmp_path / "seen.csv"
    options = ["--rows", 100, "--streams", 2, "--xi", 1, "--memory", "1e1", "--out", out]
    assert run("generate", "sightings", *options).code == 0
    rows = [line.split(",")[:2] for line in out.read_text().splitlines()[1:]]
    assert rows == [[str(at // 2), f'"s{at % 2 + 1}"'] for at in range(100)]
    assert "xi is 2" in run.fails("generate", "sightings", "--rows", 1, "--xi", 2, "--out", out)
    wrong = run.fails("generate", "sightings", "--rows", 1, "--streams", 0, "--out", out)
    assert "--streams is '0'; expected a whole number of at least 1" in wrong
    wrong = run.fails("generate", "flows", "--rows", 1, "--memory", 5, "--out", out)
    assert "memory is 5 for flows; expected sightings" in wrong


def test_generate_tells_object_stream_and_value(capsys, monkeypatch, tmp_path):
    run = Runner(capsys, monkeypatch)
    out = tmp_path / "cars.csv"
    ran = run("generate", "cameras", "--rows", 10, "--out", out)
    assert (ran.code, ran.out) == (0, "")
    assert out.read_text().splitlines()[0] == '"ts","plate","camera","speed"'
    assert ran.err.endswith("objects: --id plate --stream camera --value speed\n")
