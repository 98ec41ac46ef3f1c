"""A server that speaks the API of the live page, with a made-up market behind it.

``python -m tests.page.fake_api`` serves the page with a new window every second. Tests move the
market themselves: by :meth:`Market.step` and its like, never by a clock.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import functools
import hashlib
import json
import math
import random
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

PAGE = Path(__file__).parents[2] / "src" / "skyband" / "serve" / "page.html"
OPENING = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
COLUMNS = ["symbol", "sector", "venue", "price", "trades"]
VENUES = ["XNYS", "XNAS", "XLON", "XETR"]
KEPT = 360
SECTORS = {
    "Communication services": "ACME BOLT CIRQ DUNE ECHO FLUX GRID HALO IRIS JUNO KITE LUMA MICA",
    "Consumer discretionary": "NOVA OPAL PIKE QUAY",
    "Consumer staples": "ROOT SAGE TIDE UMBR VALE",
    "Energy": "WATT XENO YARD ZEAL",
    "Financials": "ARCO BASE CODA DELT EDEN FERN",
    "Health care": "GALE HIVE INCA JADE KELP",
    "Industrials": "LOOM MOSS NORD OAKS",
    "Information technology": "PEAK QUIL REEF",
    "Materials": "SILO TERN URSA VEGA WREN XYLO YOLK ZINC",
    "Real estate": "APEX BIRC CEDR DOVE",
    "Utilities": "ELMS FAWN GLEN HERN",
}


@dataclass
class Window:
    """A window of the made-up market."""

    number: int
    final: bool = True
    revision: int = 1


@dataclass
class Market:
    """What the fake server tells; each change is told to those who listen."""

    queries: dict[str, str] = field(
        default_factory=lambda: {
            "": "The 10 symbols of most turnover in the last hour, every minute, per sector"
        }
    )
    sectors: dict[str, list[str]] = field(
        default_factory=lambda: {name: symbols.split() for name, symbols in SECTORS.items()}
    )
    accounts: int = 0
    """How many further keys there are, each with a small board."""
    partitioned: bool = True
    timed: bool = True
    slide: timedelta = timedelta(minutes=1)
    size: timedelta = timedelta(hours=1)
    complete: bool = True
    """Whether rankings have all rows: not if a job goes on that reports changes alone."""
    most_rows: int = 500
    windows: list[Window] = field(default_factory=list)
    boosts: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By symbol, the window from which on its turnover is multiplied, and by what."""
    health: dict[str, Any] = field(default_factory=dict)
    passing: dict[str, Any] | None = None
    """What the server says while no batch ends; it says nothing if this is None."""
    ended: str | None = None
    changed: Callable[[], None] = lambda: None

    def open(self) -> None:
        """Open a new window, whose ranks are provisional."""
        self.windows.append(Window(self.windows[-1].number + 1 if self.windows else 0, final=False))
        self.changed()

    def revise(self) -> None:
        """Change the ranks of the newest window."""
        self.windows[-1].revision += 1
        self.changed()

    def finish(self) -> None:
        """Make the newest window final."""
        self.windows[-1].final = True
        self.revise()

    def step(self, count: int = 1) -> None:
        """Add final windows."""
        for _ in range(count):
            number = self.windows[-1].number + 1 if self.windows else 0
            self.windows.append(Window(number))
        del self.windows[:-KEPT]
        self.changed()

    def boost(self, symbol: str, factor: float) -> None:
        """Multiply the turnover of a symbol in all windows after the newest."""
        self.boosts[symbol] = (self.windows[-1].number + 1 if self.windows else 0, factor)

    def tell(self, **health: Any) -> None:
        """Change what is said of the health of the job."""
        self.health.update(health)
        self.changed()

    def end(self, message: str) -> None:
        """End the job: readers are told and are not served any more."""
        self.ended = message
        self.changed()

    def keys(self) -> list[str]:
        """All keys, sorted."""
        return [*sorted(self.sectors), *(f"account {n:05}" for n in range(self.accounts))]

    def symbols(self, key: str) -> list[str]:
        """The symbols that are ranked under a key."""
        return self.sectors.get(key) or [f"{name}{key[-5:]}" for name in ("BUY", "SELL", "HOLD")]

    def score(self, query: str, symbol: str, window: Window) -> float:
        """The turnover of a symbol in a window: the same whenever it is asked for."""
        turnover = wave(query, symbol, window.number, 0 if window.final else window.revision)
        since, factor = self.boosts.get(symbol, (0, 1.0))
        return round(turnover * (factor if window.number >= since else 1.0), 2)

    def ranked(self, query: str, key: str, window: Window) -> list[tuple[str, float]]:
        """The ten largest of a key in a window."""
        scores = [(symbol, self.score(query, symbol, window)) for symbol in self.symbols(key)]
        return sorted(scores, key=lambda pair: -pair[1])[:10]

    def described(self, window: Window, best: float | None) -> dict[str, Any]:
        """Say what the API says of a window: of an hour, or of a thousand rows."""
        end = OPENING + window.number * self.slide
        number = window.number
        return {
            "id": str(number),
            "start": text_of(end - self.size) if self.timed else number * 1000,
            "end": text_of(end) if self.timed else (number + 1) * 1000,
            "final": window.final,
            "revision": window.revision,
            "complete": self.complete,
            "best": best,
        }

    def place(self, number: str | None, windows: list[Window]) -> int:
        """Where a window is, the newest if none is named; -1 if it is not remembered."""
        if number is None:
            return len(windows) - 1
        return next((n for n, w in enumerate(windows) if str(w.number) == number), -1)

    def leaders(self, query: str, key: str | None, number: str | None) -> dict[str, Any]:
        """Say what /api/leaders says; there is no window if there is no such key or window."""
        known = self.keys()
        key = known[0] if key is None else key
        windows = list(self.windows)  # a test may add others meanwhile
        at = self.place(number, windows) if key in known else -1
        answer = {
            "query": query,
            "key": [key][: self.partitioned],
            "rankings": len(known) if windows else 0,
            "window": None,
            "newest": number is None if at < 0 else at == len(windows) - 1,
            "total": 0,
            "rows": [],
            "left_total": 0,
            "left": [],
        }
        if at >= 0:
            now = self.ranked(query, key, windows[at])
            before = self.ranked(query, key, windows[at - 1]) if at else None
            answer["window"] = self.described(windows[at], now[0][1])
            rows, left = compared(now, before, key)
            answer |= {"rows": rows[: self.most_rows], "left": left[: self.most_rows]}
            answer |= {"total": len(rows), "left_total": len(left)}
        return answer

    def past(self, query: str, key: str | None, number: str | None) -> dict[str, Any]:
        """Say what /api/windows says; leaders are those of the forty windows around one."""
        known = self.keys()
        key = known[0] if key is None else key
        if key not in known:
            return {"windows": [], "leaders": []}
        windows = list(self.windows)  # a test may add others meanwhile
        boards = [dict(self.ranked(query, key, window)) for window in windows]
        at = self.place(number, windows)
        at = len(boards) - 1 if at < 0 else at
        last = min(max(at + 20, 40), len(boards))
        best: dict[str, int] = {}
        for board in boards[max(0, last - 40) : last]:
            for rank, symbol in enumerate(board, 1):
                best[symbol] = min(rank, best.get(symbol, rank))
        leaders = []
        present = boards[at] if boards else {}
        for symbol in sorted(best, key=lambda symbol: (symbol not in present, best[symbol]))[:12]:
            ranks = [list(board).index(symbol) + 1 if symbol in board else None for board in boards]
            scores = [board.get(symbol) for board in boards]
            leaders.append({"id": symbol, "label": symbol, "ranks": ranks, "scores": scores})
        return {
            "windows": [
                self.described(window, max(board.values()))
                for window, board in zip(windows, boards, strict=True)
            ],
            "leaders": leaders,
        }

    def info(self) -> dict[str, Any]:
        """Say what /api/info says."""
        return {
            "title": "Turnover by sector",
            "version": "0.1.0",
            "described": True,
            "family": "top-k",
            "emit": "updates",
            "queries": [
                {
                    "name": name,
                    "words": words,
                    "keys": ["sector"][: self.partitioned],
                    "columns": COLUMNS,
                }
                for name, words in self.queries.items()
            ],
            "keys": ["sector"][: self.partitioned],
            "columns": COLUMNS,
            "explain": [
                ["Window", "one hour, sliding by one minute"],
                ["Kept", "the skyband of each sector: a row goes when ten later ones beat it"],
                ["Late rows", "accepted for ten seconds, then counted and left out"],
            ],
            "history": {
                "windows": KEPT,
                "words": "the last 360 windows of each ranking, 500,000 rows at most",
            },
        }

    def condition(self) -> dict[str, Any]:
        """Say what /api/health says."""
        number = self.windows[-1].number if self.windows else 0
        mark = text_of(OPENING + timedelta(minutes=number)) if self.windows else None
        return {
            "state": "running" if self.windows else "waiting",
            "message": "",
            "rows": 18_250 * number,
            "rows_per_second": 18_250.0 + 900 * math.sin(number),
            "watermark": mark,
            "lag_seconds": 2.4 if self.windows else None,
            "batch": {"number": number, "seconds": 0.412} if self.windows else None,
            "batches": number + 1 if self.windows else 0,
            "missed_batches": 0,
            "late": 37,
            "set_aside": {"no_time": 0, "future": 2},
            "not_ranked": {"null": 5, "nan": 0},
            "bad_records": 0,
            "extra": {},
            "candidates": 1_284,
            "state_rows": 5_120,
            "state_bytes": 1_843_200,
            "windows": len(self.windows),
            "ranked": 110 * len(self.windows),
            "sinks": [
                {"name": "kafka:boards", "waiting": 0, "delivered": 40, "error": ""},
                {"name": "postgresql:boards", "waiting": 3, "delivered": None, "error": ""},
            ],
            "readers": 3,
            "notes": [],
            **self.health,
        }


@functools.lru_cache(maxsize=200_000)
def wave(query: str, symbol: str, number: int, revision: int) -> float:
    """A turnover that wanders slowly, and a little at random."""
    nature = random.Random(f"{query}/{symbol}")
    base, pace, phase = nature.uniform(2e5, 5e5), nature.uniform(0.05, 0.22), nature.uniform(0, 7)
    noise = random.Random(f"{query}/{symbol}/{number}/{revision}").uniform(-0.05, 0.05)
    return base * math.exp(0.45 * math.sin(number * pace + phase) + noise)


def compared(
    now: list[tuple[str, float]], before: list[tuple[str, float]] | None, key: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of a board, and those that left it since the one before."""
    old = {symbol: rank for rank, (symbol, _) in enumerate(before or [], 1)}
    rows = []
    for rank, (symbol, score) in enumerate(now, 1):
        previous = old.pop(symbol, None)
        change = "entered" if previous is None else "same" if previous == rank else "moved"
        row = {"id": symbol, "rank": rank, "score": f"{score:,.2f}", "number": score}
        row |= {"change": None if before is None else change, "previous_rank": previous}
        rows.append(row | {"cells": cells_of(symbol, key, score)})
    turnover = dict(before or [])
    left = [
        {
            "id": symbol,
            "previous_rank": rank,
            "score": f"{turnover[symbol]:,.2f}",
            "cells": cells_of(symbol, key, turnover[symbol]),
        }
        for symbol, rank in old.items()
    ]
    return rows, left


def cells_of(symbol: str, key: str, score: float) -> list[str | None]:
    """The columns of a row beside its rank and score."""
    nature = random.Random(symbol)
    price = nature.uniform(8, 400)
    return [symbol, key, nature.choice(VENUES), f"{price:.2f}", str(int(score / price / 40))]


def text_of(moment: datetime) -> str:
    """A time as the API writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def policy_of(page: str) -> str:
    """The policy that the server sends: the page's own script and style, and nothing else."""
    hashes = {}
    for tag in ("script", "style"):
        texts = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert len(texts) == 1, f"the page has one <{tag}>, not {len(texts)}"
        digest = hashlib.sha256(texts[0].encode()).digest()
        hashes[tag] = base64.b64encode(digest).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{hashes['script']}'; "
        f"style-src 'sha256-{hashes['style']}'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


class FakeServer:
    """Serves a market in a thread; may be stopped, and started again on the same port."""

    def __init__(self, market: Market, port: int = 0) -> None:
        self.market = market
        self.port = port or free_port()
        self.requests: list[str] = []
        self.listeners: set[asyncio.Event] = set()
        self.stopping = False
        self.mute = False
        """Whether connections stay open, and nothing comes."""
        market.changed = self.wake

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Serve, once connections are taken."""
        self.stopping = False
        settings = uvicorn.Config(
            self.app(), host="127.0.0.1", port=self.port, log_level="critical", lifespan="off"
        )
        self.server = uvicorn.Server(settings)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive(), f"port {self.port} cannot be served"
            time.sleep(0.01)

    def stop(self) -> None:
        """End all streams and close the port."""
        self.stopping = True
        self.server.should_exit = True
        self.wake()
        self.thread.join()

    def wake(self) -> None:
        """Let all streams send what is new."""
        for event in list(self.listeners):
            with contextlib.suppress(RuntimeError):  # its loop has ended meanwhile
                self.loop.call_soon_threadsafe(event.set)

    def app(self) -> Starlette:
        """The application: the page and its API."""
        paths = {
            "/": self.page,
            "/api/info": lambda request: JSONResponse(self.market.info()),
            "/api/keys": self.keys,
            "/api/leaders": self.leaders,
            "/api/windows": self.windows,
            "/api/health": lambda request: JSONResponse(self.market.condition()),
            "/api/events": self.events,
        }
        return Starlette(routes=[Route(path, self.noted(answer)) for path, answer in paths.items()])

    def noted(self, answer: Callable[[Request], Response]) -> Any:
        """Write down what is asked for."""

        async def respond(request: Request) -> Response:
            self.requests.append(str(request.url)[len(self.url) - 1 :])
            return answer(request)

        return respond

    def page(self, request: Request) -> Response:
        """The page, read anew each time, with the policy that fits it."""
        text = PAGE.read_text(encoding="utf-8")
        return HTMLResponse(text, headers={"Content-Security-Policy": policy_of(text)})

    def keys(self, request: Request) -> Response:
        """The keys that hold what is searched for."""
        search = request.query_params.get("search", "").casefold()
        every = self.market.keys()
        matching = [key for key in every if search in key.casefold()]
        limit = int(request.query_params.get("limit", "100"))
        answer = {"total": len(every), "matching": len(matching)}
        return JSONResponse(answer | {"keys": [[key] for key in matching[:limit]]})

    def leaders(self, request: Request) -> Response:
        """A board."""
        window = request.query_params.get("window")
        return JSONResponse(self.market.leaders(*selection(request), window))

    def windows(self, request: Request) -> Response:
        """The windows of a ranking."""
        return JSONResponse(
            self.market.past(*selection(request), request.query_params.get("window"))
        )

    def events(self, request: Request) -> Response:
        """The stream of what is new."""
        return StreamingResponse(self.stream(*selection(request)), media_type="text/event-stream")

    async def stream(self, query: str, key: str | None) -> AsyncIterator[str]:
        """Send the state, and again whenever it changes."""
        self.loop = asyncio.get_running_loop()
        fresh = asyncio.Event()
        self.listeners.add(fresh)
        sent = {}
        try:
            if not self.mute:
                yield "retry: 200\n\n"
            while not self.stopping:
                fresh.clear()
                state = {
                    "health": self.market.condition(),
                    "leaders": self.market.leaders(query, key, None),
                    "alive": self.market.passing,
                }
                for name, data in state.items():
                    if sent.get(name) != data and not self.mute:
                        yield f"event: {name}\ndata: {json.dumps(data)}\n\n"
                sent = state
                if self.market.ended is not None:
                    yield f"event: end\ndata: {json.dumps({'message': self.market.ended})}\n\n"
                    return
                await fresh.wait()
        finally:
            self.listeners.discard(fresh)


def selection(request: Request) -> tuple[str, str | None]:
    """The query and the key of a request."""
    key = request.query_params.get("key")
    return request.query_params.get("query", ""), None if key is None else json.loads(key)[0]


def free_port() -> int:
    """A port that nobody listens to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    """Serve a market that moves every second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--keys", type=int, default=0, help="how many further keys")
    arguments = parser.parse_args()
    market = Market(accounts=arguments.keys)
    market.step(90)
    server = FakeServer(market, arguments.port)
    server.start()
    print(f"Serving {server.url}; end with Ctrl-C.")
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(1)
            # a window is open for two seconds and final in the third
            [market.open, market.revise, market.finish][int(time.time()) % 3]()
    server.stop()


if __name__ == "__main__":
    main()
