"""The approximate algorithm: EAA, with best scores by the chance that streams see an object, too.

Haghani, Michel, Aberer: Evaluating Top-k Queries over Incomplete Data Streams, CIKM 2009, sections
4 and 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skyband.engine.algorithm import Setting
from skyband.errors import QueryError
from skyband.incomplete.aggregation import EarlyAggregation, check_streams
from skyband.incomplete.best_score import Hopes, chances
from skyband.incomplete.combine import Rule
from skyband.incomplete.query import TopKIncomplete


class Approximate(EarlyAggregation):
    """Maintains the objects that may still matter if each comes as others did before it.

    As :class:`skyband.incomplete.eaa.Eaa`, but an attribute that was not seen is not worth the
    highest bound: it is worth that much of the way from the lowest to the highest as is the chance
    to see it, given all streams in which the object came. One sketch per stream, with the last
    window of each bit, counts distinct objects of the window; sums and differences of the counts of
    unions tell how many came in several streams.

    Answers may miss objects that were dropped and came again against the odds; no bound is known
    for how many. Answers that are given have scores that are never too high.

    Options: ``slack`` as of EAA; ``maps`` (256), bitmaps a sketch, a power of two: a count is off
    by about ``0.65 / sqrt(maps)`` of itself, counts of several streams by more.

    With ``repeats=("sum", m)`` an object is taken to come as often, at most, as the average row's
    does, by an AMS sketch of the self-join size, and never more than m times. With
    ``repeats="max"`` values that were seen are taken for known.

    Complexity: as of EAA, and O(2**streams * maps) for each thirty-second part of a window. Space:
    as of EAA, for fewer objects, and 256 bytes a bitmap.

    Deviations: chances of at most 8 streams; the self-join size over the rows stands for the
    maximum number of occurrences, of which the paper does not say how it follows from it.
    """

    name = "approximate"
    options = ("slack", "maps")

    def __init__(self, setting: Setting, query: TopKIncomplete) -> None:
        maps = setting.options.get("maps", 256)
        whole = isinstance(maps, int) and not isinstance(maps, bool)
        if not whole or not 1 <= maps <= 1 << 20 or maps & (maps - 1):
            raise QueryError(f"maps is {maps!r}", "a power of two", "leave it out")
        check_streams(query, self.name)
        self._maps = maps
        super().__init__(setting, query)

    def hopes(self, by: Rule) -> Hopes:
        """By chance."""
        return chances(by, self.setting.span, self._maps)

    def check_invariants(self, alive: Mapping[int, Any]) -> None:
        """``alive``: the id, stream number and value of each row so far, of a count window."""
        self.check_rows(alive)
