"""The contract of incomplete streams: every object's score from the rows of each window.

Standard library only; imports nothing of Skyband. Rows are (id, stream, value, position), the
position being the arrival number or the time, streams numbers; a value of None or NaN is missing.
"""

from __future__ import annotations

from tests.oracle import Answer, best, ranks


def score(values, combine, low):
    """One score of the values by stream; what was not seen counts as the lowest bound."""
    full = [values.get(stream, bound) for stream, bound in enumerate(low)]
    if combine == "min":
        return min(full)
    if combine == "max":
        return max(full)
    weights = [1.0] * len(low) if combine == "sum" else combine
    total = full[0] * weights[0]
    for value, weight in zip(full[1:], weights[1:], strict=True):
        total += value * weight
    return total


def best_objects(rows, k, combine, low, repeats, ties="newest", rank_by="row_number"):
    """The k best (score, id) of the rows of one window; an object is as old as its newest row."""
    values, newest = {}, {}
    for id, stream, value, position in rows:
        by_stream = values.setdefault(id, {})
        if stream in by_stream:
            value = by_stream[stream] + value if repeats == "sum" else max(by_stream[stream], value)
        by_stream[stream] = value
        newest[id] = max(newest.get(id, position), position)
    objects = [(score(seen, combine, low), newest[id], id) for id, seen in values.items()]
    return best(objects, k, ties, rank_by)


def count_incomplete(rows, n, s, k, combine, low, repeats="max", full=False, **order):
    """Every count window over rows (id, stream, value)."""
    answers = []
    for end in range(s, len(rows) + 1, s):
        if full and end < n:
            continue
        start = max(0, end - n)
        window = [(*rows[at], at) for at in range(start, end) if ranks(rows[at][2])]
        answers.append(Answer(start, end, best_objects(window, k, combine, low, repeats, **order)))
    return answers


def time_incomplete(rows, times, size, slide, k, combine, low, repeats="max", offset=0, **order):
    """Every time window that holds a row."""
    known = [(*row, time) for row, time in zip(rows, times, strict=True) if ranks(row[2])]
    known.sort(key=lambda row: (row[3], *row[:3]))  # sums are rounded alike in any order of arrival
    ends = set()
    for *_, time in known:
        start = time - (time - offset) % slide  # the last window that holds it
        while start + size > time:
            ends.add(start + size)
            start -= slide
    return [
        Answer(
            end - size,
            end,
            best_objects(
                [row for row in known if end - size <= row[3] < end],
                k,
                combine,
                low,
                repeats,
                **order,
            ),
        )
        for end in sorted(ends)
    ]
