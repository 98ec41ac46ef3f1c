"""What notebooks show: tables of rankings, plans and queries, and plots of rankings."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

import skyband as sk
from skyband import html_tables, readable
from skyband.engine.results import Ranked
from skyband.html_tables import MOST_ROWS

HOSTILE = "<script>alert('&')</script>"


@pytest.fixture(autouse=True)
def headless() -> Iterator[None]:
    """Draw without a screen, and close what was drawn."""
    mpl.use("Agg")
    from matplotlib import pyplot

    yield
    pyplot.close("all")


class Cells(HTMLParser):
    """The cells of a page's tables, row by row; refuses what is no part of a plain table."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.notes: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in ("div", "table", "thead", "tbody", "tr", "th", "td")
        assert [name for name, _ in attributes] in ([], ["style"])
        assert not re.search(r"url|expression|http", attributes[0][1] or "" if attributes else "")
        self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1] in ("th", "td"):
            self.rows[-1][-1] += data
        else:
            self.notes.append(data)


def cells(shown: Any) -> Cells:
    return Cells(shown._repr_html_())


def counted(rows: int = 60, **options: Any) -> Ranked:
    query = sk.TopK(k=3, window=sk.last(count=20, slide=5), **options)
    return sk.Monitor(query).push(np.random.default_rng(1).random(rows))


def totals(**options: Any) -> Ranked:
    """Five keys over ten minutes, answered each minute."""
    window = sk.last(time="3 minutes", slide="1 minute")
    monitor = sk.TotalsMonitor(sk.TopKTotals(k=3, by="sum", window=window, **options))
    chance = np.random.default_rng(2)
    times = np.datetime64("2026-01-05T14:30", "us") + np.arange(200) * np.timedelta64(3, "s")
    values = chance.random(200)
    also = dict.fromkeys(options.get("also", {}), values)
    answered = monitor.push(chance.integers(0, 5, 200), values, also or None, times=times)
    return answered.followed_by(monitor.finish())


# ---------------------------------------------------------------- rankings


def test_a_ranking_shows_its_newest_windows_first() -> None:
    ranked = counted()
    page = cells(ranked)
    assert page.rows[0] == ["window", "rank", "score", "id"]
    windows = [row[0] for row in page.rows[1:] if row[0]]
    assert windows == [f"[{end - 20}, {end})" for end in range(60, 20, -5)]
    newest = list(ranked)[-1]
    assert [row[1] for row in page.rows[1:4]] == ["1", "2", "3"]
    assert [row[3] for row in page.rows[1:4]] == [str(id) for id in newest.id]
    assert page.notes == ["12 windows, 36 rows", "4 older windows are not shown"]


def test_a_ranking_of_many_rows_is_cut() -> None:
    query = sk.TopK(k=1000, window=sk.last(count=1000, slide=500))
    page = cells(sk.Monitor(query).push(np.arange(2000.0)))
    assert len(page.rows) == MOST_ROWS + 1
    assert page.notes == [
        "4 windows, 3,500 rows",
        "960 more rows are not shown",
        "3 older windows are not shown",
    ]


def test_a_window_of_time_shows_moments() -> None:
    page = cells(next(iter(totals())))
    assert page.rows[0] == ["window (UTC)", "rank", "score", "id", "time (UTC)"]
    assert page.rows[1][0] == "2026-01-05 14:28:00 to 14:31:00"
    assert page.rows[1][4].startswith("2026-01-05 14:30:")
    assert page.notes == []


def test_names_are_text() -> None:
    ranked = totals(also={HOSTILE: "count"})
    assert cells(ranked).rows[0][-1] == HOSTILE
    assert cells(next(iter(ranked))).rows[0][-1] == HOSTILE


def test_totals_that_are_missing_are_empty() -> None:
    query = sk.TopKTotals(k=2, by="count", window=sk.last(count=2), also={"most": "max"})
    ranked = sk.TotalsMonitor(query).push([1, 2], [1.0, 2.0], {"most": [np.nan, 3.0]})
    assert [row[-1] for row in cells(ranked).rows] == ["most", "3", ""]


def test_a_report_of_changes_says_what_changed() -> None:
    monitor = sk.Monitor(sk.TopK(k=2, window=sk.last(count=6, slide=2), emit="changes"))
    page = cells(monitor.push([5.0, 1.0, 4.0, 9.0, 0.0, 2.0]))
    assert page.rows == [
        ["window", "rank", "score", "id", "change"],
        ["[0, 6)", "", "", "", "nothing changed"],
        ["[0, 4)", "1", "9", "3", "entered"],
        ["", "2", "5", "0", "moved from 1"],
        ["", "", "1", "1", "left, was 2"],
        ["[0, 2)", "1", "5", "0", "entered"],
        ["", "2", "1", "1", "entered"],
    ]
    assert page.notes == ["3 windows, 5 changes"]


def test_rankings_so_far_are_marked() -> None:
    query = sk.TopK(k=1, window=sk.last(time=10, slide=5), emit="updates")
    page = cells(sk.Monitor(query).push([4.0, 9.0], times=[1, 8], watermark=6))
    assert [row[0] for row in page.rows[1:]] == ["[5, 15)", "[0, 10)", "[-5, 5)"]
    assert [row[-1] for row in page.rows[1:]] == ["so far", "so far", "final"]


def test_approximate_answers_are_marked() -> None:
    none = np.zeros(1, np.int64)
    ranked = Ranked(
        *(none, none + 5, np.array([0, 1]), np.array([3.0]), none),
        exact=np.array([False]),
        accuracy=np.array([0.951]),
    )
    assert cells(ranked).rows[1][-1] == "about 95.1% right"


def test_all_time_has_no_start() -> None:
    query = sk.TopK(k=1, window=sk.all_time(every="1 minute"))
    monitor = sk.Monitor(query)
    monitor.push([1.0], times=[np.datetime64("2026-01-05T14:30", "us")])
    assert cells(monitor.finish()).rows[1][0] == "all until 2026-01-05 14:31:00"


def test_nothing_is_shown_of_an_empty_ranking() -> None:
    for query in (
        sk.TopK(k=1, window=sk.last(count=9)),
        sk.TopK(k=1, window=sk.last(time="1 hour"), emit="changes"),
        sk.TopK(k=1, window=sk.last(time="1 hour"), emit="updates"),
    ):
        times = None if query.window.kind == "count" else []
        page = cells(sk.Monitor(query).push([], times=times))
        assert (page.rows, page.notes) == ([], ["no window"])
    none = np.empty(0, np.int64)
    window = sk.RankedWindow(0, 5, none, np.empty(0), none)
    assert cells(window).rows[1] == ["[0, 5)", "", "", "", "no row is ranked"]


def test_a_workload_names_the_query_of_each_window() -> None:
    workload = sk.Workload(
        {
            HOSTILE: sk.TopK(k=2, window=sk.last(count=20, slide=5)),
            "slow": sk.TopK(k=1, window=sk.last(count=20, slide=10)),
        }
    )
    ranked = sk.WorkloadMonitor(workload).push(np.random.default_rng(1).random(30))
    page = cells(ranked)
    assert page.rows[0] == ["query", "window", "rank", "score", "id"]
    assert [row[:2] for row in page.rows[1:4]] == [
        ["slow", "[10, 30)"],
        [HOSTILE, "[10, 30)"],
        ["", ""],
    ]
    assert cells(ranked.of("slow")[0]).rows[0][0] == "window"
    empty = sk.WorkloadMonitor(workload).push([])
    assert cells(empty).notes == ["no window"]


@pytest.mark.parametrize(
    "monitor",
    [
        sk.DominatingMonitor(
            sk.TopKDominating(2, [("price", "min"), ("stars", "max")], sk.last(count=4))
        ),
        sk.IncompleteMonitor(sk.TopKIncomplete(2, ["north", "south"], sk.last(count=4))),
    ],
    ids=["dominating", "incomplete"],
)
def test_rankings_of_other_families(monitor: Any) -> None:
    if isinstance(monitor, sk.DominatingMonitor):
        ranked = monitor.push(np.array([[1.0, 5], [2, 4], [3, 3], [4, 2]]))
    else:
        ranked = monitor.push(
            [1, 2, 1, 2], ["north", "north", "south", "south"], [0.1, 0.2, 0.3, 0.4]
        )
    page = cells(ranked)
    assert [row[1] for row in page.rows[1:]] == ["1", "2"]
    assert cells(monitor.explain()).rows[0][0] == "query"
    assert len(ranked.plot().lines) == 2


# ---------------------------------------------------------------- plans and queries


def test_a_plan_gives_its_reasons() -> None:
    monitor = sk.Monitor(sk.TopK(k=3, window=sk.last(count=20, slide=5)), "mintopk")
    explanation = monitor.explain()
    assert explanation == f"{monitor.query}\n{monitor.plan}"
    assert cells(monitor.plan).rows == cells(explanation).rows[1:]
    assert cells(explanation).rows[0] == ["query", str(monitor.query)]
    assert cells(explanation).rows[1] == ["algorithm", "mintopk"]
    for again in (pickle.loads(pickle.dumps(explanation)), copy.deepcopy(explanation)):
        assert again == explanation
        assert again._repr_html_() == explanation._repr_html_()


def largest(values: Any) -> Any:
    return values.max(axis=1)


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        (
            sk.TopK(k=3, window=sk.last(count=20), weights=(1, 2.5)),
            [
                ["k", "3"],
                ["window", "the last 20 objects, every 20"],
                ["weights", "1, 2.5"],
            ],
        ),
        (
            sk.TopKDominating(3, [(HOSTILE, "min"), ("stars", "max")], sk.last(count=20)),
            [
                ["k", "3"],
                ["dimensions", f"({HOSTILE}, min), (stars, max)"],
                ["window", "the last 20 objects, every 20"],
            ],
        ),
        (
            sk.TopKIncomplete(3, [HOSTILE], sk.last(count=20), combine=largest, ties="oldest"),
            [
                ["k", "3"],
                ["streams", HOSTILE],
                ["window", "the last 20 objects, every 20"],
            ],
        ),
        (
            sk.TopKTotals(
                k=3,
                by="sum",
                window=sk.last(time="1 hour"),
                also={HOSTILE: sk.Total("sum", "int64", 2), "orders": "count"},
            ),
            [
                ["k", "3"],
                ["by", "sum"],
                ["window", "the last 1 hour, every 1 hour"],
                ["also", f"{HOSTILE}: sum of int64 with 2 digits behind the point, orders: count"],
            ],
        ),
    ],
    ids=["rows", "dominating", "incomplete", "totals"],
)
def test_a_query_shows_what_it_was_given(query: Any, fields: list[list[str]]) -> None:
    page = cells(query)
    assert page.rows[: len(fields)] == fields
    assert page.notes == [str(query)]


def test_a_workload_is_a_table_of_queries() -> None:
    queries = {
        f"{HOSTILE}{number}": sk.TopK(k=number + 1, window=sk.last(count=100), ties="oldest")
        for number in range(MOST_ROWS + 2)
    }
    workload = sk.Workload(queries)
    page = cells(workload)
    window, order = "the last 100 objects, every 100", "of equal scores the oldest first"
    assert page.rows[0] == ["query", "k", "window", "by", "order"]
    assert page.rows[1] == [f"{HOSTILE}0", "1", window, "score", order]
    assert len(page.rows) == MOST_ROWS + 1
    assert page.notes == [str(workload), "2 queries are not shown"]
    assert cells(sk.Workload({"a": queries[f"{HOSTILE}0"]})).notes[1:] == []


def test_long_texts_and_many_columns_are_cut() -> None:
    columns = [html_tables.column(f"c{number}", ["x" * 1000]) for number in range(20)]
    page = Cells(html_tables.table("", columns))
    assert len(page.rows[0]) == 16
    assert page.rows[1][0] == "x" * (readable.LETTERS - 1) + "…"
    assert page.notes == ["4 more columns are not shown"]


def test_importing_skyband_stays_light() -> None:
    code = (
        "import sys, skyband; skyband.TopK(k=1, window=skyband.last(count=9))._repr_html_()\n"
        "heavy = ('numba', 'pyspark', 'pandas', 'pyarrow', 'matplotlib', 'IPython')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# ---------------------------------------------------------------- plots


def names_of(axes: Any) -> set[str]:
    return {text.get_text() for text in axes.texts}


def lines_of(axes: Any) -> list[list[float]]:
    return [np.asarray(line.get_ydata(), float).tolist() for line in axes.lines]


def test_ranks_over_count_windows() -> None:
    monitor = sk.TotalsMonitor(sk.TopKTotals(k=2, by="sum", window=sk.last(count=4, slide=2)))
    ranked = monitor.push([1, 2, 3, 1, 3, 2], [1.0, 5, 4, 2, 9, 1])
    assert [window.id.tolist() for window in ranked] == [[2, 1], [2, 3], [3, 1]]
    axes = ranked.plot(names={1: "one", 2: "$2", 3: HOSTILE})
    nan = float("nan")
    expected = [[2.0, nan, 2.0], [1.0, 1.0, nan], [nan, 2.0, 1.0]]
    assert sorted(map(str, lines_of(axes))) == sorted(map(str, expected))
    assert names_of(axes) == {"one", r"\$2", "<script>alert('&'…"}
    assert axes.lines[0].get_xdata().tolist() == [2, 4, 6]
    assert axes.yaxis_inverted()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("end of the window", "rank")
    assert axes.get_title(loc="left") == "3 objects; 3 windows"
    axes.figure.canvas.draw()


def test_scores_over_time_windows_on_given_axes() -> None:
    from matplotlib import pyplot

    ranked = totals()
    _, given = pyplot.subplots()
    axes = ranked.plot("scores", ax=given, leaders=2, names=lambda id: f"key {id}")
    assert axes is given
    assert not axes.yaxis_inverted()
    assert axes.get_xlabel() == "end of the window (UTC)"
    assert axes.get_title(loc="left") == "2 of 5 objects, 3 more in grey; 12 windows"
    assert len(axes.lines) == 5
    assert len(names_of(axes)) == 2
    newest = list(ranked)[-1]
    assert f"key {newest.id[0]}" in names_of(axes)
    highest = max(value for line in lines_of(axes) for value in line if value == value)
    assert highest == ranked.score.max()
    axes.figure.canvas.draw()


def test_many_objects_are_not_all_drawn() -> None:
    query = sk.TopK(k=1, window=sk.last(count=1))
    axes = sk.Monitor(query).push(np.arange(500.0)).plot(leaders=12)
    assert len(axes.lines) == 12 + 60
    assert axes.get_title(loc="left") == "12 of 500 objects, 60 more in grey; 500 windows"


def test_of_updates_the_last_report_of_a_window_counts() -> None:
    monitor = sk.Monitor(sk.TopK(k=1, window=sk.last(time=10, slide=5), emit="updates"), delay=3)
    ranked = monitor.push([4.0], times=[1])
    for score, time in ((6.0, 2), (9.0, 8), (1.0, 14)):
        ranked = ranked.followed_by(monitor.push([score], times=[time]))
    ends = np.unique(ranked.window_end).tolist()
    axes = ranked.plot("scores")
    assert axes.lines[0].get_xdata().tolist() == ends == [5, 10, 15, 20]
    lines = np.array(lines_of(axes))
    assert np.nanmax(lines, axis=0).tolist() == [6.0, 9.0, 9.0, 1.0]


def test_one_query_of_a_workload() -> None:
    workload = sk.Workload(
        {
            "fast": sk.TopK(k=2, window=sk.last(count=20, slide=5)),
            "slow": sk.TopK(k=1, window=sk.last(count=20, slide=10)),
        }
    )
    ranked = sk.WorkloadMonitor(workload).push(np.random.default_rng(1).random(30))
    axes = ranked.plot("slow")
    assert axes.lines[0].get_xdata().tolist() == [10, 20, 30]
    with pytest.raises(sk.QueryError, match=r"query is 'ranks'; expected one of 'fast', 'slow'"):
        ranked.plot("ranks")


def test_what_cannot_be_plotted_is_refused() -> None:
    with pytest.raises(sk.QueryError, match=r"a report of changes.*emit='all'"):
        counted(emit="changes").plot()
    with pytest.raises(sk.QueryError, match="what is 'rank'"):
        counted().plot("rank")  # type: ignore[arg-type]
    with pytest.raises(sk.QueryError, match="leaders is 0"):
        counted().plot(leaders=0)
    with pytest.raises(sk.DataError, match=r"no row is ranked.*finish\(\)"):
        counted(rows=0).plot()


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(sk.SkybandError, match=r'matplotlib is not installed.*"skyband\[plot\]"'):
        counted().plot()
