"""EAA, the early aggregation algorithm: keep what is not surely outranked for the rest of its life.

Haghani, Michel, Aberer: Evaluating Top-k Queries over Incomplete Data Streams, CIKM 2009.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skyband.incomplete.aggregation import KEPT, EarlyAggregation, knows_scores, settle
from skyband.incomplete.best_score import Hopes, certain
from skyband.incomplete.combine import Rule
from skyband.incomplete.invariants import check_dominance


class Eaa(EarlyAggregation):
    """Maintains the objects, and of each the rows, that may still matter to an answer.

    The *instance* of an object for a window is what it will be there if nothing more arrives: made
    of the rows that live that long. It has a current score, and a best score that it may reach
    until it expires: what was seen is known, what was seen and will have expired counts least, and
    what was not seen may be the highest. An instance is dominated by one of another object that
    lives at least as long and whose current score is higher than its best. Current scores only
    rise, best scores only fall: once dominated, always dominated.

    Instances of one last window live equally long. So one threshold per last window tells who is
    dominated by ``k`` objects: the k-th best, over distinct objects, of the current scores that
    live at least that long. A sweep from the newest rows to the oldest finds all of them with one
    heap, and no counters.

    With ``repeats="max"`` a value may be seen again, so nothing is known for sure: there, the best
    score of a row is what the object can reach while that very row matters.

    Options: ``slack`` (0.5), the share of rows that may arrive before the next sweep. With 0 there
    is one at every answer, and what is kept then is the k dominance set and nothing else.

    Invariants: (1) the rows kept are rows of the window; (2) an instance that is not kept has k
    dominators among those kept; (3) after a sweep, an instance that is kept has fewer than k, its
    best score being as high as the rows kept allow; (4) objects know their scores.

    Complexity: O(streams) per arrival, and a sweep of O(kept (streams + log k)) for every
    ``slack * kept`` arrivals; O(k) for a change among the best. Space: O(k dominance set).

    A sweep within a step is as right as one after it: who has come will be there when it ends.

    Deviations: thresholds instead of counters and lists of dominators; windows instead of moments
    as expiry times; sweeps.
    """

    name = "eaa"

    def hopes(self, by: Rule) -> Hopes:
        """The highest bounds."""
        return certain(by)

    def check_invariants(self, alive: Mapping[int, Any]) -> None:
        """``alive``: the id, stream number and value of each row so far, of a count window."""
        settle(self.state, 0)
        kept = self.held_rows()
        count = int(self.state.numbers[KEPT])
        check_dominance(
            self.query, self.setting.k, self.last_window, alive, kept, self.seen(), count
        )
        assert knows_scores(self.state.held), "4"
