"""``skyband bench peers``: the same question on the same files, to Skyband and to others.

Every system reads the Parquet files of one stream of trades and writes the best of each window as
Parquet, alone on the machine, in a process of its own. Before it is timed its answers are compared
with the oracle's on few rows.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record
from benchmarks.peers.peer import PEERS, Peer, Running
from benchmarks.peers.question import Kind, Question
from benchmarks.peers.timing import Stream, Timed, beginnings, timed
from benchmarks.spark import stream

FILES = 16
STYLES = {
    "spark": ("#D55E00", "D"),
    "flink": ("#CC79A7", "P"),
    "duckdb": ("#C9B600", "p"),
    "duckdb-panes": ("#B8860B", "h"),
    "polars": ("#555555", "s"),
    "polars-panes": ("#000000", "*"),
    "skyband-local": ("#E69F00", "v"),
    "skyband": ("#0072B2", "o"),
    "skyband-scan": ("#009E73", "^"),
}
_TITLES: dict[Kind, str] = {"rows": "rows by price * volume", "totals": "sectors by sum(volume)"}


@dataclass(frozen=True)
class Peers:
    """Systems, and window / slide and k varied; totals for one k, which hardly matters to them."""

    rows: int = 20_000_000
    few: int = 20_000
    sectors: int = 10_000
    ratios: tuple[int, ...] = (1, 10, 60, 360)
    ks: tuple[int, ...] = (10, 100, 1000)
    totals_ks: tuple[int, ...] = (100,)
    limit: float = 60.0
    peers: tuple[Peer, ...] = PEERS
    name: str = field(default="peers", init=False)

    @classmethod
    def sized(cls, quick: bool, rows: int | None = None) -> Peers:
        """Over 2x10^7 rows, or fewer."""
        if quick:
            return cls(rows=rows or 400_000, few=5_000, ratios=(1, 60), ks=(100,))
        return cls(rows=rows or 20_000_000)

    @property
    def questions(self) -> list[Question]:
        """All that is asked."""
        by_kind: dict[Kind, tuple[int, ...]] = {"rows": self.ks, "totals": self.totals_ks}
        return [
            Question(kind, ratio, k)
            for kind, ks in by_kind.items()
            for k in ks
            for ratio in self.ratios
        ]

    def collect(self) -> list[Record]:
        """A record per system and question."""
        with tempfile.TemporaryDirectory(prefix="skyband-bench-") as name:
            home = Path(name)
            report.note(f"writing {self.rows:,} trades")
            return self._measure(home, self.written(home))

    def written(self, home: Path) -> Stream:
        """The rows of the stream, and those that answers are compared on.

        These are so dense that each slide has more than k rows: fewer would all be answers.
        """

        def write(rows: int) -> Path:
            folder = home / f"first-{rows}"
            return stream.write(folder, rows, self.rows, FILES, self.sectors)

        dense = 2 * max(self.ks + self.totals_ks) * stream.SLIDES
        few = stream.write(home / "few", self.few, dense, 4, self.sectors)
        sizes = beginnings(self.rows, self.few)
        for rows in sizes:
            write(rows)
        return Stream(few, sizes, write)

    def _measure(self, home: Path, rows: Stream) -> list[Record]:
        records: list[Record] = []
        with report.progress("peers", len(self.peers) * len(self.questions)) as step:
            for peer in self.peers:
                missing = peer.missing()
                if missing is not None:
                    report.note(missing)
                with Running(peer, home / peer.name) as running:
                    for question in self.questions:
                        if missing is None:
                            how = timed(running, question, rows, home / "answers", self.limit)
                        else:
                            how = Timed("missing", note=missing)
                        record = self._record(peer, question, how)
                        records.append(record)
                        if missing is None:  # hours may pass before there is a table
                            report.note(f"{peer.name}: {question}: {_cell(record)} rows/s")
                        step(f"{peer.name}: {question}")
        return records

    def _record(self, peer: Peer, question: Question, how: Timed) -> Record:
        return {
            "system": peer.name,
            "question": question.kind,
            "window_over_slide": question.ratio,
            "k": question.k,
            "stream_rows": self.rows,
            **asdict(how),
            "rows_per_s": how.rows_per_s,
        }

    def show(self, records: list[Record], console: Console) -> None:
        """One table, a line per question; then what went wrong, if anything did."""
        systems = list(dict.fromkeys(r["system"] for r in records))
        of = {_place(r): r for r in records}
        lines = [
            (
                question.kind, question.k, question.ratio,
                *(_cell(of.get((s, question.kind, question.ratio, question.k))) for s in systems),
            )
            for question in self.questions
        ]  # fmt: skip
        console.print(
            report.table(
                f"Rows per second of one stream of {self.rows:,} rows, {os.cpu_count()} cores",
                ("the k best", "k", "window/slide", *systems),
                lines,
                self._caption(records),
            )
        )

    def _caption(self, records: list[Record]) -> str:
        text = (
            f"rows: by price * volume; totals: of {self.sectors:,} sectors by sum(volume). From "
            "Parquet files to Parquet files, as a batch, every system alone in a process that has "
            "started. Each got ever longer beginnings of the stream, four times the rows each "
            f"time, until one took over {self.limit:g} s and was stopped, or would have taken half "
            "as long again, by the two before; then the speed is that of the longest it managed, "
            "whose rows stand in brackets. Before, the scores of all windows of "
            f"{self.few:,} rows were compared with the oracle's: where they differ, no time is "
            "shown. -panes: the same system with a query that takes the best of each slide first. "
            "spark: max_by over sliding windows. flink: window Top-N, time as its job reports it. "
            "skyband-local: without Spark, one thread ranks. skyband-scan: tasks read the files."
        )
        notes = {f"{r['system']}: {r['note']}": None for r in records if r["note"]}
        return "\n".join([text, *notes])

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """Rows per second against window / slide, a panel per k, hollow where it was stopped."""
        columns: list[tuple[Kind, int]] = [("rows", k) for k in self.ks]
        columns += [("totals", k) for k in self.totals_ks]
        figure, axes = report.panels(
            1,
            len(columns),
            "Rows per second as windows overlap more; hollow: stopped before the last row",
            panel=(3.8, 3.6),
            sharey=True,
        )
        for panel, (kind, k) in zip(axes[0], columns, strict=True):
            for system, (colour, marker) in STYLES.items():
                points = [
                    r
                    for r in records
                    if (r["system"], r["question"], r["k"]) == (system, kind, k) and r["rows_per_s"]
                ]
                _line(panel, points, system, colour, marker)
            report.over_ratios(panel, self.ratios)
            panel.set_title(f"{_TITLES[kind]}, k = {k:,}", loc="left")
        axes[0][0].set_ylabel("rows per second")
        report.legend(figure, axes[0])
        return report.save(figure, folder, self.name)


def _line(panel: Any, points: list[Record], system: str, colour: str, marker: str) -> None:
    """A line of a system over all ratios, and hollow markers over those where it was stopped."""
    if not points:
        return
    x, y = [r["window_over_slide"] for r in points], [r["rows_per_s"] for r in points]
    panel.plot(x, y, color=colour, marker=marker, label=system)
    stopped = [r for r in points if r["outcome"] != "answered"]
    panel.plot(
        [r["window_over_slide"] for r in stopped],
        [r["rows_per_s"] for r in stopped],
        color=colour,
        marker=marker,
        linestyle="",
        markerfacecolor="white",
    )


def _place(record: Record) -> tuple[str, str, int, int]:
    return record["system"], record["question"], record["window_over_slide"], record["k"]


def _cell(record: Record | None) -> str | None:
    """The speed of a system; with rows in brackets if it was stopped, or a word."""
    if record is None:
        return None
    outcome, speed = record["outcome"], record["rows_per_s"]
    if outcome == "answered":
        return f"{speed:,.0f}"
    if outcome == "missing":
        return "not installed"
    if outcome == "differs":
        return "differs"
    word = "" if outcome == "stopped" else f"{outcome} "
    return f"{word}{speed:,.0f} ({record['rows']:,})" if speed else f"{word or 'stopped '}(0)"
