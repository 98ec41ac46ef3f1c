"""The loop of pane totals: for each step expire, take rows in, rank what changed, answer.

A row is added to what its key has in the open pane. A pane that closes becomes entries, which are
added to the totals; when it expires they are taken away again. So a row costs one look-up and one
addition, everything else is done once for all rows that a key has in a pane.

What is called once for each entry takes the few arrays that it needs: handing over the whole state
would cost more than the work.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.engine.steps import Steps
from skyband.kernels.answers import Out
from skyband.kernels.emission import skip
from skyband.kernels.jit import entry, lean
from skyband.kernels.work import CANDIDATES, EVENTS, INSERTIONS, RESCANS, SLIDES
from skyband.order import Floats, Ints
from skyband.totals.exact import (
    add,
    add_sum,
    add_whole,
    fits,
    is_infinite,
    is_surely_below,
    places,
    rounded,
    scaled,
    whole_code,
)
from skyband.totals.key_ranking import (
    BELOW,
    drop_slot,
    rank_slot,
    set_threshold,
    threshold_is_due,
    write_best,
)
from skyband.totals.slots import BLOCK, known_slot, look_up
from skyband.totals.state import (
    CHANGED,
    COUNTS,
    ENOUGH,
    ENTRIES,
    EXTREMES,
    FIRSTS,
    INFINITE,
    LARGEST,
    LASTS,
    LATEST,
    LIMB,
    LIMBS,
    MEANS,
    PANE_SUM,
    ROWS,
    SEEN,
    SLOTS,
    SUMS,
    TAIL,
    TOTAL,
    OpenPane,
    State,
)

_AHEAD = 31  # rows that are read ahead, less one
_FEW = 4  # rows that are not worth it
_NEGATIVE = 1 << 32  # what an infinity below zero counts in INFINITE

Batch = tuple[Ints, Floats, Ints, Ints, Ints]
"""Keys, values, the bits of values; how many rows each row stands for, or nothing if for one;
times, or nothing where rows are in order of arrival."""


class Wanted(NamedTuple):
    """Keys whose totals are looked up where no keys are ranked.

    ``key``         the keys of all windows that are answered
    ``begin, end``  where those of each step stand; none if keys are ranked
    ``total``       what they add up to, NaN if they have no total
    """

    key: Ints
    begin: Ints
    end: Ints
    total: Floats


@entry
def advance(
    state: State, batch: Batch, steps: Steps, target: Out, wanted: Wanted, step: int
) -> int:
    """Take in a batch from a step on; return the step in which room ran out."""
    now = state.now[0]
    now.lacking, now.unwritten = ENOUGH, 0
    if now.position == 0 and now.aggregate in (SUMS, MEANS) and now.whole == 0:
        now.lowest, now.highest = places(batch[2], now.lowest, now.highest)
        if not fits(now.lowest, now.highest, now.origin, now.limbs):
            now.lacking = LIMBS
            return step
    base, mask = steps.base[0], len(state.entries.slot) - 1
    # a call with the whole state costs as much as a row: none is made in vain, or panes of a row
    # would cost twice as much
    while step < len(steps.stop):
        first, window = steps.first[step], steps.window[step]
        if now.oldest < now.next and state.entries.first[now.oldest & mask] < first:
            _expire(state, first)
        split, stop = steps.split[step], steps.stop[step]
        if now.position < split and not _take(state, batch, base, split, 2 * window):
            return step
        if now.position < stop and not _take(state, batch, base, stop, 2 * window + 1):
            return step
        if steps.emit[step]:
            if now.opened > 0:
                _close(state)
            if len(wanted.end) > 0:
                _look_up_totals(state, wanted, step)
                step += 1
                continue
            if now.changed > 0:
                _rank_changed(state)
            if threshold_is_due(now):
                _set_threshold(state)
            while not write_best(state.ranking, now, target, step):
                if now.unwritten > 0:
                    return step
                _set_threshold(state)
            state.work[SLIDES] += 1
            state.work[CANDIDATES] += now.ranked
        else:
            skip(target, step)
        step += 1
    return step


@lean
def _sum_width(now: Any) -> int:
    """Numbers in a sum."""
    return LIMB + now.limbs if now.aggregate in (SUMS, MEANS) else 1


@lean
def _total_width(now: Any) -> int:
    """Numbers in a row of the totals."""
    return TAIL + 1 if now.aggregate >= EXTREMES else TOTAL + _sum_width(now)


@lean
def _take(state: State, batch: Batch, base: int, stop: int, pane: int) -> bool:
    """Add rows up to ``stop`` to a pane, in blocks; False if room ran out before."""
    now = state.now[0]
    if now.pane != pane:
        if now.opened > 0:
            _close(state)
        now.pane = pane
        now.pane_from = base + now.position
    keys, values, bits, counts, times = batch
    room = len(state.entries.slot)
    while now.position < stop:
        low = now.position
        high = min(low + BLOCK, stop)
        if now.next - now.oldest + now.opened + high - low > room:
            now.lacking = ENTRIES
            return False
        done = look_up(state.slots, now, keys, values, low, high, now.aggregate >= FIRSTS)
        if done - low > _FEW:
            width = PANE_SUM + _sum_width(now)
            read = _read_rows(state.pane.sums, width, state.slots.block, done - low)
            state.scratch[0] = read  # or nothing would be read
        if now.aggregate == COUNTS:
            _count(now, state.slots.block, state.pane, counts, base, low, done)
        elif now.aggregate == EXTREMES:
            _compare(now, state.slots.block, state.pane, values, counts, base, low, done)
        elif now.aggregate > EXTREMES:
            _pick(now, state.slots.block, state.pane, values, counts, times, base, low, done)
        else:
            _add(now, state.slots.block, state.pane, bits, counts, base, low, done)
        now.position = done
        if done < high:
            now.lacking = SLOTS
            return False
    return True


@lean
def _count(
    now: Any, block: Ints, pane: OpenPane, counts: Ints, base: int, low: int, high: int
) -> None:
    """Count a block of rows."""
    sums, slots = pane.sums, pane.slot
    first, opened, counted = now.pane_from, now.opened, len(counts) > 0
    for position in range(low, high):
        slot = block[position - low]
        if slot < 0:
            continue
        row = slot * (PANE_SUM + 1)
        slots[opened] = slot
        opened += 1 if sums[row + SEEN] < first else 0
        sums[row + SEEN] = base + position
        sums[row + PANE_SUM + ROWS] += counts[position] if counted else 1
    now.opened = opened


@lean
def _compare(
    now: Any,
    block: Ints,
    pane: OpenPane,
    values: Floats,
    counts: Ints,
    base: int,
    low: int,
    high: int,
) -> None:
    """Count a block of rows, and note the largest values."""
    sums, slots, value = pane.sums, pane.slot, pane.value
    first, opened, counted, sign = now.pane_from, now.opened, len(counts) > 0, now.sign
    for position in range(low, high):
        slot = block[position - low]
        if slot < 0:
            continue
        row = slot * (PANE_SUM + 1)
        slots[opened] = slot
        opened += 1 if sums[row + SEEN] < first else 0
        sums[row + SEEN] = base + position
        sums[row + PANE_SUM + ROWS] += counts[position] if counted else 1
        value[slot] = max(value[slot], values[position] * sign)
    now.opened = opened


@lean
def _pick(
    now: Any,
    block: Ints,
    pane: OpenPane,
    values: Floats,
    counts: Ints,
    times: Ints,
    base: int,
    low: int,
    high: int,
) -> None:
    """Count a block of rows, and note the first or last values; of equal times the larger one.

    A row that stands for none is not there.
    """
    sums, slots, value, time = pane.sums, pane.slot, pane.value, pane.time
    first, opened, last = now.pane_from, now.opened, now.aggregate == LASTS
    timed, counted = len(times) > 0, len(counts) > 0
    for position in range(low, high):
        if counted and counts[position] == 0:
            continue
        slot = block[position - low]
        row = slot * (PANE_SUM + 1)
        at, number = times[position] if timed else base + position, values[position]
        if sums[row + SEEN] < first:
            slots[opened] = slot
            opened += 1
            value[slot], time[slot] = number, at
        elif time[slot] == at:  # NaN is less than every number
            value[slot] = number if number > value[slot] or np.isnan(value[slot]) else value[slot]
        elif last:
            value[slot], time[slot] = number, at
        sums[row + SEEN] = base + position
        sums[row + PANE_SUM + ROWS] += counts[position] if counted else 1
    now.opened = opened


@lean
def _add(
    now: Any, block: Ints, pane: OpenPane, bits: Ints, counts: Ints, base: int, low: int, high: int
) -> None:
    """Count a block of rows, and add their values up."""
    sums, slots = pane.sums, pane.slot
    first, opened, counted = now.pane_from, now.opened, len(counts) > 0
    origin, limbs, whole = now.origin, now.limbs, now.whole != 0
    width = PANE_SUM + LIMB + limbs
    for position in range(low, high):
        slot = block[position - low]
        if slot < 0:
            continue
        row = slot * width
        slots[opened] = slot
        opened += 1 if sums[row + SEEN] < first else 0
        sums[row + SEEN] = base + position
        sums[row + PANE_SUM + ROWS] += counts[position] if counted else 1
        if whole:
            add_whole(sums, row + PANE_SUM + LIMB, bits[position])
        elif is_infinite(bits[position]):
            sums[row + PANE_SUM + INFINITE] += _NEGATIVE if bits[position] < 0 else 1
        else:
            add(sums, row + PANE_SUM + LIMB, limbs, origin, bits[position])
    now.opened = opened


@lean
def _read_rows(rows: Ints, width: int, slots: Ints, count: int) -> int:
    """Read the rows of slots, so that memory delivers them side by side."""
    read = 0
    for i in range(count):
        row = max(slots[i], 0) * width
        read ^= rows[row] ^ rows[row + width - 1]
    return read


@lean
def _read_ahead(state: State, slots: Ints, low: int, high: int, mask: int) -> None:
    """Read the totals of the slots that come next, so that memory delivers them side by side."""
    now = state.now[0]
    totals, width = state.totals, _total_width(now)
    entries, extreme = state.entries, now.aggregate >= EXTREMES
    last = len(entries.slot) - 1
    read = 0
    for i in range(low, min(low + _AHEAD + 1, high)):
        row = slots[i & mask] * width
        read ^= totals[row] ^ totals[row + width - 1]
        if extreme:
            largest, tail = totals[row + LARGEST] & last, totals[row + TAIL] & last
            read ^= entries.newer[largest] ^ entries.older[tail]
            if entries.value[largest] < entries.value[tail]:
                read ^= 1
    state.scratch[0] = read  # or nothing would be read


@lean
def _close(state: State) -> None:
    """Make entries of the open pane, and add them to the totals."""
    now = state.now[0]
    entries, totals, pane, changed = state.entries, state.totals, state.pane, state.changed
    aggregate, limbs, mask = now.aggregate, now.limbs, len(entries.slot) - 1
    width, total_width = _sum_width(now), _total_width(now)
    opened, following, first, changes = now.opened, now.next, now.pane_from, now.changed
    for i in range(opened):
        if i & _AHEAD == 0 and opened - i > _FEW:
            ahead = pane.slot[i : min(i + _AHEAD + 1, opened)]
            read = _read_rows(pane.sums, PANE_SUM + width, ahead, len(ahead))
            _read_ahead(state, pane.slot, i, opened, -1)
            state.scratch[0] ^= read
        slot = pane.slot[i]
        number = following + i
        at = number & mask
        row, source, target = slot * total_width, slot * (PANE_SUM + width) + PANE_SUM, at * width
        entries.slot[at] = slot
        entries.first[at] = first
        totals[row + TOTAL + ROWS] += pane.sums[source]
        totals[row + LATEST] = number
        if aggregate >= EXTREMES:
            entries.value[at] = pane.value[slot]
            pane.value[slot] = -np.inf
            # a key without older rows has nothing to follow, whatever stands in its row
            older = totals[row + TAIL] if totals[row + TOTAL + ROWS] > pane.sums[source] else -1
            if aggregate == EXTREMES:
                older = _larger(entries.value, entries.older, number, older, now.oldest)
            elif aggregate == LASTS:
                older = -1
            _link(entries.newer, entries.older, number, older, now.oldest)
            if entries.older[at] < now.oldest:
                totals[row + LARGEST] = number
            totals[row + TAIL] = number
        elif aggregate != COUNTS:
            totals[row + TOTAL + INFINITE] += pane.sums[source + INFINITE]
            add_sum(totals, row + TOTAL + LIMB, pane.sums, source + LIMB, limbs, 1)
        for column in range(width):
            entries.sums[target + column] = pane.sums[source + column]
            pane.sums[source + column] = 0
        changed[changes] = slot
        changes += 1 - totals[row + CHANGED]
        totals[row + CHANGED] = 1
    state.work[INSERTIONS] += opened
    now.next = following + opened
    now.opened = 0
    now.changed = changes


@lean
def _larger(value: Floats, older: Ints, number: int, previous: int, oldest: int) -> int:
    """The newest of the key's linked entries that is larger than an entry."""
    mask = len(value) - 1
    while previous >= oldest and value[previous & mask] <= value[number & mask]:
        previous = older[previous & mask]
    return previous


@lean
def _link(newer: Ints, older: Ints, number: int, previous: int, oldest: int) -> None:
    """Let an entry follow another one of its key, and forget those between them."""
    mask = len(newer) - 1
    at = number & mask
    if previous >= oldest:
        newer[previous & mask] = number
    older[at] = previous
    newer[at] = -1


@lean
def _expire(state: State, first: int) -> None:
    """Take the panes that begin before a row away from the totals."""
    now = state.now[0]
    entries, totals, changed = state.entries, state.totals, state.changed
    aggregate, limbs, mask = now.aggregate, now.limbs, len(entries.slot) - 1
    width, total_width = _sum_width(now), _total_width(now)
    number, following, changes = now.oldest, now.next, now.changed
    while number < following:
        at = number & mask
        if entries.first[at] >= first:
            break
        if number & _AHEAD == 0 and following - number > _FEW:
            _read_ahead(state, entries.slot, number, following, mask)
        slot = entries.slot[at]
        row, source = slot * total_width, at * width
        totals[row + TOTAL + ROWS] -= entries.sums[source + ROWS]
        if aggregate >= EXTREMES:
            if totals[row + LARGEST] == number:
                totals[row + LARGEST] = entries.newer[at]
        elif aggregate != COUNTS:
            totals[row + TOTAL + INFINITE] -= entries.sums[source + INFINITE]
            add_sum(totals, row + TOTAL + LIMB, entries.sums, source + LIMB, limbs, -1)
        changed[changes] = slot
        changes += 1 - totals[row + CHANGED]
        totals[row + CHANGED] = 1
        number += 1
    now.oldest = number
    now.changed = changes


@lean
def _rank_changed(state: State) -> None:
    """Rank every key whose total has changed anew.

    Most keys were below the threshold and still are: these are passed over as cheaply as can be.
    """
    now = state.now[0]
    totals, ranking, changed, seen = state.totals, state.ranking, state.changed, state.pane.sums
    values, place, aggregate, limbs = state.entries.value, ranking.place, now.aggregate, now.limbs
    width, pane_width = _total_width(now), PANE_SUM + _sum_width(now)
    threshold = now.threshold
    limit = scaled(threshold, now.origin, limbs)
    adds = aggregate == MEANS or (aggregate == SUMS and now.whole == 0)
    for i in range(now.changed):
        if i & _AHEAD == 0 and now.changed - i > _FEW:
            _read_ahead(state, changed, i, now.changed, -1)
        slot = changed[i]
        row = slot * width
        totals[row + CHANGED] = 0
        below = place[slot] == BELOW
        if below and adds and totals[row + TOTAL + INFINITE] == 0:
            rows = totals[row + TOTAL + ROWS]
            factor = float(rows) * now.unit if aggregate == MEANS else 1.0
            if rows > 0 and is_surely_below(totals, row + TOTAL + LIMB, limbs, limit * factor):
                continue
        total = _total(totals, row, values, now, state.scratch)
        if below and total < threshold:
            continue
        if total == total:
            rank_slot(ranking, now, slot, total, now.turn * seen[slot * pane_width + SEEN])
        else:
            drop_slot(ranking, now, slot)
    state.work[EVENTS] += now.changed
    now.changed = 0


@lean
def _look_up_totals(state: State, wanted: Wanted, step: int) -> None:
    """Write the totals of the keys that are wanted of a step. O(1) expected for each."""
    now = state.now[0]
    totals, changed, width = state.totals, state.changed, _total_width(now)
    for i in range(now.changed):  # there is no ranking to change
        totals[changed[i] * width + CHANGED] = 0
    now.changed = 0
    for i in range(wanted.begin[step], wanted.end[step]):
        slot = known_slot(state.slots, wanted.key[i])
        if slot >= 0:
            row = slot * width
            wanted.total[i] = _total(totals, row, state.entries.value, now, state.scratch)


@lean
def _set_threshold(state: State) -> None:
    """Set the threshold anew, among totals as they are now."""
    now = state.now[0]
    ranking, totals, seen = state.ranking, state.totals, state.pane.sums
    width, pane_width = _total_width(now), PANE_SUM + _sum_width(now)
    for slot in range(now.used):
        if ranking.place[slot] == BELOW:
            total = _total(totals, slot * width, state.entries.value, now, state.scratch)
            ranking.score[slot] = total
            ranking.seq[slot] = now.turn * seen[slot * pane_width + SEEN]
    set_threshold(ranking, now)
    state.work[RESCANS] += 1


@entry
def total_of(state: State, slot: int) -> float:
    """:func:`_total` for Python."""
    now = state.now[0]
    row = slot * _total_width(now)
    return _total(state.totals, row, state.entries.value, now, state.scratch)


@lean
def _total(totals: Ints, row: int, values: Floats, now: Any, scratch: Ints) -> float:
    """The total of the key with this row; NaN if it has none."""
    rows = totals[row + TOTAL + ROWS]
    if rows == 0:
        return np.nan
    if now.aggregate == COUNTS:
        return float(rows)
    if now.aggregate >= EXTREMES:
        return values[totals[row + LARGEST] & (len(values) - 1)] * now.sign
    infinite = totals[row + TOTAL + INFINITE]
    if infinite > 0:
        if infinite < _NEGATIVE:
            return np.inf
        return -np.inf if infinite & (_NEGATIVE - 1) == 0 else np.nan
    if now.aggregate == SUMS and now.whole != 0:
        return whole_code(totals, row + TOTAL + LIMB, scratch)
    mean = now.aggregate == MEANS
    count, unit = rows if mean else 1, now.unit if mean else 1
    return rounded(totals, row + TOTAL + LIMB, now.limbs, now.origin, count, unit, scratch)
