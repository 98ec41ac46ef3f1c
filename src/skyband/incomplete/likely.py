"""Likely: keep the objects that are expected to answer enough windows, for an error that is set.

Ours, beside the approximate algorithm of Haghani, Michel, Aberer (CIKM 2009).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skyband.engine.algorithm import Setting
from skyband.errors import QueryError
from skyband.incomplete.aggregation import EarlyAggregation, check_streams
from skyband.incomplete.appearance_model import SPENT, Foresight, foresight
from skyband.incomplete.best_score import FORESIGHT, KIND, STREAMS, Hopes, certain
from skyband.incomplete.combine import Rule
from skyband.incomplete.query import TopKIncomplete


class Likely(EarlyAggregation):
    """Maintains the objects that are expected to be an answer often enough.

    An object is worth the number of windows in which it is expected to be an answer: how long it
    lives, times the probability that it reaches the score of an answer, given its values, the
    streams in which it came and how long ago that was. What is learnt for that, see
    :mod:`skyband.incomplete.appearance_model`. Objects worth less than a bar are dropped,
    unless they are answers now. The worth of all that is dropped in a while is the number of
    answers that windows are expected to miss; the bar moves so that this is the share
    ``error`` of all answers. So the error is an expectation: it holds as far as streams go on as
    they did, and objects come and score independently of each other given what is learnt.

    Options: ``error`` (0.05), the share of answers that may be missed, 0 for none, as EAA;
    ``sample`` (64, or four times the number of sets of streams), objects that are followed through
    all streams; ``slack`` as of EAA.

    Complexity: as of EAA with a larger constant; tables of O(2**streams * streams) are made for
    each thirty-second part of a window. Space: as of EAA, for fewer objects, and constant space to
    learn.
    """

    name = "likely"
    options = ("slack", "error", "sample")

    def __init__(self, setting: Setting, query: TopKIncomplete) -> None:
        error = setting.options.get("error", 0.05)
        if not isinstance(error, (int, float)) or isinstance(error, bool) or not 0 <= error < 1:
            raise QueryError(
                f"error is {error!r}", "the share of answers that may be missed", "write error=0.05"
            )
        sample = setting.options.get("sample", max(64, 4 << min(len(query.streams), STREAMS)))
        if not isinstance(sample, int) or isinstance(sample, bool) or not 1 <= sample <= 1 << 20:
            raise QueryError(f"sample is {sample!r}", "a number of objects", "leave it out")
        check_streams(query, self.name)
        self.error, self._sample = float(error), sample
        super().__init__(setting, query)

    def hopes(self, by: Rule) -> Hopes:
        """The highest bounds: what is surely dominated is worth nothing."""
        found = certain(by)
        if self.error:
            found.numbers[KIND] = FORESIGHT
        return found

    def ahead(self, by: Rule) -> Foresight:
        """Nothing yet."""
        return foresight(by, self.setting.k, self.setting.span, self.error, self._sample)

    def counters(self) -> dict[str, float]:
        """Work counters, and the share of answers that windows are expected to miss now."""
        found = super().counters()
        del found["broken_promises"]  # objects that were dropped are taken for complete
        return {**found, "expected_error": float(self.state.ahead.marks[SPENT]) / self.setting.k}

    def check_invariants(self, alive: Mapping[int, Any]) -> None:
        """``alive``: the id, stream number and value of each row so far, of a count window."""
        self.check_rows(alive)
