"""Queries, windows, durations: validated once, with errors that help."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

import skyband
from skyband import CountWindow, QueryError, TimeWindow, TopK, last
from skyband.durations import microseconds, spoken
from skyband.windows import Panes


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        ("1 hour", 3_600_000_000),
        ("1h 30m", 5_400_000_000),
        ("90 seconds", 90_000_000),
        ("1.5 minutes", 90_000_000),
        ("250 ms", 250_000),
        ("2 weeks", 1_209_600_000_000),
        (timedelta(minutes=1, microseconds=5), 60_000_005),
        (np.timedelta64(3, "s"), 3_000_000),
    ],
)
def test_durations(duration, expected):
    assert microseconds(duration) == expected


@pytest.mark.parametrize("text", ["", "hour", "1 month", "5", "1 hour later", "0.1 us"])
def test_bad_durations(text):
    with pytest.raises(QueryError, match="write a number and a unit"):
        microseconds(text)


def test_durations_are_spoken():
    assert spoken(300_000_000) == "5 minutes"
    assert spoken(1) == "1 microsecond"
    assert spoken(3_600_000_000) == "1 hour"


def test_windows_print_well():
    assert str(last(count=1000, slide=100)) == "the last 1,000 objects, every 100"
    assert str(last(count=5, full=True)) == "the last 5 objects, every 5, once full"
    assert str(last(time="1 hour", slide="1 minute", offset="30 seconds")) == (
        "the last 1 hour, every 1 minute, shifted by 30 seconds"
    )
    assert str(last(time=10, slide=3)) == "the last 10 ticks, every 3 ticks"
    query = TopK(k=10, window=last(count=10), emit="changes", weights=(1, 2))
    assert str(query) == (
        "top 10 of the last 10 objects, every 10 by 2 weighted attributes, changes only"
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: last(), "neither count nor time"),
        (lambda: last(count=1, time="1 hour"), "both count and time"),
        (lambda: last(count=0), "window is 0"),
        (lambda: last(count=10, slide=11), "slide is 11, the window is 10"),
        (lambda: last(count=10, slide="1 minute"), "for a count window"),
        (lambda: last(count=10, offset=3), "offset is 3"),
        (lambda: last(time="1 hour", slide="2 hours"), "slide is 2 hours"),
        (lambda: last(time="1 hour", slide=5), "window is '1 hour' and slide is 5"),
        (lambda: last(time="1 hour", full=True), "full=True"),
        (lambda: last(time=1.5), "window is 1.5"),
        (lambda: CountWindow(True, 1), "window is True"),
        (lambda: TimeWindow(1 << 62, 1), "window is 46"),
        (lambda: TimeWindow(5, 5, unit="s"), "unit is 's'"),
        (lambda: TopK(k=0, window=last(count=1)), "k is 0"),
        (lambda: TopK(k=2.0, window=last(count=1)), "k is 2.0"),
        (lambda: TopK(k=1, window=10), "window is 10"),
        (lambda: TopK(k=1, window=last(count=1), emit="some"), "emit is 'some'"),
        (lambda: TopK(k=1, window=last(count=1), weights=()), "weights are"),
        (lambda: TopK(k=1, window=last(count=1), weights=(float("nan"),)), "weights are"),
    ],
)
def test_bad_queries_say_what_was_found_expected_and_the_fix(build, message):
    with pytest.raises(QueryError) as caught:
        build()
    assert message in str(caught.value)
    assert caught.value.expected
    assert caught.value.fix


def test_pane_lengths():
    assert Panes(21, 3).lengths == (3,)
    assert Panes(7, 3).lengths == (2, 1)
    panes = Panes(10, 4, offset=1)
    assert panes.end(2) == 9
    assert panes.start(2) == -1
    assert (panes.first_window(8), panes.last_window(8)) == (2, 4)


def test_public_names_are_sorted_and_there():
    assert skyband.__all__ == sorted(skyband.__all__)
    for name in skyband.__all__:
        assert getattr(skyband, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = skyband.nothing
