"""The contract, executable: sort each window. Standard library only; imports nothing of Skyband.

Objects are (score, position, id): the position is the arrival number or the time. One total order:
higher score, then newer, then larger id. NULL (None) and NaN scores are never ranked; in count
windows they still count as rows. Ranks count rows (``row_number``: all different), better rows
(``rank``: 1 more than there are), or better scores (``dense_rank``: 1 more than there are different
ones); all rows of rank k or less are in an answer.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """One window's ranking: (score, id) best first."""

    start: int
    end: int
    rows: tuple[tuple[float, int], ...]


def ranks(score):
    return score is not None and not math.isnan(score)


def best(objects, k, ties="newest", rank_by="row_number"):
    """The k best (score, id) of (score, position, id) triples."""
    return first_ranks([(score, id) for score, _, id in best_first(objects, ties)], k, rank_by)


def oldest_first(object):
    """A key that sorts the best first, where of equal scores the older ranks first."""
    score, position, id = object
    return -score, position, id


def best_first(objects, ties="newest"):
    """The objects that can be ranked, in order."""
    order = sorted((o for o in objects if ranks(o[0])), reverse=True)
    if ties == "oldest":
        order.sort(key=oldest_first)
    return order


def ranking(objects, ties="newest"):
    """The objects that can be ranked, best first, and the rank of each object (None: no rank)."""
    order = best_first(objects, ties)
    rank_of = {o: rank for rank, o in enumerate(order)}
    return order, [rank_of.get(o) for o in objects]


def best_of(order, ranks_alive, k, rank_by="row_number"):
    """The k best (score, id) of some objects of a ranking, given by their ranks in it."""
    alive = [(order[rank][0], order[rank][2]) for rank in sorted(ranks_alive)]
    return first_ranks(alive, k, rank_by)


def first_ranks(rows, k, rank_by="row_number"):
    """Those of rank k or less of (score, id) that stand best first."""
    if rank_by == "row_number":
        return tuple(rows[:k])
    return tuple(row for row, rank in zip(rows, numbered(rows, rank_by), strict=True) if rank <= k)


def numbered(rows, rank_by="row_number"):
    """The rank of each (score, id), which stand best first."""
    scores = [score for score, _ in rows]
    if rank_by == "row_number":
        return list(range(1, len(rows) + 1))
    better = scores if rank_by == "rank" else sorted(set(scores), reverse=True)
    rank_of = {score: len(better) - at for at, score in enumerate(reversed(better))}
    return [rank_of[score] for score in scores]


def count_windows(scores, n, s, k, ids=None, full=False, ties="newest", rank_by="row_number"):
    """Every window over a sequence of scores, answered after every s arrivals."""
    ids = range(len(scores)) if ids is None else ids
    order, rank = ranking(list(zip(scores, range(len(scores)), ids, strict=True)), ties)
    answers = []
    for end in range(s, len(scores) + 1, s):
        if full and end < n:
            continue
        start = max(0, end - n)
        alive = [r for r in rank[start:end] if r is not None]
        answers.append(Answer(start, end, best_of(order, alive, k, rank_by)))
    return answers


def time_windows(
    scores,
    times,
    size,
    slide,
    k,
    offset=0,
    ids=None,
    until=None,
    ties="newest",
    rank_by="row_number",
):
    """Every window that holds anything and ends at or before ``until`` (None: all of them)."""
    ids = range(len(scores)) if ids is None else ids
    objects = [
        (score, time, id)
        for score, time, id in zip(scores, times, ids, strict=True)
        if ranks(score) and time is not None
    ]
    objects.sort(key=lambda o: o[1])
    order, rank = ranking(objects, ties)
    clock = [time for _, time, _ in objects]
    ends = set()
    for time in set(clock):
        start = time - (time - offset) % slide  # the last window that holds it
        while start + size > time:
            ends.add(start + size)
            start -= slide
    answers = []
    for end in sorted(ends):
        if until is None or end <= until:
            alive = rank[bisect_left(clock, end - size) : bisect_left(clock, end)]
            answers.append(Answer(end - size, end, best_of(order, alive, k, rank_by)))
    return answers


FOREVER = 1 << 62
"""The start of a window that has none is the negative of this."""


def cumulative_windows(scores, times, period, every, k, offset=0, ids=None, until=None, **order):
    """What each period has held so far, at every step from its first row to its end."""
    ids = range(len(scores)) if ids is None else ids
    rows = [o for o in zip(scores, times, ids, strict=True) if ranks(o[0]) and o[1] is not None]
    answers = []
    for start in sorted({time - (time - offset) % period for _, time, _ in rows}):
        for end in range(start + every, start + period + 1, every):
            alive = [o for o in rows if start <= o[1] < end]
            if alive and (until is None or end <= until):
                answers.append(Answer(start, end, best(alive, k, **order)))
    return answers


def all_time_windows(scores, times, every, k, ids=None, until=None, **order):
    """All rows before an end, at every step from the first row to ``until``.

    None: to the end of the last row's step.
    """
    ids = range(len(scores)) if ids is None else ids
    rows = [o for o in zip(scores, times, ids, strict=True) if ranks(o[0]) and o[1] is not None]
    if not rows:
        return []
    first, last = (of(time for _, time, _ in rows) // every * every for of in (min, max))
    ends = range(first + every, (last + every if until is None else until) + 1, every)
    alive = ([o for o in rows if o[1] < end] for end in ends)
    return [
        Answer(-FOREVER, end, best(objects, k, **order))
        for end, objects in zip(ends, alive, strict=True)
    ]


def changes(answers, slide, until=None, rank_by="row_number"):
    """What entered, left or moved between consecutive windows: (end, {id: (rank, previous)}).

    A window that is not among the answers is empty. Windows without any change are left out. The
    one after the last answer, which all rows left, is reported if it ends at or before ``until``.
    """
    reports = []
    before, before_end = {}, None
    for answer in answers:
        if before and before_end is not None and answer.end > before_end + slide:
            reports.append((before_end + slide, {id: (0, was) for id, was in before.items()}))
            before = {}
        ids = [id for _, id in answer.rows]
        now = dict(zip(ids, numbered(answer.rows, rank_by), strict=True))
        report = {
            id: (now.get(id, 0), before.get(id, 0))
            for id in now.keys() | before.keys()
            if now.get(id, 0) != before.get(id, 0)
        }
        if report:
            reports.append((answer.end, report))
        before, before_end = now, answer.end
    if before and before_end is not None and until is not None and before_end + slide <= until:
        reports.append((before_end + slide, {id: (0, was) for id, was in before.items()}))
    return reports


def dominates(one, other):
    """Whether a point is nowhere worse than another, and somewhere better; less is better."""
    return all(a <= b for a, b in zip(one, other, strict=True)) and one != other


def dominated_counts(points):
    """How many points each point dominates: all that it is nowhere worse than, except its equals.

    A set of points is a whole number with a bit for each. From the worst value of a dimension to
    the best, the set of those so far is the set of those that are nowhere better in it.
    """
    nowhere_worse = [(1 << len(points)) - 1] * len(points)
    for values in zip(*points, strict=True):
        so_far, no_better_than = 0, {}
        for number in sorted(range(len(values)), key=values.__getitem__, reverse=True):
            so_far |= 1 << number
            no_better_than[values[number]] = so_far
        for number, value in enumerate(values):
            nowhere_worse[number] &= no_better_than[value]
    equals = Counter(points)
    return [
        others.bit_count() - equals[point]
        for others, point in zip(nowhere_worse, points, strict=True)
    ]


def dominating(points, k, ties="newest", rank_by="row_number"):
    """The k best (points dominated, id) of (point, position, id) triples; None is never ranked."""
    alive = [o for o in points if o[0] is not None]
    counts = dominated_counts([tuple(point) for point, _, _ in alive])
    scored = [
        (float(count), position, id) for count, (_, position, id) in zip(counts, alive, strict=True)
    ]
    return best(scored, k, ties, rank_by)


def count_dominating(points, n, s, k, full=False, **order):
    """Every count window over a sequence of points (None: a row that cannot be ranked)."""
    answers = []
    for end in range(s, len(points) + 1, s):
        if full and end < n:
            continue
        start = max(0, end - n)
        objects = [(points[at], at, at) for at in range(start, end)]
        answers.append(Answer(start, end, dominating(objects, k, **order)))
    return answers


def time_dominating(points, times, size, slide, k, offset=0, **order):
    """Every time window that holds a point."""
    scores = [None if point is None else 0.0 for point in points]
    windows = time_windows(scores, times, size, slide, 1, offset)
    return [
        Answer(
            window.start,
            window.end,
            dominating(
                [
                    (point, time, id)
                    for id, (point, time) in enumerate(zip(points, times, strict=True))
                    if window.start <= time < window.end
                ],
                k,
                **order,
            ),
        )
        for window in windows
    ]
