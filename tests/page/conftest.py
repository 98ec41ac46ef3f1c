"""A browser for each module, and for each test a market, its server and a page that is watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from tests.page.browser import ARGUMENTS, chromium
from tests.page.fake_api import FakeServer, Market

PATIENCE = 60_000
"""Milliseconds; waits end as soon as what they wait for is there."""


@dataclass
class Watched:
    """What a page did that it must not do."""

    server: FakeServer
    faults: list[str] = field(default_factory=list)
    expects_refusals: bool = False
    """The server is stopped or refuses: the browser itself writes that into the console."""

    def watch(self, page: Page) -> None:
        """Note errors, dialogs and requests to elsewhere."""
        page.on("console", self.note_message)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self.note_request(request.url))

    def note_message(self, message: ConsoleMessage) -> None:
        """Note a warning or an error in the console."""
        refused = self.expects_refusals and message.text.startswith("Failed to load resource")
        if message.type in ("error", "warning") and not refused:
            self.faults.append(f"{message.type}: {message.text}")

    def note_request(self, url: str) -> None:
        """Note a request for anything but the page and its API."""
        home = self.server.url
        path = url.removeprefix(home).split("?")[0].split("#")[0]
        ours = url.startswith(home) and (path == "" or path.startswith("api/"))
        if not ours and not url.startswith("data:"):
            self.faults.append(f"request: {url}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture
def market() -> Market:
    filled = Market()
    filled.step(40)
    return filled


@pytest.fixture
def server(market: Market) -> Iterator[FakeServer]:
    served = FakeServer(market)
    served.start()
    yield served
    served.stop()


@pytest.fixture
def watched(server: FakeServer) -> Iterator[Watched]:
    watching = Watched(server)
    yield watching
    assert watching.faults == []


@pytest.fixture
def visit(browser: Browser, server: FakeServer, watched: Watched) -> Iterator[Callable[..., Page]]:
    """Open the page: ``at`` is its hash, ``first`` a script that runs before those of the page.

    With ``own_time`` its clock can be put forward, timers that it has from the beginning included.
    """
    contexts = []

    def open_page(
        at: str = "",
        *,
        ready: str = "#rows tr",
        first: str = "",
        own_time: bool = False,
        **settings: Any,
    ) -> Page:
        settings = {
            "reduced_motion": "reduce",
            "viewport": {"width": 1280, "height": 900},
        } | settings
        context = browser.new_context(**settings)
        context.set_default_timeout(PATIENCE)
        context.add_init_script(first)
        if own_time:
            context.clock.install()
        contexts.append(context)
        page = context.new_page()
        watched.watch(page)
        page.goto(server.url + at)
        page.wait_for_selector(ready)
        return page

    yield open_page
    for context in contexts:
        context.close()
