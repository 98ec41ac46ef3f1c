"""Takes the pictures of the documents: ``make pictures``.

The demonstration runs for real, on Spark, with its page. What the terminal shows is drawn by Rich
and the page by Chromium, light and dark; nobody touches the pictures afterwards.
"""

from __future__ import annotations

import io
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.terminal_theme import MONOKAI

from skyband.demo import display
from skyband.demo.streams import TITLE, Boards
from skyband.serve.address import Address
from skyband.serve.feed import Feed
from skyband.serve.server import PageServer
from tests.page.browser import ARGUMENTS, chromium

IMAGES = Path(__file__).parents[2] / "docs" / "images"
_BATCHES = 16  # ten minutes of the market: one window
_MOST_BATCHES = 120  # by then the board moves as the pictures are to show it
_WIDTH, _HEIGHT = 1280, 1010
_EDGE = 9  # pixels below the cards
_SHARP = 2  # pixels of a picture for one of the page
_COLUMNS = 104
_PATIENCE = 120_000  # milliseconds


def take(images: Path = IMAGES) -> list[Path]:
    """Run the demonstration for a while, and take all pictures of it."""
    with (
        tempfile.TemporaryDirectory(prefix="skyband-pictures-") as folder,
        PageServer(Feed(TITLE), Address.parsed(0)) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        boards = Boards(Path(folder) / "out", 0, server.feed)
        try:
            while not _is_lively(boards, server.feed):
                time.sleep(0.05)
                boards.look()
            frame = boards.frame()
            pages = [
                photograph_page(browser, server.url, images / f"page-{colours}.png", colours)
                for colours in ("light", "dark")
            ]
            terminal = photograph_terminal(browser, frame, images / "terminal.png")
        finally:
            browser.close()
            boards.stop()
    return [*pages, terminal]


def _is_lively(boards: Boards, feed: Feed) -> bool:
    """Whether the board shows all that can happen: trades that climb, fall, enter and leave."""
    batches = boards.progress.batches
    if batches < _BATCHES or batches >= _MOST_BATCHES:
        return batches >= _MOST_BATCHES
    board = feed.history.leaders("", None, None)
    entered = sum(row["change"] == "entered" for row in board["rows"])
    climbs = [row["previous_rank"] - row["rank"] for row in board["rows"] if row["previous_rank"]]
    moves = any(climb > 0 for climb in climbs) and any(climb < 0 for climb in climbs)
    return moves and 1 <= entered <= 3 and bool(board["left"])


def photograph_page(browser: Browser, url: str, path: Path, colours: str) -> Path:
    """Photograph the page as it stands."""
    page = browser.new_page(
        viewport={"width": _WIDTH, "height": _HEIGHT},
        color_scheme="dark" if colours == "dark" else "light",
        reduced_motion="reduce",
        device_scale_factor=_SHARP,
    )
    page.set_default_timeout(_PATIENCE)
    page.goto(url)
    page.wait_for_selector("#rows tr")
    page.wait_for_selector("#chart path", state="attached")  # a straight one has no height
    page.wait_for_selector("#figures dd")
    bottom = page.evaluate(
        """Math.max(...["board", "chart", "figures", "notes"].map((id) =>
            document.getElementById(id).closest("section").getBoundingClientRect().bottom))"""
    )
    clip = {"x": 0, "y": 0, "width": _WIDTH, "height": round(bottom) + _EDGE}
    page.screenshot(path=path, full_page=True, clip=clip)
    page.close()
    return path


def photograph_terminal(browser: Browser, frame: display.Frame, path: Path) -> Path:
    """Photograph a frame of the demonstration as a terminal shows it."""
    console = Console(
        record=True, width=_COLUMNS, height=40, file=io.StringIO(), force_terminal=True
    )
    console.print(display.layout(console, frame))
    svg = console.export_svg(title="make demo", theme=MONOKAI)
    page = browser.new_page(
        viewport={"width": _WIDTH, "height": _HEIGHT}, device_scale_factor=_SHARP
    )
    page.route("**/*", lambda route: route.abort())  # fonts from elsewhere
    page.set_content(f"<style>body {{ margin: 0; width: {_WIDTH}px }}</style>{svg}")
    page.locator("svg").first.screenshot(path=path, omit_background=True)
    page.close()
    return path


if __name__ == "__main__":
    for picture in take():
        print(f"{picture.relative_to(IMAGES.parents[1])}: {picture.stat().st_size / 1e3:.0f} kB")
