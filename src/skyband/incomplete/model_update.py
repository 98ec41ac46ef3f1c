"""How the appearance model learns from a stream, and from what was lost so far."""

from __future__ import annotations

import numpy as np

from skyband.incomplete.appearance_model import BINS, GRADES, AppearanceModel, age_of, grade_of
from skyband.incomplete.combine import Rule
from skyband.incomplete.objects import NONE, Store
from skyband.incomplete.sketch import mixed
from skyband.kernels.jit import lean

_STEADY = 12  # windows over which the score of an answer is averaged


@lean
def learn_value(model: AppearanceModel, store: Store, obj: int, stream: int, value: float) -> None:
    """Learn from a value, before it is added to its object, which come after which. O(streams)."""
    rule = store.rule
    part, width = _bin_of(rule, stream, value), rule.form[0].streams
    model.values[(GRADES * width + stream) * BINS + part] += 1.0
    if store.objects.newest[obj] == NONE:
        return
    grade = grade_of(rule, store.objects.value, obj * width)
    model.values[(grade * width + stream) * BINS + part] += 1.0


@lean
def _bin_of(rule: Rule, stream: int, value: float) -> int:
    low, high = rule.low[stream], rule.high[stream]
    share = (value - low) / (high - low) if high > low else 0.0
    return max(min(int(share * BINS), BINS - 1), 0)


@lean
def follow_sample(
    model: AppearanceModel, store: Store, stream: int, object_id: int, until: int
) -> None:
    """Learn from a row that lives until a window where objects come next, and when.

    O(1) for most rows, O(sample) for those of the sample.
    """
    left, _ = mixed(object_id)
    now, span, width = model.now[0], store.now[0].span, store.rule.form[0].streams
    if left & ((1 << now.level) - 1):
        return
    at = 0
    while at < now.sampled and model.sample_id[at] != object_id:
        at += 1
    if at == now.sampled:
        if at == len(model.sample_id):
            _thin_out(model, span, until)
            if now.sampled == len(model.sample_id) or left & ((1 << now.level) - 1):
                return
        at = now.sampled
        now.sampled = at + 1
        model.sample_id[at] = object_id
        model.sample_streams[at] = 0
    streams = model.sample_streams[at]
    if streams != 0 and until - model.sample_until[at] <= span:
        model.next[streams * width + stream] += 1.0
        model.delay[age_of(until - model.sample_until[at])] += 1.0
        streams |= 1 << stream
    else:
        streams = 1 << stream
    model.came[streams] += 1.0
    model.sample_streams[at] = streams
    model.sample_until[at] = until


@lean
def _thin_out(model: AppearanceModel, span: int, until: int) -> None:
    """Drop objects of the sample that have expired; if there are none, half of all hashes."""
    now = model.now[0]
    for attempt in range(2):
        kept = 0
        for at in range(now.sampled):
            left, _ = mixed(model.sample_id[at])
            alive = until - model.sample_until[at] <= span
            if alive and left & ((1 << now.level) - 1) == 0:
                model.sample_id[kept] = model.sample_id[at]
                model.sample_streams[kept] = model.sample_streams[at]
                model.sample_until[kept] = model.sample_until[at]
                kept += 1
        now.sampled = kept
        if attempt == 1 or kept < len(model.sample_id) or now.level >= 30:
            return
        now.level += 1


@lean
def note_dropped(model: AppearanceModel, object_id: int, until: int) -> None:
    """Note that an object is dropped whose newest row would have lived until a window. O(1)."""
    left, right = mixed(object_id)
    slot = right & (len(model.dropped) - 1)
    model.dropped[slot] = left
    model.dropped_until[slot] = until


@lean
def was_dropped(model: AppearanceModel, span: int, object_id: int, until: int) -> bool:
    """Whether an object was dropped that would still be alive when a row comes. O(1)."""
    left, right = mixed(object_id)
    slot = right & (len(model.dropped) - 1)
    return model.dropped[slot] == left and until - model.dropped_until[slot] <= span


@lean
def note_answer(model: AppearanceModel, span: int, score: float) -> None:
    """Learn from the score of the last answer of a window."""
    now = model.now[0]
    now.last_answer = score
    now.weight = now.weight * (1.0 - 1.0 / (_STEADY * span + 1.0)) + 1.0
    now.average += (score - now.average) / now.weight
    now.variance += ((score - now.average) ** 2 - now.variance) / now.weight


@lean
def is_ready(model: AppearanceModel, span: int) -> bool:
    """Whether enough windows were answered to know which scores answers have."""
    now = model.now[0]
    return now.weight >= min(0.5 * span, 100.0) and now.least_rate > 0


@lean
def adjust_rate(model: AppearanceModel, store: Store, window: int) -> None:
    """Ask for more of an object, or for less, by what the last sweeps are expected to miss."""
    now, k, span = model.now[0], store.now[0].k, store.now[0].span
    passed = float(max(window - now.accounted, 1))
    now.accounted = window
    part = min(passed / max(span, 1), 1.0)
    now.loss += (now.lost / passed - now.loss) * part
    now.lost = 0.0
    target = now.error * k
    if target > 0:
        change = max(min((target - now.loss) / target, 1.0), -1.0)
        now.least_rate *= np.exp(min(2.0 * part, 0.5) * change)
