"""The contract of updates: the rankings so far of open windows. Standard library only.

A window is open if it has begun, with a row at or after its start, and is not answered yet. Places
are times or arrival numbers; ``closed`` is the watermark, or the number of rows that have arrived:
a window that ends at or before it is answered.
"""

from __future__ import annotations

FOREVER = 1 << 62


def open_sliding(places, size, slide, offset, closed, current=False):
    """Open windows (start, end) that hold any of these places, by end."""
    newest = max(places, default=None)
    ends = set()
    for place in set(places):
        start = place - (place - offset) % slide  # the last window that holds it
        while start + size > place:
            ends.add(start + size)
            start -= slide
    if current and ends:
        ends = {min(end for end in ends if end > newest)}
    return [(end - size, end) for end in sorted(ends) if end > closed]


def open_cumulative(places, period, every, offset, closed, current=False):
    """Open steps of each period that holds any of these places, to the end of the newest's step."""
    if not places:
        return []
    newest_end = max(places) - (max(places) - offset) % every + every
    windows = [
        (start, end)
        for start in sorted({place - (place - offset) % period for place in places})
        for end in range(start + every, start + period + 1, every)
        if closed < end <= newest_end and any(start <= place < end for place in places)
    ]
    return [window for window in windows if not current or window[1] == newest_end]


def open_all_time(places, every, closed, current=False):
    """Open steps from the end of the oldest place's to that of the newest place's."""
    if not places:
        return []
    first, last = (place // every * every + every for place in (min(places), max(places)))
    ends = [last] if current else range(first, last + 1, every)
    return [(-FOREVER, end) for end in ends if end > closed]


def open_counted(arrived, n, s, full=False, current=False):
    """Count windows that have begun and are not complete."""
    ends = [
        end
        for end in range(s, arrived + n + s, s)
        if end > arrived > end - n and not (full and end < n)
    ]
    return [(max(0, end - n), end) for end in (ends[:1] if current else ends)]


def updates(reported, windows, ranking):
    """Windows whose ranking changed, as (start, end, rows), given what was reported of each.

    ``ranking`` ranks the rows of a window so far; ``reported`` is brought up to date. A window
    that has never ranked anything is not reported.
    """
    changed = []
    for start, end in windows:
        rows = ranking(start, end)
        if rows != reported.get((start, end), ()):
            reported[start, end] = rows
            changed.append((start, end, rows))
    return changed
