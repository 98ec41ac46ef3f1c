"""Safe intervals: until which tick a point cannot be among the k best."""

from __future__ import annotations

from skyband.dominating.events.counting import later_dominators
from skyband.dominating.events.state import ADVANCED, K, State, clock, expiry
from skyband.kernels.jit import lean


@lean
def safe_until(state: State, seq: int, slot: int, score: int) -> int:
    """The first tick at which a point with at most this score may be an answer.

    The k best must be complete. EVA uses SI_1, ADA SI_2.
    """
    ahead = 0
    if state.numbers[ADVANCED]:
        ahead = min(later_dominators(state, seq, slot), state.numbers[K] - 1)
    return safe_behind(state, score, ahead)


@lean
def safe_behind(state: State, score: int, ahead: int) -> int:
    """:func:`safe_until` for a point that ``ahead`` others outrank for life, none of them in top.

    While ``gone`` of the k best have expired, the point is no answer if ``k - ahead`` of the others
    outrank it, and the (k - ahead + gone)-th best score of now bounds those from below, even if the
    expired ones were the best of all. So for each ``gone`` the point is safe from the ``gone``-th
    expiry on until its score may have reached that of rank ``k - ahead + gone``, or until the next
    expiry, when the next ``gone`` counts; after ``ahead`` expiries nothing is known. The condition
    is monotonous in ``gone``, so halving finds the first rank that may be reached. O(log k).

    With ``ahead = 0`` this is SI_1 of the paper; its SI_2 looks at ``gone = 0`` only, which is too
    long an interval if one of the best expires first.
    """
    k, now = state.numbers[K], clock(state.held)
    low, high = 0, ahead + 1
    while low < high:
        gone = (low + high) >> 1
        reached = now + int(state.best.score[k - ahead + gone - 1]) - score
        if reached < expiry(state, state.ages[gone]):
            high = gone
        else:
            low = gone + 1
    if low > ahead:
        return expiry(state, state.ages[ahead])
    start = now if low == 0 else expiry(state, state.ages[low - 1])
    return max(now + int(state.best.score[k - ahead + low - 1]) - score, start)
