"""Expected answers: the tables of the appearance model, and how many windows an object answers."""

from __future__ import annotations

import numpy as np

from skyband.incomplete.appearance_model import (
    BINS,
    FINE,
    GRADES,
    GRID,
    AppearanceModel,
    age_of,
    grade_of,
)
from skyband.incomplete.combine import ADD, LARGEST, LEAST, SUM, Rule, score_at
from skyband.incomplete.objects import Store, streams_seen
from skyband.kernels.jit import entry, lean
from skyband.order import Floats

_POINTS = 11  # at which the score of an answer is tried
_DEVIATIONS = 2.5  # on both sides of the mean
_OFFSETS = np.linspace(-_DEVIATIONS, _DEVIATIONS, _POINTS)
_WEIGHTS = np.exp(-0.5 * _OFFSETS**2) / np.exp(-0.5 * _OFFSETS**2).sum()
_PRIOR = 8.0  # rows of all grades that count beside those of one
_HALF_LIFE = 8  # windows


@entry
def make_tables(model: AppearanceModel, store: Store, window: int) -> None:
    """Make the tables of the statistics, and let these grow old. O(2**streams * streams)."""
    now = model.now[0]
    passed = float(window - now.refreshed)
    fade = 0.5 ** (passed / (_HALF_LIFE * store.now[0].span))
    _fade(model.came, fade)
    _fade(model.next, fade)
    _fade(model.delay, fade)
    _fade(model.values, fade)
    now.refreshed = window
    if now.level > 0 and now.sampled < len(model.sample_id) // 4:
        now.level -= 1
    _make_ages(model)
    for streams in range(len(model.came) - 1, 0, -1):
        _make_gains(model, store.rule, streams)


@lean
def _fade(array: Floats, fade: float) -> None:
    for at in range(len(array)):
        array[at] *= fade


@lean
def _make_ages(model: AppearanceModel) -> None:
    """Compute the mean delay, and the share of returns after each age."""
    total, age_sum = 0.0, 0.0
    for age in range(len(model.delay)):
        total += model.delay[age]
        age_sum += model.delay[age] * (2.0 ** ((age + 0.5) / FINE) - 1.0)
    model.now[0].mean_delay = age_sum / total if total > 0 else 0.0
    left = total
    last = len(model.late) - 1
    for age in range(len(model.late)):
        if total > 0:
            model.late[age] = max(left, 0.0) / total
            left -= model.delay[age]
        else:
            model.late[age] = 0.0 if age == last else 1.0


@lean
def _chance(model: AppearanceModel, width: int, streams: int, stream: int) -> float:
    """How likely an object that came in these streams comes in another one next."""
    return (model.next[streams * width + stream] + 0.5 / width) / (model.came[streams] + 1.0)


@lean
def _make_gains(model: AppearanceModel, rule: Rule, streams: int) -> None:
    """Compute how likely an object that came in these streams closes each gap."""
    form = rule.form[0]
    width, sets = form.streams, len(model.came)
    again, same = 0.0, 0.0
    for stream in range(width):
        chance = _chance(model, width, streams, stream)
        if (streams >> stream) & 1:
            same += chance if model.next[streams * width + stream] > 0 else 0.0
        else:
            again += chance
    repeated = form.repeats == ADD
    model.again[streams] = min(again + (same if repeated else 0.0), 1.0)
    share = 1.0 if repeated else 1.0 / max(1.0 - same, 0.05)
    for grade in range(GRADES):
        row = (grade * sets + streams) * (GRID + 1)
        for at in range(GRID + 1):
            model.gain[row + at] = 0.0
        for stream in range(width):
            if (streams >> stream) & 1 == 0:
                part = _chance(model, width, streams, stream) * share
                _add_gains(model, rule, row, grade, streams | (1 << stream), stream, part)
            elif repeated and model.next[streams * width + stream] > 0:
                part = _chance(model, width, streams, stream)
                _add_gains(model, rule, row, grade, 0, stream, part * min(form.most, 4))
        for at in range(GRID + 1):
            model.gain[row + at] = min(model.gain[row + at], 1.0)


@lean
def _add_gains(
    model: AppearanceModel, rule: Rule, row: int, grade: int, after: int, stream: int, chance: float
) -> None:
    """Add what coming in a stream does, after which the streams seen are ``after``, 0 for none."""
    form = rule.form[0]
    width, sets = form.streams, len(model.came)
    low, extent = rule.low[stream], rule.high[stream] - rule.low[stream]
    graded, common = (grade * width + stream) * BINS, (GRADES * width + stream) * BINS
    graded_total, common_total = 0.0, 0.0
    for at in range(BINS):
        graded_total += model.values[graded + at]
        common_total += model.values[common + at] + 1.0 / BINS
    then = (grade * sets + after) * (GRID + 1)
    first, widest = _goals(rule)
    for at_bin in range(BINS):
        prior = (model.values[common + at_bin] + 1.0 / BINS) / common_total
        counted = model.values[graded + at_bin] + _PRIOR * prior
        part = chance * counted / (graded_total + _PRIOR)
        gain = (at_bin + 0.5) / BINS * extent * rule.weight[stream]
        value = low + (at_bin + 0.5) / BINS * extent
        for at in range(GRID + 1):
            goal = first + widest * at / GRID
            if form.combine == SUM:
                rest = goal - gain
                closed = 1.0 if rest <= 0.0 else _at(model.gain, then, rest / widest, after)
            elif form.combine == LARGEST:
                closed = 1.0 if value >= goal else _at(model.gain, then, at / GRID, after)
            else:
                full = after == sets - 1
                further = 1.0 if full else _at(model.gain, then, at / GRID, after)
                closed = further if value >= goal else 0.0
            model.gain[row + at] += part * closed


@lean
def _goals(rule: Rule) -> tuple[float, float]:
    """The first goal of a table, and how far the others go: gaps of sums, scores otherwise."""
    form = rule.form[0]
    low, high, total = np.inf, -np.inf, 0.0
    for stream in range(form.streams):
        total += rule.weight[stream] * (rule.high[stream] - rule.low[stream])
        low, high = min(low, rule.low[stream]), max(high, rule.high[stream])
    if form.combine == SUM:
        return 0.0, total if total > 0.0 else 1.0
    return low, high - low if high > low else 1.0


@lean
def _at(table: Floats, row: int, share: float, streams: int) -> float:
    """Read a table between two of its steps; nothing is known of no streams."""
    if streams == 0 or share > 1.0:
        return 0.0
    place = max(share, 0.0) * GRID
    at = min(int(place), GRID - 1)
    part = place - at
    return table[row + at] * (1.0 - part) + table[row + at + 1] * part


@lean
def expected_answers(
    model: AppearanceModel, store: Store, obj: int, values: Floats, threshold: float, until: int,
    window: int,
) -> tuple[float, float]:  # fmt: skip
    """In how many windows an instance is expected to be an answer until it expires.

    Also tells for how many windows it has to be kept, either to be one or to know better.

    ``values`` are those of the instance, ``threshold`` is the score of k objects that outlive it.
    O(streams).
    """
    rule, now, span = store.rule, model.now[0], store.now[0].span
    width = rule.form[0].streams
    base = obj * width
    newest = store.rows.until[store.objects.newest[obj]]
    score, streams = score_at(rule, values, base), streams_seen(store, obj)
    left, age = float(until - window + 1), window - 1 + span - newest
    row = (grade_of(rule, values, base) * len(model.came) + streams) * (GRID + 1)
    in_time = _returns_in_time(model, streams, age, until - window + 1)
    alike = max(1.0 - 0.5 * left / span, 0.0)  # windows share rows, and so do their answers
    mean = now.average + alike * (now.last_answer - now.average)
    deviation = np.sqrt(max(now.variance * (1.0 - alike * alike), 0.0))
    chance = 0.0
    for at in range(_POINTS):
        goal = max(mean + _OFFSETS[at] * deviation, threshold)
        if score >= goal:
            chance += _WEIGHTS[at]
        else:
            chance += _WEIGHTS[at] * in_time * _closes(model, rule, row, goal, score, values, base)
    missing = 0
    for stream in range(width):
        missing += 1 - ((streams >> stream) & 1)
    delay = now.mean_delay
    stay = max(left - 0.5 * missing * delay, 0.1 * left)
    wait = left if missing == 0 else min(left, max(2.0 * delay - age, 0.2 * delay, 1.0))
    return stay * chance, wait


@lean
def _returns_in_time(model: AppearanceModel, streams: int, age: int, left: int) -> float:
    """How likely an object that comes again does so in the windows that are left.

    Given that it did not come for ``age`` windows.
    """
    last = len(model.late) - 1
    now = model.late[min(age_of(age), last)]
    then = model.late[min(age_of(age + left) + 1, last)]
    return (now - then) / max(1.0 - model.again[streams] * (1.0 - now), 1e-9)


@lean
def _closes(
    model: AppearanceModel, rule: Rule, row: int, goal: float, score: float, values: Floats,
    base: int,
) -> float:  # fmt: skip
    """How likely an instance reaches a goal, if its object comes again."""
    form = rule.form[0]
    first, widest = _goals(rule)
    if form.combine == SUM:
        return _at(model.gain, row, (goal - score) / widest, 1)
    if form.combine == LEAST:
        for stream in range(form.streams):
            if values[base + stream] < goal:  # not so for NaN
                return 0.0
    return _at(model.gain, row, (goal - first) / widest, 1)
