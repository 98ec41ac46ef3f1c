"""The page with the server that jobs have: both keep to the same data."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from skyband.serve.address import Address
from skyband.serve.feed import Feed, ServedQuery
from skyband.serve.history import Layout
from skyband.serve.server import PageServer
from skyband.spark.jobs.progress import Batch
from tests.page.conftest import PATIENCE
from tests.test_serve import progress, rows

expect.set_options(timeout=PATIENCE)

ALL = ServedQuery("the best of all", Layout((), (), ("symbol", "sector"), ("symbol",)), "all")
EACH = ServedQuery("the best of each", Layout((), ("sector",), ("symbol",), ("symbol",)), "each")
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def feed() -> Feed:
    return Feed("trades")


@pytest.fixture
def page(browser: Browser, feed: Feed) -> Iterator[Page]:
    """The page of a job that is about to start; it must not complain."""
    faults: list[str] = []
    with PageServer(feed, Address.parsed(0)) as server:
        context = browser.new_context(reduced_motion="reduce")
        context.set_default_timeout(PATIENCE)
        opened = context.new_page()
        opened.on("console", lambda message: faults.append(message.text))
        opened.on("pageerror", lambda error: faults.append(str(error)))
        opened.goto(server.url)
        yield opened
        context.close()
    assert faults == []


def answer(feed: Feed, window: int, symbols: str) -> None:
    """Rank symbols in a window, of all and of each sector."""
    for query, sectors in ((ALL, [None]), (EACH, ["Energy", HOSTILE])):
        answers = [row for sector in sectors for row in rows(window, sector, symbols)]
        feed.take(Batch(window, answers=tuple(answers)), query)
    feed.see(progress(*(Batch(number, rows=10) for number in range(window + 1))))


def names(page: Page, wanted: str) -> None:
    expect(page.locator("#rows .name")).to_have_text(list(wanted))


def test_a_job_is_followed_from_its_start_to_its_end(page: Page, feed: Feed) -> None:
    expect(page.locator("#title")).to_have_text("trades")
    feed.describe([ALL, EACH], "top-k", [("panes", "1 minute each")])
    expect(page.locator("#words")).to_have_text("the best of all")
    answer(feed, 0, "ABC")
    names(page, "ABC")
    answer(feed, 1, "CAD")
    names(page, "CAD")
    expect(page.locator("#left-rows")).to_contain_text("B")
    expect(page.locator("#key-choice")).to_be_hidden()
    page.locator("#query").select_option("each")
    expect(page.locator("#key-choice")).to_be_visible()
    expect(page.locator("#board-heading")).to_contain_text(HOSTILE)
    page.locator("#key").click()
    page.locator("#options [role=option]", has_text="Energy").click()
    expect(page.locator("#board-heading")).to_contain_text("Energy")
    names(page, "CAD")
    page.locator("#earlier").click()
    names(page, "ABC")
    page.locator("#live").click()
    page.locator("#query").select_option("all")
    names(page, "CAD")
    feed.end("Everything is ranked.")
    expect(page.locator("#message")).to_contain_text("Everything is ranked.")
