"""AHBA and AMSA against exact answers, AHBA's guarantee, and approximating under load."""

from __future__ import annotations

import numpy as np
import pytest

from skyband import DominatingMonitor, QueryError, TopKDominating, last
from skyband.datasets import dataset
from skyband.dominating.degradation import Load

D = [("a", "min"), ("b", "min"), ("c", "min")]


def some_points(rows, seed=0):
    return np.random.default_rng(seed).random((rows, 3))


def accuracy(results, wanted):
    pairs = zip(results, wanted, strict=True)
    return np.mean([len(set(one.id) & set(two.id)) / len(two.id) for one, two in pairs])


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("algorithm", "name", "least"),
    [
        ("ahba", "ind", 0.98),
        ("amsa", "ind", 0.98),
        ("ahba", "ant", 0.97),
        ("amsa", "ant", 0.98),
        ("ahba", "cover", 0.9),
        ("amsa", "cover", 0.9),
    ],
)
def test_approximate_answers_are_mostly_right(algorithm, name, least):
    source = dataset(name)
    dimensions = list(source.dimensions)[:4]
    points = np.concatenate(list(source.points(9_000)))[:, :4]
    query = TopKDominating(64, dimensions, last(count=4_000, slide=5, full=True))
    results, wanted = (
        DominatingMonitor(query, each).push(points) for each in (algorithm, "contenders")
    )
    assert accuracy(results, wanted) >= least
    assert not results.exact.any()
    assert wanted.exact is None
    assert results.accuracy.mean() > 0.7
    true = {
        (start, number): score
        for start, ids, scores in ((w.start, w.id, w.score) for w in wanted)
        for number, score in zip(ids.tolist(), scores.tolist(), strict=True)
    }
    for window in results:  # who is reported is reported with the right score
        for number, score in zip(window.id.tolist(), window.score.tolist(), strict=True):
            assert true.get((window.start, number), score) == score


def paper_and_others(name, size, k, rows, width=4):
    """Answers after the window is full, and exact computations per update, by algorithm."""
    source = dataset(name)
    points = np.concatenate(list(source.points(size + rows)))[:, :width]
    query = TopKDominating(k, list(source.dimensions)[:width], last(count=size, slide=1, full=True))
    answers, computed = {}, {}
    for rule in ("contenders", "ada", "paper"):
        options = {"rule": rule} if rule == "paper" else {}
        monitor = DominatingMonitor(query, "amsa" if options else rule, options=options)
        monitor.push(points[:size])
        before = monitor.counters()["exact_computations"]
        answers[rule] = monitor.push(points[size:])
        computed[rule] = (monitor.counters()["exact_computations"] - before) / rows
    return answers, computed


@pytest.mark.compiled
@pytest.mark.parametrize(("name", "k", "least"), [("ind", 32, 0.95), ("cor", 64, 0.85)])
def test_answers_by_the_papers_rule_are_mostly_right_for_a_while(name, k, least):
    """While a quarter of the window is replaced; what is excluded stays excluded."""
    answers, computed = paper_and_others(name, 8_000, k, 2_000)
    assert accuracy(answers["paper"], answers["contenders"]) >= least
    assert computed["paper"] < computed["ada"] / 2


@pytest.mark.compiled
def test_the_papers_rule_spares_exact_scores_of_anticorrelated_points():
    """Where score_1 <= 2 score_k; a tenth of the window is replaced."""
    answers, computed = paper_and_others("ant", 4_000, 8, 400)
    for window in answers["contenders"]:
        assert window.score[0] <= 2 * window.score[-1]
    assert computed["paper"] < computed["ada"] / 10
    assert accuracy(answers["paper"], answers["contenders"]) >= 0.75


def test_the_rule_of_amsa_is_checked():
    query = TopKDominating(2, D, last(count=50))
    for given in ("papers", None, 1, True):
        with pytest.raises(QueryError, match="rule is"):
            DominatingMonitor(query, "amsa", options={"rule": given})
    with pytest.raises(QueryError, match="option 'rule' for ada"):
        DominatingMonitor(query, "ada", options={"rule": "paper"})
    points = some_points(200)
    usual = DominatingMonitor(query, "amsa").push(points)
    guarded = DominatingMonitor(query, "amsa", options={"rule": "guarded"}).push(points)
    assert usual.to_arrow().equals(guarded.to_arrow())


@pytest.mark.compiled
@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 0.5), (0.2, 0.9)])
def test_means_of_samples_keep_the_bound_of_hoeffding(epsilon, delta):
    """A mean falls short of the true one by more than epsilon of the range in 1 - delta at most."""
    bad, checked = 0, 0
    for seed in range(60):
        query = TopKDominating(5, D, last(count=600, slide=600))
        monitor = DominatingMonitor(query, "ahba", options={"epsilon": epsilon, "delta": delta})
        monitor.push(some_points(600, seed))
        monitor.push(some_points(600, seed + 100))
        algorithm = monitor.algorithm
        state = algorithm.state
        seqs, scores = algorithm.true_scores(dict.fromkeys(range(600, 1200), 0.0))
        slots = np.array(seqs) & (len(state.kind) - 1)
        cells, scores = state.grid.cell[slots], np.array(scores)
        for cell in state.samples.listed[1 : 1 + int(state.samples.listed[0])]:
            mine = scores[cells == cell]
            size = int(state.samples.size[cell])
            if size == len(mine):
                continue  # all of them are known
            assert size >= min(algorithm.sample_size(), len(mine))
            sampled = state.samples.total[cell] / size
            checked += 1
            bad += mine.mean() - sampled > epsilon * np.ptp(mine)
    assert checked > 20
    assert bad / checked <= 1 - delta


def test_options_of_samples_are_checked():
    query = TopKDominating(2, D, last(count=50))
    for name, given in [("epsilon", 0), ("epsilon", "x"), ("delta", 1), ("delta", True)]:
        with pytest.raises(QueryError, match=f"{name} is"):
            DominatingMonitor(query, "ahba", options={name: given})
    with pytest.raises(QueryError, match="obsolete is"):
        DominatingMonitor(query, "ada", options={"obsolete": 2})
    with pytest.raises(QueryError, match="option 'epsilon' for ada"):
        DominatingMonitor(query, "ada", options={"epsilon": 0.1})
    with pytest.raises(QueryError, match="keep_up is -1"):
        DominatingMonitor(query, options={"keep_up": -1})
    with pytest.raises(QueryError, match="keep_up with bfa"):
        DominatingMonitor(query, "bfa", options={"keep_up": 1})


@pytest.mark.parametrize("algorithm", ["eva", "ada"])
def test_obsolete_events_may_be_forgotten(algorithm):
    points = some_points(700)
    window = last(count=200, slide=1, full=True)
    query = TopKDominating(3, D, window)
    whole, part = (
        DominatingMonitor(query, algorithm, options={"obsolete": share}) for share in (1, 0.1)
    )
    one, two = whole.push(points), part.push(points)
    assert one.to_arrow().equals(two.to_arrow())
    assert part.algorithm.events_kept() <= whole.algorithm.events_kept()
    alive = dict.fromkeys(range(500, 700), 0.0)
    part.algorithm.check_invariants(alive)


@pytest.mark.parametrize(
    ("algorithm", "options"), [("ahba", {}), ("amsa", {}), ("amsa", {"rule": "paper"})]
)
def test_approximations_go_on_from_snapshots_bit_for_bit(algorithm, options):
    query = TopKDominating(4, D, last(count=120, slide=3))
    points = some_points(420)
    monitor = DominatingMonitor(query, algorithm, options=options)
    for low in range(0, 420, 60):
        copy = DominatingMonitor.restore(monitor.snapshot(), query)
        one, two = (each.push(points[low : low + 60]) for each in (monitor, copy))
        assert one.to_arrow().equals(two.to_arrow())
        monitor = copy


def test_under_load_answers_become_approximate_and_exact_again():
    query = TopKDominating(4, D, last(count=120, slide=3))
    monitor = DominatingMonitor(query, options={"keep_up": 100})
    seconds = {"contenders": 1.0, "ahba": 0.8, "amsa": 0.4}
    now = 0.0

    def clock():
        nonlocal now
        now += seconds[monitor.plan.algorithm] / 2
        return now

    seen = []
    exact = DominatingMonitor(query, "bfa")
    for batch in range(60):
        points = some_points(30, batch)
        monitor.load.clock = clock
        seen.append(monitor.plan.algorithm)
        results, wanted = monitor.push(points), exact.push(points)
        assert (results.exact == (seen[-1] == "contenders")).all()
        if seen[-1] == "contenders":
            assert results.id.tolist() == wanted.id.tolist()
        if batch in (1, 10, 40):  # and go on from a snapshot
            monitor = DominatingMonitor.restore(monitor.snapshot(), query)
        if batch == 20:
            seconds = dict.fromkeys(seconds, 0.01)
    assert seen[:4] == ["contenders", "ahba", "amsa", "amsa"]
    assert seen[20] == "amsa"
    assert seen[-1] == "contenders"


def test_a_slower_approximation_is_left():
    load = Load(1_000, "contenders")
    assert load.took(500, 1.0)  # too slow
    assert load.algorithm == "ahba"
    assert load.took(500, 2.0)  # slower still
    assert load.algorithm == "amsa"
    assert load.took(500, 4.0)
    assert load.algorithm == "contenders"  # the fastest of three that are all too slow


def test_every_level_takes_its_options_or_refuses_them_at_once():
    query = TopKDominating(2, D, last(count=50))
    for options, message in [
        ({"keep_up": 10, "epsilon": 7}, "epsilon is 7"),
        ({"keep_up": 10, "nonsense": 1}, "option 'nonsense'"),
        ({"keep_up": float("inf")}, "keep_up is inf"),
        ({"keep_up": 10, "exact": "bfa"}, "keep_up with bfa"),
        ({"epsilon": 0.1}, "for auto"),
        ([("epsilon", 1)], "options are"),
    ]:
        with pytest.raises(QueryError, match=message):
            DominatingMonitor(query, options=options)
    with pytest.raises(QueryError, match="exact='eva'"):
        DominatingMonitor(query, "ada", options={"keep_up": 10, "exact": "eva"})
    monitor = DominatingMonitor(query, "ada", options={"keep_up": 10, "epsilon": np.float32(0.2)})
    assert monitor.load.levels == ("ada", "ahba", "amsa")


def test_load_waits_longer_after_attempts_that_fail_only():
    load = Load(1_000, "contenders")
    for _ in range(5):
        assert load.took(500, 1.0)  # a burst
        assert load.algorithm == "ahba"
        judgements = 0
        while load.level:
            load.took(1_000, 0.1)
            judgements += 1
        assert judgements == 8
        load.took(1_000, 0.1)


@pytest.mark.parametrize("algorithm", ["ahba", "amsa"])
def test_accuracy_does_not_depend_on_batches(algorithm):
    points = some_points(400)
    query = TopKDominating(4, D, last(count=120, slide=3))
    whole = DominatingMonitor(query, algorithm).push(points)
    monitor = DominatingMonitor(query, algorithm)
    parts = [monitor.push(points[low : low + 30]) for low in range(0, 400, 30)]
    assert np.concatenate([part.accuracy for part in parts]).tolist() == whole.accuracy.tolist()
