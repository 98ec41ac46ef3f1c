"""A table of the paper: some algorithms over some data sets while one parameter varies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.console import Console

from benchmarks import report
from benchmarks.measure import Measured, Point, Record, best_of, part, resident
from benchmarks.papers import published

FOLDER = Path(__file__).parent
DATASETS = ("stock", "trip", "planet", "time_u", "time_r")
_QUICK = ("stock", "time_u", "time_r")

Metric = Literal["time", "candidates", "memory"]
Settings = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Regime:
    """The settings of a set of experiments, as printed, and the streams that we run them on.

    ``total`` is the number of objects, ``|D|``, that windows are a percentage of; ``objects`` is
    how many of them we feed, from object ``start`` on.
    """

    settings: Settings
    defaults: Mapping[str, str]
    total: Mapping[str, int]
    objects: Mapping[str, int]
    start: Mapping[str, int] = field(default_factory=dict)
    budget: float = 8.0
    repeats: int = 2

    def numbers(self, dataset: str, parameter: str, value: str) -> tuple[int, int, int]:
        """The query (n, s, k) in objects when one parameter departs from its default."""
        given = {**self.defaults, parameter: value}
        n = max(round(published.amount(given["n"]) * self.total[dataset]), 1)
        s = max(round(published.amount(given["s"]) * n), 1)
        return n, s, int(given["k"])


def _each(usual: int, **others: int) -> dict[str, int]:
    return {name: others.get(name, usual) for name in DATASETS}


# The paper gives |D| in bytes; in objects it is assumed. m* = 11 pins PLANET to 1.0 .. 1.2 x 10^7,
# the sizes in bytes make STOCK and TRIP about eight times that. TIME_U and TIME_R are not pinned:
# m* is 32 for every n from 10^5 on. See "What the papers leave open" in benchmarks/README.md.
REGULAR = Regime(
    {
        "n": ("0.01%", "0.05%", "0.1%", "0.5%", "1%"),
        "k": ("10", "50", "100", "500", "1000"),
        "s": ("0.01%", "0.05%", "0.1%", "1%", "5%", "10%"),
    },
    {"n": "0.1%", "k": "100", "s": "0.1%"},
    total=_each(100_000_000, planet=11_000_000),
    objects=_each(2_500_000, time_r=4_000_000),  # TIME_R in whole periods
)
REGULAR_QUICK = replace(
    REGULAR,
    settings={
        "n": ("0.01%", "0.05%", "0.1%"),
        "k": ("10", "100", "1000"),
        "s": ("0.01%", "0.1%", "10%"),
    },
    objects=_each(300_000),
    start={"time_r": 350_000},  # around a crest: as much rise as fall
    budget=1.0,
    repeats=1,
)
HIGH_SPEED = Regime(
    {
        "n": ("10%", "20%", "30%", "40%", "50%"),
        "k": ("500", "1000", "5000", "10000", "50000"),
        "s": ("0.01%", "0.1%", "1%", "2%", "5%", "10%"),
    },
    {"n": "50%", "k": "1000", "s": "2%"},
    total=_each(20_000_000, planet=10_000_000),
    objects=_each(20_000_000, planet=10_000_000),
)
HIGH_SPEED_QUICK = replace(
    HIGH_SPEED,
    settings={"n": ("10%", "50%"), "k": ("500", "1000", "5000"), "s": ("0.1%", "2%", "10%")},
    total=_each(1_000_000),
    objects=_each(1_000_000),
    budget=1.0,
    repeats=1,
)

_UNITS = {
    "time": ("ns/object", "s"),
    "candidates": ("candidates", "candidates"),
    "memory": ("KB", "KB"),
}


@cache
def printed() -> dict[tuple[str, str, str, str, str], float]:
    """The paper's numbers by table, data set, parameter, value and algorithm."""
    return {
        (row["table"], row["dataset"], row["parameter"], row["value"], row["algorithm"]): float(
            row["number"]
        )
        for row in published.rows(FOLDER)
    }


@lru_cache(maxsize=4096)
def _run(
    dataset: str, start: int, objects: int, point: Point, budget: float, repeats: int
) -> Measured:
    """Run a point, cached: several tables show different columns of the same runs."""
    stream = part(resident(dataset, start + objects), start, start + objects)
    return best_of(point, stream, budget=budget, repeats=repeats, enough=0.5)


@dataclass(frozen=True)
class Sweep:
    """One table: what it compares, how it is measured, and notes on it."""

    table: str
    title: str
    metric: Metric
    algorithms: tuple[str, ...]
    base: str
    regime: Regime
    remark: str = ""
    thousands: bool = False  # the paper prints thousands
    datasets: tuple[str, ...] = DATASETS
    # by the paper's names: the algorithm that we run, and its options
    variants: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of its figure."""
        return f"sap_table{self.table}"

    def sized(self, quick: bool) -> Sweep:
        """The whole table, or a part of it over shorter streams."""
        if not quick:
            return self
        smaller = HIGH_SPEED_QUICK if self.regime is HIGH_SPEED else REGULAR_QUICK
        if "m" in self.regime.settings:
            smaller = replace(smaller, settings={"m": ("5", "11", "21", "33")})
        return replace(self, regime=smaller, datasets=_QUICK)

    def settings(self) -> Iterator[tuple[str, str]]:
        """Parameter and value, as printed."""
        for parameter, values in self.regime.settings.items():
            for value in values:
                yield parameter, value

    def point(self, dataset: str, parameter: str, value: str, algorithm: str) -> Point:
        """The query of a cell, and the algorithm that answers it."""
        n, s, k = self.regime.numbers(dataset, parameter, value)
        runs, options = self.variants.get(algorithm, (algorithm, {}))
        if parameter == "m":
            options = {**options, "partitions": int(value)}
        return Point(runs, n, s, k, options=tuple(sorted(options.items())))

    def collect(self) -> list[Record]:
        """One record per cell of the table."""
        settings = list(self.settings())
        records: list[Record] = []
        total = len(self.datasets) * len(settings) * len(self.algorithms)
        with report.progress(f"table {self.table}", total) as step:
            for dataset in self.datasets:
                for parameter, value in settings:
                    row = {}
                    for algorithm in self.algorithms:
                        row[algorithm] = self._cell(dataset, parameter, value, algorithm)
                        step(f"{dataset} {parameter}={value} {algorithm}")
                    base = self.sound(row[self.base])
                    for record in row.values():
                        mine = self.sound(record)
                        for side in _SIDES:
                            record[f"{side}_ratio"] = report.ratio(mine[side], base[side])
                    records += row.values()
        return records

    def _cell(self, dataset: str, parameter: str, value: str, algorithm: str) -> Record:
        regime = self.regime
        point = self.point(dataset, parameter, value, algorithm)
        start = regime.start.get(dataset, 0)
        run = _run(dataset, start, regime.objects[dataset], point, regime.budget, regime.repeats)
        return {
            "paper": "sap",
            "table": self.table,
            "dataset": dataset,
            "parameter": parameter,
            "value": value,
            "algorithm": algorithm,
            "metric": self.metric,
            "measured": self._measured(run),
            "published": printed().get((self.table, dataset, parameter, value, algorithm)),
            "unit": _UNITS[self.metric][0],
            "published_unit": _UNITS[self.metric][1],
            "base": self.base,
            "n": point.n,
            "s": point.s,
            "k": point.k,
            "objects": run.objects,
            "complete": run.complete,
            "ns_per_object": run.ns_per_object,
            "candidates": run.candidates,
            "meaningful": run.counters["meaningful"],
            "state_bytes": run.state_bytes,
            "window_bytes": run.window_bytes,
        }

    def _measured(self, run: Measured) -> float:
        if self.metric == "time":
            return run.ns_per_object
        if self.metric == "memory":
            return (run.state_bytes - run.window_bytes) / 1024
        return run.candidates / (1000 if self.thousands else 1)

    def show(self, records: list[Record], console: Console) -> None:
        """The table with the paper's numbers beside ours, then how well they agree."""
        ours, theirs = _UNITS[self.metric]
        if self.thousands:
            ours = theirs = "thousands"
        others = [a for a in self.algorithms if a != self.base]
        columns = ["data set", "query"]
        for algorithm in self.algorithms:
            columns += [f"{algorithm}\nours, {ours}", f"\npaper, {theirs}"]
        for algorithm in others:
            columns += [f"{algorithm} / {self.base}\nours", "\npaper"]
        cells = _cells(records)
        rows: list[list[Any]] = []
        for dataset in self.datasets:
            for parameter, value in self.settings():
                row: list[Any] = [dataset, f"{parameter} = {value}"]
                for algorithm in self.algorithms:
                    record = cells[dataset, parameter, value, algorithm]
                    mark = "" if record["complete"] else " *"
                    row += [report.number(record["measured"]) + mark, record["published"]]
                for algorithm in others:
                    record = cells[dataset, parameter, value, algorithm]
                    row += [record["measured_ratio"], record["published_ratio"]]
                rows.append(row)
        console.print(
            report.table(f"Table {self.table}: {self.title}", columns, rows, self.caption())
        )
        console.print(self._agreement(records))

    def caption(self) -> str:
        """What the numbers are taken from."""
        fed = sorted({self.regime.objects[dataset] for dataset in self.datasets})
        lengths = " or ".join(f"{length:,}" for length in fed)
        total = sorted({self.regime.total[dataset] for dataset in self.datasets})
        totals = " or ".join(f"{length:,}" for length in total)
        defaults = ", ".join(f"{p} = {v}" for p, v in self.regime.defaults.items())
        return (
            f"Otherwise {defaults}. Windows are percentages of |D| = {totals} objects (assumed), "
            f"of which ours had {lengths}. * stopped by the time budget. {self.remark}"
        )

    def _agreement(self, records: list[Record]) -> Any:
        """Rank correlation per data set, and the ratios on average over its settings."""
        records = [self.sound(record) for record in records]
        others = [a for a in self.algorithms if a != self.base]
        columns = ["data set", *(f"{a}\nrank correlation" for a in self.algorithms)]
        for algorithm in others:
            columns += [f"{algorithm} / {self.base}\nours, mean", "\npaper, mean"]
        columns.append("smallest is\nthe same")
        rows: list[list[Any]] = []
        for dataset in (*self.datasets, "all"):
            mine = [r for r in records if dataset in (r["dataset"], "all")]
            row: list[Any] = [dataset]
            for algorithm in self.algorithms:
                cells = [r for r in mine if r["algorithm"] == algorithm]
                row.append(
                    published.agreement(
                        [r["measured"] for r in cells], [r["published"] for r in cells]
                    )
                )
            for algorithm in others:
                cells = [r for r in mine if r["algorithm"] == algorithm]
                row += [_mean([r[f"{side}_ratio"] for r in cells]) for side in _SIDES]
            rows.append([*row, self._same_winner(mine)])
        return report.table(
            f"Table {self.table}: agreement",
            columns,
            rows,
            "Rank correlation (Spearman) of ours with the paper's over the settings: 1 = same "
            "order. Means of ratios are geometric.",
        )

    def _same_winner(self, records: list[Record]) -> str:
        rows: dict[tuple[str, str, str], list[Record]] = {}
        for record in records:
            key = (record["dataset"], record["parameter"], record["value"])
            rows.setdefault(key, []).append(record)
        same = 0
        for row in rows.values():
            if all(record[side] is not None for record in row for side in _SIDES):
                smallest = min(row, key=lambda r: r["measured"])["published"]
                same += smallest == min(record["published"] for record in row)
        return f"{same} of {len(rows)}"

    def sound(self, record: Record) -> Record:
        """A record without its number where a run stopped early and never saw the whole stream.

        Time per object is still reported then; candidates and memory are not.
        """
        if record["complete"] or self.metric == "time":
            return record
        return {**record, "measured": None}

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """A panel per data set and parameter; times as a share of a reference."""
        parameters = list(self.regime.settings)
        single = len(parameters) == 1
        rows, columns = (1, len(self.datasets)) if single else (len(self.datasets), len(parameters))
        figure, axes = report.panels(
            rows, columns, f"SAP, Table {self.table}: {self.title}", panel=(3.4, 2.3)
        )
        cells = _cells([self.sound(record) for record in records])
        for place, dataset in enumerate(self.datasets):
            for column, parameter in enumerate(parameters):
                panel = axes[0][place] if single else axes[place][column]
                self._panel(panel, cells, dataset, parameter)
                panel.set_title(dataset, loc="left")
                if (place if single else column) == 0:
                    panel.set_ylabel(self._axis())
        report.legend(figure, [panel for row in axes for panel in row])
        return report.save(figure, folder, self.name)

    def _axis(self) -> str:
        if self.metric == "time":
            single = len(self.regime.settings) == 1
            return "time / shortest" if single else f"time / time of {self.base}"
        if self.metric == "memory":
            return "KB of candidates"
        return "thousand candidates" if self.thousands else "candidates"

    def _panel(self, panel: Any, cells: dict[Any, Record], dataset: str, parameter: str) -> None:
        values = self.regime.settings[parameter]
        places = list(range(len(values)))
        for side in _SIDES:
            lines = {
                a: [cells[dataset, parameter, v, a][side] for v in values] for a in self.algorithms
            }
            if self.metric == "time":
                lines = self._relative(lines)
            for algorithm, line in lines.items():
                report.curve(panel, places, line, algorithm, published=side == "published")
        step = 2 if len(values) > 8 else 1
        panel.set_xticks(places[::step], values[::step])
        panel.set_xlabel(parameter)
        panel.set_yscale("log")
        if self.metric == "time":
            panel.axhline(1, color="#777777", linewidth=0.8, zorder=0)
        report.plain_ticks(panel)

    def _relative(self, lines: dict[str, list[Any]]) -> dict[str, list[Any]]:
        """Times of different machines side by side: over the base, or over the shortest of all."""
        if len(self.regime.settings) == 1:
            known = [v for line in lines.values() for v in line if v is not None]
            shortest = min(known, default=None)
            return {a: [report.ratio(v, shortest) for v in line] for a, line in lines.items()}
        base = lines[self.base]
        return {
            a: [report.ratio(v, b) for v, b in zip(line, base, strict=True)]
            for a, line in lines.items()
            if a != self.base
        }


_SIDES = ("measured", "published")


def _cells(records: list[Record]) -> dict[tuple[str, str, str, str], Record]:
    return {(r["dataset"], r["parameter"], r["value"], r["algorithm"]): r for r in records}


def _mean(ratios: list[float | None]) -> float | None:
    known = [ratio for ratio in ratios if ratio]
    return float(np.exp(np.mean(np.log(known)))) if known else None
