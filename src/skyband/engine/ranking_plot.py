"""How a ranking moved from window to window, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from skyband.errors import DataError, QueryError, SkybandError
from skyband.order import Bools, Ints, Scores
from skyband.readable import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from skyband.engine.results import Ranked

What = Literal["ranks", "scores"]
Names = Mapping[int, Any] | Callable[[int], Any]

_COLOURS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9"),
    *("#D55E00", "#C9B600", "#8C6BB1", "#A6761D", "#1B9E77"),
)
"""Okabe and Ito's colours, which people with any kind of colour vision can tell apart, and more."""

_GREY = "#888888"  # for those that are not named: light and dark pages both show it
_MOST_OTHERS = 60  # lines in grey
_DOTTED = 40  # windows of which each has a dot
_LETTERS = 18  # of a name
_APART = 0.045  # of the height of a plot, between two names
_HIGHEST_TICK = 30  # ranks that have each a number of their own


class _Label(NamedTuple):
    """The name of an object at a point of its line; whether that is in the newest window."""

    end: Any
    value: float
    name: str
    colour: str
    newest: bool


def plot_ranked(
    ranked: Ranked, what: What, ax: Axes | None, leaders: int, names: Names | None
) -> Axes:
    """Draw the ranks or the scores of the leaders over the ends of windows.

    The leaders are the best objects of the newest window, and those that ranked high for the
    longest; each has a colour, and its name beside the newest window or where it ranked highest.
    Other objects are grey lines, if there are not too many. A line is interrupted where its object
    is not ranked.
    """
    _check(ranked, what, leaders)
    axes = _axes(ax)
    whole = _newest_reports(ranked)
    if not whole.rows:
        raise DataError(
            "no row is ranked",
            "at least one window that ranks a row",
            "push more rows, or finish()",
        )
    window = np.repeat(np.arange(len(whole)), np.diff(whole.offsets))
    values: Scores = whole.rank if what == "ranks" else whole.score
    best_first = _order(whole, window, leaders)
    named = best_first[:leaders]
    ends = whole.window_end.astype("datetime64[us]") if whole.timed else whole.window_end
    for id in best_first[leaders : leaders + _MOST_OTHERS][::-1].tolist():
        line = _line(whole.id == id, window, values, len(whole))
        axes.plot(ends, line, color=_GREY, alpha=0.35, linewidth=1, marker=".", zorder=1)
    labels: list[_Label] = []
    for number, id in reversed(list(enumerate(named.tolist()))):
        line = _line(whole.id == id, window, values, len(whole))
        colour = _COLOURS[number % len(_COLOURS)]
        dashes = "-" if number < len(_COLOURS) else "--"
        axes.plot(
            ends,
            line,
            dashes,
            color=colour,
            linewidth=2.2,
            marker="o",
            markersize=5,
            markevery=_dots(line),
            zorder=2,
        )
        height = -line if what == "ranks" else line
        at = -1
        if np.isnan(line[-1]):
            highest = np.flatnonzero(height == np.nanmax(height))
            at = int(highest[len(highest) // 2])
        labels.append(_Label(ends[at], float(line[at]), _name(id, names), colour, at == -1))
    _label(axes, labels, what)
    _dress(axes, whole, what, len(best_first), len(named))
    return axes


def _check(ranked: Ranked, what: object, leaders: int) -> None:
    if what not in ("ranks", "scores"):
        raise QueryError(f"what is {what!r}", "'ranks' or 'scores'", "write plot('scores')")
    if isinstance(leaders, bool) or not isinstance(leaders, int) or leaders < 1:
        raise QueryError(f"leaders is {leaders!r}", "how many objects are named", "leave it out")
    if ranked.previous_rank is not None:
        raise QueryError(
            "a report of changes",
            "whole rankings: who stays where it was is not in a report of changes",
            "plot the answers of a query with emit='all'",
        )


def _axes(ax: Axes | None) -> Axes:
    """The axes to draw on: those given, or new ones; refuses if there is no matplotlib."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise SkybandError(
            "matplotlib is not installed",
            "it, to draw a plot",
            'pip install "skyband[plot]"',
        ) from None
    _, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    return axes


def _newest_reports(ranked: Ranked) -> Ranked:
    """The windows by their ends; of one that was reported again and again, the last report."""
    revision = np.zeros(len(ranked), np.int64) if ranked.revision is None else ranked.revision
    order = np.lexsort((np.arange(len(ranked)), revision, ranked.window_end))
    ends = ranked.window_end[order]
    chosen = np.zeros(len(ranked), np.bool_)
    chosen[order[:-1][ends[1:] != ends[:-1]]] = True
    chosen[order[-1:]] = True
    some = ranked.only(chosen)
    if bool(np.all(np.diff(some.window_end) > 0)):
        return some
    return _sorted(some)


def _sorted(ranked: Ranked) -> Ranked:
    """Windows in the order of their ends: reports of open windows may stand behind later ones."""
    result = None
    for at in np.argsort(ranked.window_end).tolist():
        one = ranked.only(np.arange(len(ranked)) == at)
        result = one if result is None else result.followed_by(one)
    assert result is not None, "there are windows, or they would be in order"
    return result


def _order(ranked: Ranked, window: Ints, leaders: int) -> Ints:
    """The ids, leaders first: half of them from the newest window, the others by their points.

    An object has a point for each rank below it and its own, in each window.
    """
    ids, place = np.unique(ranked.id, return_inverse=True)
    rank = ranked.rank
    points = np.bincount(place, weights=rank.max() + 1 - rank)
    newest = np.zeros(len(ids))
    best = ranked.id[window == window[-1]][: (leaders + 1) // 2]
    newest[np.searchsorted(ids, best)] = np.arange(len(best), 0, -1)
    return ids[np.lexsort((-points, -newest))]


def _line(rows: Bools, window: Ints, values: Scores, windows: int) -> Any:
    """The value of one object in each window; NaN where it has none."""
    line = np.full(windows, np.nan)
    line[window[rows]] = values[rows]
    return line


def _dots(line: Any) -> list[int]:
    """The windows in which a line has a dot: all, or where it would not be seen without one."""
    ranked = ~np.isnan(line)
    if len(line) > _DOTTED:
        beside = np.concatenate([[False], ranked, [False]])
        ranked &= ~(beside[:-2] | beside[2:])
    dots: list[int] = np.flatnonzero(ranked).tolist()
    return dots


def _name(id: int, names: Names | None) -> str:
    """What an object is called: by its id, unless there is a name for it."""
    if names is None:
        return str(id)
    name = shown(names(id) if callable(names) else names.get(id, id), _LETTERS)
    return name.replace("$", r"\$")  # between dollars matplotlib would read mathematics


def _label(axes: Axes, labels: list[_Label], what: What) -> None:
    """Write names beside the newest window, so that none covers another; others at their lines."""
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2.5, foreground=axes.get_facecolor())]
    for label in (each for each in labels if not each.newest):
        axes.annotate(
            label.name,
            (label.end, label.value),
            (0, 5),
            textcoords="offset points",
            ha="center",
            color=label.colour,
            fontsize="small",
            path_effects=halo,
            zorder=3,
        )
    if what == "ranks":
        axes.invert_yaxis()
    axes.margins(y=0.08)
    low, high = axes.get_ylim()
    placed = [((each.value - low) / (high - low), each) for each in labels if each.newest]
    placed.sort(key=lambda pair: -pair[0])
    for (_, label), place in zip(placed, _spread([place for place, _ in placed]), strict=True):
        axes.annotate(
            label.name,
            (label.end, label.value),
            (1.015, place),
            textcoords="axes fraction",
            color=label.colour,
            va="center",
            fontweight="bold",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": label.colour, "alpha": 0.5, "relpos": (0, 0.5)},
        )


def _spread(places: list[float]) -> list[float]:
    """Places from the top down, moved apart as far as names need, and kept in the plot if possible.

    >>> [round(place, 3) for place in _spread([1.0, 0.99, 0.2])]
    [1.0, 0.955, 0.2]
    """
    moved: list[float] = []
    for place in places:
        moved.append(min(place, moved[-1] - _APART) if moved else place)
    for at in range(len(moved) - 1, -1, -1):  # what fell below the plot pushes the others up
        floor = moved[at + 1] + _APART if at + 1 < len(moved) else 0.0
        moved[at] = max(moved[at], floor)
    return moved


def _dress(axes: Axes, ranked: Ranked, what: What, objects: int, named: int) -> None:
    """Name the axes, and say which of the objects are drawn."""
    from matplotlib.ticker import MaxNLocator

    if what == "ranks":
        axes.set_ylabel("rank")
        deepest = int(ranked.rank.max())
        if deepest <= _HIGHEST_TICK:
            axes.set_yticks(range(1, deepest + 1))
    else:
        axes.set_ylabel("score")
    axes.set_xlabel("end of the window (UTC)" if ranked.timed else "end of the window")
    if not ranked.timed:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    else:
        from matplotlib import dates as ticks

        locator = ticks.AutoDateLocator()  # type: ignore[no-untyped-call]
        form = ticks.ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(form)
    grey = min(objects - named, _MOST_OTHERS)
    title = f"{named:,} of {objects:,} objects" if objects > named else f"{objects:,} objects"
    title += f", {grey:,} more in grey" if grey else ""
    axes.set_title(f"{title}; {len(ranked):,} windows", fontsize="medium", loc="left")
    axes.grid(visible=True, axis="y", alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
