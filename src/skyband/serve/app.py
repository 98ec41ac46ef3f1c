"""Answers requests for the page and for its data; each answer is made once for all readers."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from functools import cache
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.responses import StreamingResponse as Streaming
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skyband.serve import metrics
from skyband.serve.feed import Feed
from skyband.serve.history import BOARD_ROWS
from skyband.serve.openapi import DOCUMENT

_ALIVE = 5.0  # seconds after which a silent connection hears how time goes on
_FRESH = 1.0  # seconds for which the health of a version is given again
_RETRY = 1_500  # milliseconds after which a browser that lost its connection tries again
_MOST_KEYS, _MOST_ROWS = 1_000, 100_000
_MOST_ANSWERS, _MOST_BYTES = 256, 64_000_000  # of the answers that are made once for all
_COOKIE = "skyband"
_OPEN = ("/healthz", "/readyz")  # for those who only want to know whether we live
_LOCAL = re.compile(r"(localhost|127(\.\d+){3}|\[::1\])(:\d+)?", re.IGNORECASE)


@cache
def page() -> tuple[bytes, str]:
    """The page, and the policy that lets its own script and style run, and nothing else."""
    content = resources.files("skyband.serve").joinpath("page.html").read_bytes()
    hashes = {
        tag: " ".join(
            f"'sha256-{base64.b64encode(hashlib.sha256(block).digest()).decode()}'"
            for block in re.findall(
                rb"<%b[^>]*>(.*?)</%b>" % (tag.encode(), tag.encode()), content, re.S
            )
        )
        for tag in ("script", "style")
    }
    policy = (
        f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return content, policy


class Guard:
    """Lets nobody in without the token, and nobody's page speak for a reader of ours.

    Without a token the server listens on loopback alone; a page from elsewhere could still reach it
    through its reader's browser, by a name that leads here. So only names of this machine are
    answered.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, refuse, or turn a token in the address into a cookie."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refusal = self._refusal(request)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_headers(request.url.path)]
            await send(message)

        await (refusal or self._app)(scope, receive, send_guarded)

    def _refusal(self, request: Request) -> Response | None:
        if request.url.path in _OPEN:
            return None
        if self._token is None:
            if _LOCAL.fullmatch(request.headers.get("host", "")):
                return None
            return PlainTextResponse("this page is served to this machine alone\n", 403)
        given = request.query_params.get("token")
        cookie = _cookie(request)
        if given is not None and request.url.path == "/" and self._is_right(given):
            welcome = RedirectResponse("./", 303)  # relative, so that a proxy may add a prefix
            welcome.set_cookie(cookie, given, httponly=True, samesite="strict")
            return welcome
        header = request.headers.get("authorization", "")
        if header.startswith("Bearer ") and self._is_right(header.removeprefix("Bearer ")):
            return None
        if self._is_right(request.cookies.get(cookie, "")):
            return None
        words = "a token is missing or wrong: open /?token=..., or send Authorization: Bearer ...\n"
        return PlainTextResponse(words, 401, {"WWW-Authenticate": "Bearer"})

    def _is_right(self, given: str) -> bool:
        return self._token is not None and secrets.compare_digest(
            given.encode(), self._token.encode()
        )


def _cookie(request: Request) -> str:
    """The name of our cookie: browsers send those of a host to all of its ports."""
    server = request.scope.get("server")
    return _COOKIE if server is None else f"{_COOKIE}-{server[1]}"


def _headers(path: str) -> list[tuple[bytes, bytes]]:
    """What every answer says to a browser."""
    policy = page()[1] if path == "/" else "default-src 'none'; frame-ancestors 'none'"
    return [
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"cache-control", b"no-store"),
    ]


class Answers:
    """Answers from a feed, each made once per version of it, whoever asks.

    Those that were asked for last are remembered, within bounds. ``clock`` counts seconds.
    """

    def __init__(self, feed: Feed, clock: Callable[[], float] = time.monotonic) -> None:
        self.feed = feed
        self._clock = clock
        self._version = -1
        self._made: OrderedDict[Any, bytes] = OrderedDict()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        """How many answers are remembered."""
        return len(self._made)

    def follow(self) -> None:
        """Wake readers whenever the feed changes, from whatever thread; once is enough."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self.feed.on_change = self._wake_safely

    def _wake_safely(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()

    def made(self, what: Any, make: Callable[[], Any]) -> bytes:
        """An answer as JSON; the one that was made before, if nothing has changed since."""
        return self._made_once(what, lambda: json.dumps(make(), ensure_ascii=False).encode())

    def _made_once(self, what: Any, make: Callable[[], bytes]) -> bytes:
        version = self.feed.version
        if self._version != version:
            self._version, self._bytes = version, 0
            self._made.clear()
        answer = self._made.get(what)
        if answer is not None:
            self._made.move_to_end(what)
            return answer
        answer = make()
        if self._version == version:  # else it may be made of old and new
            self._bytes += len(answer) - len(self._made.get(what, b""))
            self._made[what] = answer
            while len(self._made) > _MOST_ANSWERS or self._bytes > _MOST_BYTES:
                self._bytes -= len(self._made.popitem(last=False)[1])
        return answer

    def leaders(
        self, query: str, key: str | None, window: str | None, limit: int = BOARD_ROWS
    ) -> bytes:
        """A ranking of a query and key; ``key`` is a list in JSON."""
        parts = None if key is None else json.loads(key)
        make = lambda: self.feed.history.leaders(query, parts, window, limit)  # noqa: E731
        return self.made(("leaders", query, key, window, limit), make)

    def health(self) -> bytes:
        """How the stream is doing; lag and readers change though the feed does not."""
        return self.made(("health", self._moment()), self.feed.health)

    def _moment(self) -> int:
        """The time, in steps within which nothing is measured again."""
        return int(self._clock() / _FRESH)

    def state(self, query: str, key: str | None) -> bytes:
        """What is new for all who follow a ranking, in one piece: sending is what readers cost."""

        def make() -> bytes:
            leaders = self.leaders(query, key, None)
            return _event("health", self.health()) + _event("leaders", leaders)

        return self._made_once(("state", query, key, self._moment()), make)

    def alive(self) -> bytes:
        """What changes while nothing happens: a reader that hears it knows the connection is up."""
        make = lambda: _event("alive", json.dumps(self.feed.passing()).encode())  # noqa: E731
        return self._made_once(("alive", self._moment()), make)

    async def events(self, query: str, key: str | None) -> AsyncIterator[bytes]:
        """Send the newest state again and again, as fast as the reader takes it, no backlog."""
        self.feed.readers += 1
        try:
            yield b"retry: %d\n\n" % _RETRY
            seen = -1
            while True:
                changed, ended = self._changed, self.feed.ended
                if seen != self.feed.version:
                    seen = self.feed.version
                    yield self.state(query, key)
                if ended:
                    yield _event("end", json.dumps({"message": self.feed.message}).encode())
                    return
                try:
                    async with asyncio.timeout(_ALIVE):
                        await changed.wait()
                except TimeoutError:
                    yield self.alive()
        finally:
            self.feed.readers -= 1


def _event(name: str, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


class WrongRequestError(Exception):
    """A parameter that makes no sense; the message is for whoever sent it."""


def application(feed: Feed, token: str | None = None) -> ASGIApp:
    """The page of a feed, its data, and what machines ask for."""
    answers = Answers(feed)

    async def show_page(request: Request) -> Response:
        return Response(page()[0], media_type="text/html; charset=utf-8")

    async def info(request: Request) -> Response:
        return _json(answers.made("info", feed.info))

    async def keys(request: Request) -> Response:
        query, search = (
            request.query_params.get("query", ""),
            request.query_params.get("search", ""),
        )
        limit = _limit(request.query_params.get("limit", "100"), _MOST_KEYS)
        what = ("keys", query, search, limit)
        return _json(answers.made(what, lambda: feed.history.keys(query, search, limit)))

    async def leaders(request: Request) -> Response:
        query, key = _selection(request)
        limit = _limit(request.query_params.get("limit", str(BOARD_ROWS)), _MOST_ROWS)
        return _json(answers.leaders(query, key, request.query_params.get("window"), limit))

    async def windows(request: Request) -> Response:
        query, key = _selection(request)
        parts = None if key is None else json.loads(key)
        window = request.query_params.get("window")
        make = lambda: feed.history.windows(query, parts, window)  # noqa: E731
        return _json(answers.made(("windows", query, key, window), make))

    async def health(request: Request) -> Response:
        return _json(answers.health())

    async def events(request: Request) -> Response:
        return Streaming(answers.events(*_selection(request)), media_type="text/event-stream")

    async def healthz(request: Request) -> Response:
        if feed.has_failed:
            return PlainTextResponse("the stream has failed\n", 503)
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        if feed.is_ready:
            return PlainTextResponse("ready\n")
        return PlainTextResponse("no batch has ended yet\n", 503)

    async def show_metrics(request: Request) -> Response:
        return Response(metrics.exposition(feed), media_type=metrics.CONTENT_TYPE)

    async def openapi(request: Request) -> Response:
        return JSONResponse(DOCUMENT)

    async def wrong(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, 400)

    routes = {
        "/": show_page,
        "/api/info": info,
        "/api/keys": keys,
        "/api/leaders": leaders,
        "/api/windows": windows,
        "/api/health": health,
        "/api/events": events,
        "/api/openapi.json": openapi,
        "/healthz": healthz,
        "/readyz": readyz,
        "/metrics": show_metrics,
    }
    app = Starlette(
        routes=[Route(path, endpoint) for path, endpoint in routes.items()],
        exception_handlers={WrongRequestError: wrong},
    )
    return _following(Guard(app, token), answers)


def _following(app: ASGIApp, answers: Answers) -> ASGIApp:
    """Have readers woken from the first request on, in the loop that serves them."""

    async def followed(scope: Scope, receive: Receive, send: Send) -> None:
        answers.follow()
        await app(scope, receive, send)

    return followed


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")


def _selection(request: Request) -> tuple[str, str | None]:
    """The query and the key that are asked for; the key in one spelling of JSON."""
    key = request.query_params.get("key")
    if key is not None:
        try:
            parts = json.loads(key)
            # half of a surrogate pair is text to JSON, and cannot be sent
            is_key = isinstance(parts, list) and all(
                part is None or (isinstance(part, str) and part.encode() is not None)
                for part in parts
            )
        except (ValueError, RecursionError):
            is_key = False
        if not is_key:
            raise WrongRequestError('key is not a list of texts in JSON, such as ["Energy"]')
        key = json.dumps(parts)
    return request.query_params.get("query", ""), key


def _limit(text: str, most: int) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) <= 9
    if not is_number or not 1 <= int(text) <= most:
        raise WrongRequestError(f"limit is not a whole number from 1 to {most:,}")
    return int(text)
