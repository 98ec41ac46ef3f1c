"""The question that all peers are asked, and how their answers are compared with the oracle's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.spark import stream
from benchmarks.spark.stream import SLIDE

Kind = Literal["rows", "totals"]
Answers = dict[int, list[float]]
"""The best scores of each window, best first, by its end in microseconds."""


@dataclass(frozen=True)
class Question:
    """The k best of every sliding window: rows by price * volume, or sectors by sum(volume).

    ``ratio`` is window / slide; every row belongs to so many windows. All windows that hold a row
    are to be answered, also the last ones, which no later row completes.
    """

    kind: Kind
    ratio: int
    k: int

    @property
    def seconds(self) -> int:
        """The length of a window."""
        return SLIDE * self.ratio

    def __str__(self) -> str:
        return f"{self.kind}, k {self.k:,}, window/slide {self.ratio}"


def expected(question: Question, folder: Path) -> Answers:
    """The oracle: sort the rows of every window, or add them up by sector."""
    if question.kind == "rows":
        at, _ = stream.scores(folder)
        slide = SLIDE * 1_000_000
        last_end = (int(at[-1]) // slide + question.ratio) * slide
        return stream.windows(folder, question.seconds, question.k, last_end)
    return _totals(question, folder)


def _totals(question: Question, folder: Path) -> Answers:
    table = pq.read_table(folder, columns=["ts", "sector", "volume"])
    slide = SLIDE * 1_000_000
    pane = table["ts"].to_numpy().astype("datetime64[us]").astype(np.int64) // slide
    sector = table["sector"].combine_chunks().dictionary_encode()
    first = int(pane.min())
    sums = np.zeros((int(pane.max()) - first + 1, len(sector.dictionary)), np.int64)
    np.add.at(sums, (pane - first, sector.indices.to_numpy()), table["volume"].to_numpy())
    answers: Answers = {}
    for last in range(len(sums) + question.ratio - 1):  # the last pane of a window
        totals = sums[max(0, last - question.ratio + 1) : last + 1].sum(axis=0)
        ranked = np.sort(totals[totals > 0])[::-1][: question.k]  # each volume is 1 or more
        if len(ranked):
            answers[(first + last + 1) * slide] = ranked.astype(float).tolist()
    return answers


def answered(folder: Path) -> Answers:
    """What a peer wrote: Parquet files with the columns ``window_end`` and ``score``.

    Ends are timestamps or microseconds. Rows may come in any order, for some peers rank nothing.
    """
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and _is_data(path)]
    tables = [pq.ParquetFile(file).read(["window_end", "score"]) for file in files]
    ends = pa.chunked_array([c for t in tables for c in _micros(t["window_end"]).chunks], "int64")
    scores = [c for t in tables for c in pc.cast(t["score"], "float64").chunks]
    end, score = ends.to_numpy(), pa.chunked_array(scores, "float64").to_numpy()
    order = np.lexsort((-score, end))
    distinct, starts = np.unique(end[order], return_index=True)
    bounds = [*starts.tolist(), len(order)]
    ranked = score[order].tolist()
    return {int(e): ranked[bounds[i] : bounds[i + 1]] for i, e in enumerate(distinct)}


def _is_data(path: Path) -> bool:
    return path.stat().st_size > 0 and not path.name.startswith((".", "_"))


def _micros(ends: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(ends.type):
        return ends.cast(pa.timestamp("us", ends.type.tz)).cast("int64")
    return ends.cast("int64")


def difference(question: Question, source: Path, target: Path) -> str | None:
    """What is wrong with a peer's answers, in words; None if they are the oracle's."""
    right, theirs = expected(question, source), answered(target)
    ends = right.keys() | theirs.keys()
    wrong = sum(right.get(end) != theirs.get(end) for end in ends)
    if not wrong:
        return None
    return f"{wrong:,} of {len(ends):,} windows ({len(theirs):,} answered, {len(right):,} expected)"
