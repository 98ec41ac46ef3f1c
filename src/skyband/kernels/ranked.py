"""Ranked lists: parallel arrays of scores and sequence numbers, best first.

A list is ``(score, seq, size)``; ``size`` has one element, so that kernels can change it. Kernels
never make room: they check for it, and Python makes it (:func:`skyband.kernels.answers.roomier`).
"""

from __future__ import annotations

from skyband.kernels.answers import STACK, Ranked
from skyband.kernels.jit import lean
from skyband.order import Floats, Ints


@lean
def better(score: float, seq: int, other_score: float, other_seq: int) -> bool:
    """Whether an object ranks before another. O(1)."""
    return score > other_score or (score == other_score and seq > other_seq)


@lean
def place_of(items: Ranked, score: float, seq: int) -> int:
    """How many objects of the list rank before this one. O(log size)."""
    low, high = 0, items.size[0]
    while low < high:
        middle = (low + high) >> 1
        if better(items.score[middle], items.seq[middle], score, seq):
            low = middle + 1
        else:
            high = middle
    return low


@lean
def drop_older(items: Ranked, first: int) -> int:
    """Remove objects numbered below ``first``; return the smallest number left. O(size).

    Most often no object, or only the best ones, are older: a count without a branch per object
    tells, and then no object or one run of objects moves.
    """
    size = items.size[0]
    seqs = items.seq[:size]
    oldest, gone = 1 << 62, 0
    for i in range(len(seqs)):
        expired = seqs[i] < first
        gone += 1 if expired else 0
        oldest = min(oldest, 1 << 62 if expired else seqs[i])
    if gone == 0:
        return oldest
    leading = 0
    head = items.seq[:gone]
    for i in range(len(head)):
        leading += 1 if head[i] < first else 0
    if leading == gone:
        copy_run(items, gone, items, 0, size - gone)
    else:
        kept = 0
        for at in range(size):
            if items.seq[at] >= first:
                items.score[kept] = items.score[at]
                items.seq[kept] = items.seq[at]
                kept += 1
    items.size[0] = size - gone
    return oldest


@lean
def copy_run(source: Ranked, start: int, target: Ranked, to: int, count: int) -> None:
    """Copy ``count`` objects from one list to another, first to last; sizes stay as they are.

    O(count). Slices let the compiler see that no index is negative, so that it copies in blocks.
    """
    from_score, from_seq = source.score[start : start + count], source.seq[start : start + count]
    to_score, to_seq = target.score[to : to + count], target.seq[to : to + count]
    for i in range(len(from_score)):
        to_score[i] = from_score[i]
    for i in range(len(from_seq)):
        to_seq[i] = from_seq[i]


@lean
def copy_best(source: Ranked, limit: int, target: Ranked) -> None:
    """Make ``target`` the first ``limit`` objects of ``source``. O(limit)."""
    size = min(limit, source.size[0])
    copy_run(source, 0, target, 0, size)
    target.size[0] = size


@lean
def merge_best(one: Ranked, two: Ranked, limit: int, target: Ranked) -> None:
    """Make ``target`` the best ``limit`` objects of two lists. O(limit)."""
    size_one, size_two = one.size[0], two.size[0]
    i, j, at = 0, 0, 0
    while at < limit and i < size_one and j < size_two:
        if better(one.score[i], one.seq[i], two.score[j], two.seq[j]):
            target.score[at] = one.score[i]
            target.seq[at] = one.seq[i]
            i += 1
        else:
            target.score[at] = two.score[j]
            target.seq[at] = two.seq[j]
            j += 1
        at += 1
    if at < limit and i < size_one:
        take = min(limit - at, size_one - i)
        copy_run(one, i, target, at, take)
        at += take
    if at < limit and j < size_two:
        take = min(limit - at, size_two - j)
        copy_run(two, j, target, at, take)
        at += take
    target.size[0] = at


@lean
def absorb(items: Ranked, extra: Ranked, limit: int) -> int:
    """Merge the sorted ``extra`` into the list in place, keep the best ``limit``.

    The list needs room for ``limit`` objects. Returns how many of ``extra`` stayed. Works from the
    back, so each kept object moves once: O(objects of the list ranked behind the best of
    ``extra``, plus ``extra``).
    """
    size, more = items.size[0], extra.size[0]
    if more == 0:
        return 0
    if size == 0 or better(
        items.score[size - 1], items.seq[size - 1], extra.score[0], extra.seq[0]
    ):
        more = max(min(more, limit - size), 0)  # all rank behind the list: no object moves
        copy_run(extra, 0, items, size, more)
        items.size[0] = size + more
        return more
    if more <= limit and better(
        extra.score[more - 1], extra.seq[more - 1], items.score[0], items.seq[0]
    ):
        size = min(size, limit - more)  # all rank before the list: it moves as one run
        for at in range(size - 1, -1, -1):
            items.score[at + more] = items.score[at]
            items.seq[at + more] = items.seq[at]
        copy_run(extra, 0, items, 0, more)
        items.size[0] = size + more
        return more
    # how many of each side are among the best `limit`
    i, j = size, more
    surplus = size + more - limit
    while surplus > 0:
        if i > 0 and (
            j == 0
            or better(extra.score[j - 1], extra.seq[j - 1], items.score[i - 1], items.seq[i - 1])
        ):
            i -= 1
        else:
            j -= 1
        surplus -= 1
    taken = j
    at = i + j
    items.size[0] = at
    while j > 0:
        at -= 1
        if i > 0 and better(
            extra.score[j - 1], extra.seq[j - 1], items.score[i - 1], items.seq[i - 1]
        ):
            items.score[at] = items.score[i - 1]
            items.seq[at] = items.seq[i - 1]
            i -= 1
        else:
            items.score[at] = extra.score[j - 1]
            items.seq[at] = extra.seq[j - 1]
            j -= 1
    return taken


@lean
def rank(items: Ranked) -> None:
    """Put the list in rank order. O(size log size); O(size) if sorted, either way."""
    size = items.size[0]
    score, seq = items.score, items.seq
    down = True
    up = True
    for at in range(1, size):
        if better(score[at], seq[at], score[at - 1], seq[at - 1]):
            down = False
        else:
            up = False
        if not (up or down):
            break
    if down:
        return
    if up:
        left, right = 0, size - 1
        while left < right:
            score[left], score[right] = score[right], score[left]
            seq[left], seq[right] = seq[right], seq[left]
            left += 1
            right -= 1
        return
    if len(items.size) > STACK:
        _quicksort(score, seq, size, items.size)
    else:
        _heapsort(score, seq, size)


@lean
def _quicksort(score: Floats, seq: Ints, size: int, stack: Ints) -> None:
    """Sort with a stack of bounds behind ``stack[0]``; short stretches by insertion."""
    low, high = 0, size - 1
    depth = 1
    while True:
        while high - low > 16:
            middle = (low + high) >> 1
            if better(score[middle], seq[middle], score[low], seq[low]):
                _swap(score, seq, low, middle)
            if better(score[high], seq[high], score[low], seq[low]):
                _swap(score, seq, low, high)
            if better(score[high], seq[high], score[middle], seq[middle]):
                _swap(score, seq, middle, high)
            pivot_score, pivot_seq = score[middle], seq[middle]
            i, j = low, high
            while i <= j:
                while better(score[i], seq[i], pivot_score, pivot_seq):
                    i += 1
                while better(pivot_score, pivot_seq, score[j], seq[j]):
                    j -= 1
                if i <= j:
                    _swap(score, seq, i, j)
                    i += 1
                    j -= 1
            if j - low < high - i:  # the shorter side first, so that the stack stays short
                stack[depth], stack[depth + 1] = i, high
                high = j
            else:
                stack[depth], stack[depth + 1] = low, j
                low = i
            depth += 2
        for at in range(low + 1, high + 1):
            one_score, one_seq = score[at], seq[at]
            to = at
            while to > low and better(one_score, one_seq, score[to - 1], seq[to - 1]):
                score[to] = score[to - 1]
                seq[to] = seq[to - 1]
                to -= 1
            score[to] = one_score
            seq[to] = one_seq
        if depth == 1:
            return
        depth -= 2
        low, high = stack[depth], stack[depth + 1]


@lean
def _heapsort(score: Floats, seq: Ints, size: int) -> None:
    for start in range(size // 2 - 1, -1, -1):
        _sift_worst(score, seq, start, size)
    for end in range(size - 1, 0, -1):
        _swap(score, seq, 0, end)
        _sift_worst(score, seq, 0, end)


@lean
def _sift_worst(score: Floats, seq: Ints, hole: int, size: int) -> None:
    """Restore a heap whose root is the worst object, below ``hole``."""
    one_score, one_seq = score[hole], seq[hole]
    while 2 * hole + 1 < size:
        child = 2 * hole + 1
        if child + 1 < size and better(score[child], seq[child], score[child + 1], seq[child + 1]):
            child += 1
        if not better(one_score, one_seq, score[child], seq[child]):
            break
        score[hole] = score[child]
        seq[hole] = seq[child]
        hole = child
    score[hole] = one_score
    seq[hole] = one_seq


@lean
def keep_best(items: Ranked, keep: int) -> None:
    """Drop all but the best ``keep`` objects of a list in no order. O(size) on average."""
    score, seq = items.score, items.seq
    low, high = 0, items.size[0] - 1
    items.size[0] = min(keep, items.size[0])
    while low < high:
        middle = (low + high) >> 1
        pivot_score, pivot_seq = score[middle], seq[middle]
        i, j = low, high
        while i <= j:
            while better(score[i], seq[i], pivot_score, pivot_seq):
                i += 1
            while better(pivot_score, pivot_seq, score[j], seq[j]):
                j -= 1
            if i <= j:
                _swap(score, seq, i, j)
                i += 1
                j -= 1
        if keep - 1 <= j:
            high = j
        elif keep - 1 >= i:
            low = i
        else:
            return


@lean
def rank_by_age(items: Ranked) -> None:
    """Put the list in order of age, the newest first. O(size log size)."""
    score, seq, size = items.score, items.seq, items.size[0]
    for start in range(size // 2 - 1, -1, -1):
        _sift_newest(score, seq, start, size)
    for end in range(size - 1, 0, -1):
        _swap(score, seq, 0, end)
        _sift_newest(score, seq, 0, end)


@lean
def _sift_newest(score: Floats, seq: Ints, hole: int, size: int) -> None:
    while 2 * hole + 1 < size:
        child = 2 * hole + 1
        if child + 1 < size and seq[child + 1] < seq[child]:
            child += 1
        if seq[hole] <= seq[child]:
            return
        _swap(score, seq, hole, child)
        hole = child


@lean
def _swap(score: Floats, seq: Ints, i: int, j: int) -> None:
    score[i], score[j] = score[j], score[i]
    seq[i], seq[j] = seq[j], seq[i]
