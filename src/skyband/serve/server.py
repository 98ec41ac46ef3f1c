"""Listens for readers of a page, in a thread of its own, and stops within a second."""

from __future__ import annotations

import os
import secrets
import threading
from types import TracebackType

import uvicorn

from skyband.serve.address import Address
from skyband.serve.app import application
from skyband.serve.feed import Feed

TOKEN = "SKYBAND_TOKEN"
"""The variable of the environment that holds the token of readers from elsewhere."""

_MOST_READERS = 2_000  # connections at a time; more are told to come again
_PATIENCE = 1  # seconds in which readers are taken leave of


class PageServer:
    """Serves the page of a feed while its block runs.

    The socket listens from the start, so that a port that is taken is an error before any work.
    Readers from other machines need a token: the one of the environment, or one made up here.
    """

    def __init__(
        self, feed: Feed, address: Address, token: str | None = None, option: str = "--serve"
    ) -> None:
        self.feed = feed
        self._socket, self.address = address.bound(option)
        self.token = token or os.environ.get(TOKEN) or None
        self._made_up = self.token is None and not address.is_loopback
        if self._made_up:
            self.token = secrets.token_urlsafe(24)
        self._server = uvicorn.Server(
            uvicorn.Config(
                application(feed, self.token),
                log_config=None,
                log_level="critical",  # garbage that others send is no warning to who runs a job
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                limit_concurrency=_MOST_READERS,
                timeout_graceful_shutdown=_PATIENCE,
            )
        )
        self._thread = threading.Thread(target=self._serve, name="skyband page", daemon=True)

    @property
    def url(self) -> str:
        """The address of the page, with a token that was made up here: no other is shown."""
        url = self.address.url()
        return f"{url}?token={self.token}" if self._made_up else url

    @property
    def thread_id(self) -> int | None:
        """The thread that serves, as the system counts it."""
        return self._thread.native_id

    def _serve(self) -> None:
        self._server.run([self._socket])

    def __enter__(self) -> PageServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.feed.ended:
            failed = kind is not None and not issubclass(kind, KeyboardInterrupt)
            self.feed.end(str(error) if failed else "The job was stopped.", failed=failed)
        self._server.should_exit = True
        self._thread.join(_PATIENCE + 1)
        self._socket.close()
