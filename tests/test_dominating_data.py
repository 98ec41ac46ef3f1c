"""Streams of points: properties of each, beyond those of every data set."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from skyband.datasets import dataset, network
from skyband.datasets.cover import AREA
from skyband.errors import QueryError
from tests.command_line import Runner

ROWS = 20_000


def points(name, rows=ROWS, dimensions=None, **how):
    stream = dataset(name) if dimensions is None else dataset(name, dimensions)
    return np.concatenate(list(stream.points(rows, **how)))


def dominated(cloud):
    """How many other points each of the first hundred dominates, less being better."""
    return np.array(
        [((p <= cloud).all(axis=1) & (p < cloud).any(axis=1)).sum() for p in cloud[:100]]
    )


def better(name, rows=ROWS):
    """Points with less being better, whatever the directions are."""
    return points(name, rows) * [1 if way == "min" else -1 for _, way in dataset(name).dimensions]


@pytest.mark.parametrize("name", ["ind", "ant", "cor"])
@pytest.mark.parametrize("width", [1, 2, 5, 8])
def test_points_lie_in_the_unit_cube(name, width):
    stream = dataset(name, width)
    assert stream.columns == ("t", *(f"x{at}" for at in range(1, width + 1)))
    assert stream.dimensions == tuple((f"x{at}", "min") for at in range(1, width + 1))
    cube = points(name, 5_000, width)
    assert cube.shape == (5_000, width)
    assert cube.min() >= 0
    assert cube.max() <= 1
    assert abs(cube.mean() - 0.5) < 0.02


def test_points_do_not_depend_on_the_chunk():
    whole = points("ant", 70_000, seed=4)
    np.testing.assert_array_equal(points("ant", 70_000, seed=4, chunk=9_001), whole)
    table = pa.Table.from_batches(dataset("ant").chunks(70_000, seed=4))
    np.testing.assert_array_equal(table.column("x3").to_numpy(), whole[:, 2])


def test_independent_points_are_uniform_and_uncorrelated():
    cloud = points("ind")
    counts = [np.bincount((column * 20).astype(int), minlength=20) for column in cloud.T]
    assert all(np.sum((count - ROWS / 20) ** 2 / (ROWS / 20)) < 55 for count in counts)
    assert np.abs(np.corrcoef(cloud.T) - np.eye(4)).max() < 0.03


def test_anticorrelated_points_lie_about_one_plane():
    cloud = points("ant")
    assert np.std(cloud.mean(axis=1)) == pytest.approx(1 / 24, rel=0.05)
    correlation = np.corrcoef(cloud.T)[np.triu_indices(4, 1)]
    assert correlation.max() < -0.1
    assert np.corrcoef(points("ant", dimensions=2).T)[0, 1] < -0.9


def test_correlated_points_lie_about_the_diagonal():
    assert np.corrcoef(points("cor").T)[np.triu_indices(4, 1)].min() > 0.5


def test_correlated_points_dominate_more_than_independent_than_anticorrelated_ones():
    cor, ind, ant = (dominated(points(name)).mean() for name in ("cor", "ind", "ant"))
    assert cor > 2 * ind > 8 * ant
    assert ind == pytest.approx(ROWS / 2**4, rel=0.5)


def test_cover_has_mixed_scales_and_drifts():
    plots = points("cover", 40 * AREA)
    assert plots.shape[1] == 8
    spread = plots.std(axis=0)
    assert spread.max() > 20 * spread.min()
    means = plots.reshape(40, AREA, 8).mean(axis=1)
    within = plots.reshape(40, AREA, 8).std(axis=1).mean(axis=0)
    assert (means.std(axis=0) > 0.05 * within).all()  # if areas were alike: a sixty-fourth
    assert (np.ptp(means, axis=0) / within).max() > 2  # and some are worlds apart
    table = pa.Table.from_batches(dataset("cover").chunks(2 * AREA))
    assert table.column("area").to_numpy().tolist() == [1] * AREA + [2] * AREA


def test_homes_are_correlated_and_share_values():
    homes = better("homes")
    assert np.corrcoef(homes.T)[np.triu_indices(5, 1)].min() > 0.3
    assert len(np.unique(homes[:, 3])) <= 12
    assert (np.abs(homes) > 0).all()


def test_network_attackers_are_few_and_stand_out():
    rows = 3 * 65_536
    table = pa.Table.from_batches(dataset("network").chunks(rows))
    attack = table.column("attack").to_numpy().astype(bool)
    assert 0 < attack.sum() <= 3 * network.ATTACKS * network.ATTACK // network.COMPUTERS
    columns = [table.column(n).to_numpy() for n in ("bandwidth", "connections", "destinations")]
    for column in columns:
        assert np.median(column[attack]) > 50 * np.median(column[~attack])
        assert np.quantile(column, 0.999) > 20 * np.median(column)
    assert (columns[1] >= columns[2]).all()
    assert columns[2].min() >= 1


def test_network_computers_report_in_turn():
    names = next(dataset("network").chunks(2 * network.COMPUTERS)).column("computer").to_pylist()
    assert sorted(names[: network.COMPUTERS]) == sorted(network.computers())
    assert names[: network.COMPUTERS] == names[network.COMPUTERS :]


@pytest.mark.parametrize(
    ("name", "width", "words"),
    [
        ("ant", 0, "dimensions is 0; expected a whole number from 1 to 8"),
        ("ind", 9, "dimensions is 9"),
        ("stock", 2, "dimensions is 2 for stock; expected one of ind, ant, cor"),
    ],
)
def test_dimensions_that_are_not_there_are_refused(name, width, words):
    with pytest.raises(QueryError, match=words):
        dataset(name, width)


def test_scores_alone_make_no_points():
    with pytest.raises(QueryError, match="points of stock"):
        dataset("stock").points(10)


def test_generate_writes_points(capsys, monkeypatch, tmp_path):
    run = Runner(capsys, monkeypatch)
    out = tmp_path / "points.csv"
    ran = run("generate", "ANT", "--rows", 10, "--dimensions", 2, "--out", out)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.endswith("dimensions: --on x1:min --on x2:min\n")
    assert out.read_text().splitlines()[0] == '"t","x1","x2"'
    failed = run.fails("generate", "stock", "--rows", 9, "--dimensions", 2, "--out", out)
    assert "dimensions is 2 for stock" in failed
