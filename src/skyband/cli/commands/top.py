"""``skyband top``: the rows of a file with the best scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from typing_extensions import override

from skyband.cli import options
from skyband.cli.commands.file_query import Explanation, FileFacts, FileQuery, Given, QueryOptions
from skyband.cli.input import expressions
from skyband.cli.input.source import FileSource
from skyband.cli.output.explanation import held_in, opening_lines, per_window, shared_metrics
from skyband.query import TopK
from skyband.topk.estimates import candidates_of_rows


@dataclass(frozen=True)
class TopFileOptions(QueryOptions):
    """The options of ``top``; ``explain`` does without ``by``."""

    query: TopK

    @classmethod
    @override
    def meant_by(cls, given: Given) -> bool:
        return True

    @classmethod
    @override
    def parse(cls, given: Given) -> Self:
        from skyband.topk import ALGORITHMS

        window = options.window_of(given)
        k = options.whole(given["k"], "--k", example=10)
        query = TopK(k, window, options.emit_of(given), **options.order_of(given))
        algorithm = options.choice(given["algorithm"], "--algorithm", ("auto", *ALGORITHMS))
        return cls(given["by"], given["time"], given["partition_by"] or [], algorithm, query)

    @override
    def check(self, source: FileSource) -> FileQuery:
        score = expressions.Number("0.0")
        if self.by is not None:
            score = expressions.number(source, self.by)
        time, keys = self.time_and_keys(source, self.query.window)
        numbers = {"score": score.sql}
        return FileQuery(self.query, self.algorithm, numbers, time, keys, scale=score.scale)

    @override
    def look_up(self, source: FileSource, query: FileQuery) -> Any:
        """The scores that ``auto`` would decide on, if the engine would look at them."""
        if self.by is None or self.time is not None or self.partition_by:
            return None
        batch = next(query.rows(source), None)
        return None if batch is None else query.staged(batch.column("score"), "score")[0]

    @override
    def explain(self, facts: FileFacts | None) -> Explanation:
        from skyband.engine.plan import Plan
        from skyband.topk.planner import plan

        chosen = Plan(self.algorithm, ("asked for by name",))
        if self.algorithm == "auto":
            chosen = plan(self.query, None if facts is None else facts.more)
        window = self.query.window
        lines = opening_lines(self, self.query, facts, chosen)
        objects = per_window(window, facts)
        guess = _NOTHING if objects is None else _candidates(self.query, objects)
        if objects is None:
            unknown = "depend on how many objects a window holds: name a FILE to find out"
            lines.append(("candidates", unknown))
        else:
            content = held_in(window, objects, "objects")
            most = f"at most {guess.mintopk_most:,}, k for each open window"
            lines += [
                ("candidates", f"{content}; of scores in random order are kept:"),
                ("", f"k-skyband: about {guess.kskyband:,}, by single objects"),
                ("", f"MinTopk: about {guess.mintopk:,}, by slides; {most}"),
                ("", f"SAP: about {guess.sap:,}, by partitions"),
            ]
        candidates = {f"candidates_{name}": count for name, count in guess._asdict().items()}
        return Explanation(lines, shared_metrics(self, self.query, facts, chosen) | candidates)


FAMILY = TopFileOptions


class _Candidates(NamedTuple):
    """Candidates of each algorithm for scores in random order, if they can be known."""

    kskyband: int | None
    mintopk: int | None
    mintopk_most: int | None
    sap: int | None


_NOTHING = _Candidates(None, None, None, None)


def _candidates(query: TopK, objects: float) -> _Candidates:
    """Candidates for scores in random order.

    Of m equal parts of a window k(1/1 + 1/2 + ... + 1/m) are kept, see
    :mod:`skyband.topk.estimates`: the k-skyband has single objects for parts; MinTopk has slides;
    SAP has m* = ceil(sqrt(n / max(s, k))) partitions. In the worst case MinTopk keeps k for each
    of the ceil(n/s) open windows.
    """
    k, window = query.k, query.window
    if window.panes.together:
        return _Candidates(*[math.ceil(min(objects, k))] * 4)
    slide = objects * window.slide / window.size
    slides = math.ceil(window.size / window.slide)
    skyband = candidates_of_rows(k, objects)
    mintopk = min(skyband, k * _harmonic(slides))
    sap = min(skyband, k * _harmonic(math.ceil(math.sqrt(objects / max(slide, k)))))
    counts = (skyband, mintopk, k * slides, sap)
    return _Candidates(*(math.ceil(min(objects, count)) for count in counts))


def _harmonic(terms: int) -> float:
    """1/1 + 1/2 + ... + 1/terms."""
    if terms < 100:
        return sum(1 / term for term in range(1, terms + 1))
    return math.log(terms) + 0.5772156649015329 + 1 / (2 * terms)
