"""Output of results in one style: tables on stdout, JSON, figures."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from benchmarks.measure import Record
    from benchmarks.study import Study

RESULTS = Path(__file__).parent / "results"

# One colour and one marker per algorithm in every figure (Okabe and Ito's colours, which people
# with any kind of colour vision can tell apart).
STYLES: dict[str, tuple[str, str]] = {
    "sap": ("#0072B2", "o"),
    "sap-dynamic": ("#56B4E9", "s"),
    "sap-equal": ("#009E73", "^"),
    "mintopk": ("#D55E00", "D"),
    "pretopk": ("#E69F00", "v"),
    "kskyband": ("#CC79A7", "P"),
    "sma": ("#555555", "X"),
    "tma": ("#C9B600", "p"),
    "recompute": ("#000000", "*"),
    "auto": ("#B8860B", "h"),
    "non-delay": ("#D55E00", "D"),
    "algorithm-1": ("#009E73", "^"),
    "algorithm-1+s-avl": ("#0072B2", "o"),
    "independent": ("#D55E00", "D"),
    "mtopband": ("#E69F00", "v"),
    "mtoplist": ("#009E73", "^"),
    "mtopmerge": ("#0072B2", "o"),
    "bfa": ("#000000", "*"),
    "eva": ("#D55E00", "D"),
    "ada": ("#009E73", "^"),
    "ahba": ("#E69F00", "v"),
    "ahba 0.95": ("#CC79A7", "P"),
    "ahba 0.99": ("#56B4E9", "s"),
    "amsa": ("#555555", "X"),
    "contenders": ("#0072B2", "o"),
    "sla": ("#000000", "*"),
    "eaa": ("#009E73", "^"),
    "approximate": ("#E69F00", "v"),
    "likely": ("#0072B2", "o"),
}


def console() -> Console:
    """Where tables go: stdout, wide enough for them also when it is a file."""
    wide = Console()
    return wide if wide.is_terminal else Console(width=180)


def note(text: str) -> None:
    """A line beside the results, on stderr."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def progress(what: str, total: int) -> Iterator[Any]:
    """A progress bar on stderr, if that is a terminal: call the result after each step."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task(what, total=total)

        def step(now: str = "") -> None:
            bar.update(task, advance=1, description=f"{what} {now}".strip())

        yield step


def print_json(records: Sequence[Record]) -> None:
    """One array of flat records, one record per line."""
    lines = [json.dumps({name: _plain(v) for name, v in record.items()}) for record in records]
    print("[\n" + ",\n".join(lines) + "\n]" if lines else "[]")


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return None if not math.isfinite(value) else float(f"{value:.6g}")
    return value


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str) -> Table:
    """A table: columns of numbers to the right, a line where the first column changes."""
    rows = [list(row) for row in rows]
    grid = Table(title=title, caption=caption or None, caption_justify="left", title_justify="left")
    for at, column in enumerate(columns):
        numeric = any(_numeric(row[at]) for row in rows)
        grid.add_column(column, justify="right" if numeric else "left", overflow="fold")
    grouped = len({row[0] for row in rows}) < len(rows)
    for at, row in enumerate(rows):
        if grouped and at and row[0] != rows[at - 1][0]:
            grid.add_section()
        grid.add_row(*(number(cell) for cell in row))
    return grid


def _numeric(cell: Any) -> bool:
    return isinstance(cell, (int, float)) or (
        isinstance(cell, str) and cell.lstrip("> ")[:1].isdigit()
    )


def number(value: Any) -> str:
    """Format a number for people; a dash for None."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


def size(value: float) -> str:
    """Format bytes for people."""
    for unit in ("B", "KB", "MB", "GB"):
        if abs(value) < 1024 or unit == "GB":
            return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def ratio(number: float | None, of: float | None) -> float | None:
    """A quotient, or None if either side is missing."""
    return None if number is None or not of else number / of


def drawn(study: Study, records: list[Record], folder: Path) -> list[Path]:
    """Draw the figures of a study; without matplotlib, print a note and draw none."""
    try:
        import matplotlib
    except ImportError:
        note("no figures: matplotlib is not installed (pip install 'skyband[plot]')")
        return []
    matplotlib.use("Agg")
    with matplotlib.rc_context(_LOOK):
        return study.draw(records, folder)


_LOOK: Any = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "figure.dpi": 110,
    "figure.titlesize": 13,
    "font.size": 9,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 5,
    "svg.hashsalt": "skyband",
}


def panels(rows: int, columns: int, title: str, **options: Any) -> tuple[Figure, list[list[Axes]]]:
    """A figure of panels with a title, laid out so that nothing overlaps."""
    import matplotlib.pyplot as plt

    width, height = options.pop("panel", (3.6, 2.5))
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(width * columns + 0.6, height * rows + 1.0),
        squeeze=False,
        layout="constrained",
        **options,
    )
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    return figure, [list(row) for row in axes]


def curve(
    axes: Axes, x: Sequence[Any], y: Sequence[float | None], algorithm: str, **how: Any
) -> None:
    """A line of an algorithm: ours solid, ``published=True`` dashed with hollow markers."""
    published = how.pop("published", False)
    colour, marker = STYLES.get(algorithm, ("#444444", "o"))
    kept = [(a, b) for a, b in zip(x, y, strict=True) if b is not None]
    if not kept:
        return
    axes.plot(
        [a for a, _ in kept],
        [b for _, b in kept],
        color=colour,
        marker=marker,
        linestyle="--" if published else "-",
        markerfacecolor="white" if published else colour,
        linewidth=1.0 if published else 1.5,
        alpha=0.85 if published else 1.0,
        label=f"{algorithm}, published" if published else algorithm,
        **how,
    )


def _steps(decades: float) -> tuple[float, ...]:
    if decades > 2.5:
        return (1.0,)
    return (1.0, 2.0, 5.0) if decades > 0.7 else (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0)


def plain_ticks(axes: Axes) -> None:
    """Label a log axis with plain numbers, also where it spans less than a decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axes.get_ylim()
    decades = math.log10(high / low)
    axes.yaxis.set_major_locator(LogLocator(subs=_steps(decades), numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def over_ratios(axes: Axes, ratios: Sequence[int]) -> None:
    """Lay out a panel of speeds over window / slide, both on log axes, with plain ratios."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(list(ratios), [str(ratio) for ratio in ratios], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_xlabel("window / slide")


def legend(figure: Figure, axes: Iterable[Axes]) -> None:
    """One legend for all panels, below them."""
    handles: dict[str, Any] = {}
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if handles:
        figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), 6)
        )


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG, and close it."""
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{kind}" for kind in ("png", "svg")]
    figure.savefig(paths[0], dpi=130)
    figure.savefig(paths[1], metadata={"Date": None})
    plt.close(figure)
    return paths
