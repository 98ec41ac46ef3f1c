"""A table or figure of the paper: some algorithms along one parameter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record
from benchmarks.papers import published
from benchmarks.papers.incomplete.running import ALLOWED, FULL, QUICK, Effort, Point, run

FOLDER = Path(__file__).parent
ALGORITHMS = ("sla", "eaa", "approximate", "likely")
METRICS = ("items", "precision", "relative_error")
AXES = {"streams": "streams", "window": "rows in the window", "k": "k", "xi": "xi"}
LABELS = {"items": "objects kept", "precision": "precision", "relative_error": "relative error"}


@cache
def printed(table: str) -> dict[tuple[Point, str], float]:
    """What the paper prints, by point and metric."""
    return {
        (
            Point(
                row["algorithm"],
                int(row["streams"]),
                int(row["window"]),
                int(row["k"]),
                float(row["xi"]) if row["xi"] else None,
            ),
            row["metric"],
        ): float(row["number"])
        for row in published.rows(FOLDER)
        if row["table"] == table
    }


def record(table: str, point: Point, effort: Effort) -> Record:
    """What was measured at a point, and what the paper prints of it."""
    cost = run(point, effort)
    paper = {f"published_{m}": printed(table).get((point, m)) for m in METRICS}
    return {
        "paper": "incomplete",
        "table": table,
        "streams": point.streams,
        "window": point.window,
        "k": point.k,
        "xi": point.xi,
        "algorithm": point.algorithm,
        **cost._asdict(),
        **paper,
    }


@dataclass(frozen=True)
class Sweep:
    """One table or figure: its points, and what varies; ``by`` makes panels."""

    table: str
    title: str
    axis: str
    points: tuple[Point, ...]
    by: str = ""
    metrics: tuple[str, ...] = ("items", "precision")
    effort: Effort = FULL
    remark: str = ""

    @property
    def name(self) -> str:
        """The name of its figure."""
        return f"incomplete_{self.table}"

    @property
    def spoken(self) -> str:
        """Its name in the paper."""
        name = self.table.rstrip("abcd")
        return name.replace("figure", "Figure ").replace("table", "Table ")

    def sized(self, quick: bool) -> Sweep:
        """All of it, or fewer rows of one seed."""
        return replace(self, effort=QUICK) if quick else self

    def collect(self) -> list[Record]:
        """One record per point."""
        records = []
        with report.progress(self.spoken, len(self.points)) as step:
            for one in self.points:
                step(f"{self.axis} {getattr(one, self.axis)} {one.algorithm}")
                records.append(record(self.table, one, self.effort))
        return records

    def show(self, records: list[Record], console: Console) -> None:
        """Ours, and the paper's numbers where it prints any."""
        rows = []
        for r in records:
            where = (r["streams"], r["window"], r["k"], r["xi"], r["algorithm"])
            compared = [cell for m in METRICS for cell in (r[m], r[f"published_{m}"])]
            rows.append((*where, *compared, r["instances"], r["tuples_per_s"]))
        columns = (
            "streams", "window", "k", "xi", "algorithm", "items", "paper", "precision", "paper",
            "relative error", "paper", "instances", "tuples/s",
        )  # fmt: skip
        caption = (
            f"{self.effort.seeds} streams of {self.effort.windows} windows each, answered after "
            f"every row. likely may miss {ALLOWED:.0%} of the answers. {self.remark}"
        )
        console.print(report.table(f"{self.spoken}: {self.title}", columns, rows, caption.strip()))

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """The metrics along the parameter; published numbers hollow."""
        groups = sorted({r[self.by] for r in records}) if self.by else [None]
        figure, axes = report.panels(
            len(groups), len(self.metrics), f"{self.spoken}: {self.title}", panel=(4.2, 3.0)
        )
        for line, group in zip(axes, groups, strict=True):
            panel_records = [r for r in records if group is None or r[self.by] == group]
            for panel, metric in zip(line, self.metrics, strict=True):
                for algorithm in dict.fromkeys(r["algorithm"] for r in panel_records):
                    of_algorithm = [r for r in panel_records if r["algorithm"] == algorithm]
                    x = [r[self.axis] for r in of_algorithm]
                    report.curve(panel, x, [r[metric] for r in of_algorithm], algorithm)
                    paper = [r[f"published_{metric}"] for r in of_algorithm]
                    report.curve(panel, x, paper, algorithm, published=True)
                panel.set_xticks(sorted({r[self.axis] for r in panel_records}))
                panel.set_xlabel(AXES[self.axis])
                panel.set_ylabel(LABELS[metric])
                panel.set_ylim(bottom=0)
                if group is not None:
                    panel.set_title(f"{AXES[self.by]}: {group:,}", loc="left")
        report.legend(figure, [panel for line in axes for panel in line])
        return report.save(figure, folder, self.name)
