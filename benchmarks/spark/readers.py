"""Many readers of a live page, in a process of their own: ``python -m benchmarks.spark.readers``.

They follow the page as browsers do, and look back as those do: whenever the newest window changes,
and every two seconds at most while only its ranks do. They parse nothing: what they cost is what it
costs to receive.

The process says in a line of JSON when all are connected, and, once its standard input is closed,
what they have received and what that cost.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time

_REQUEST = b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n"
_PAST = b"GET /api/windows HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
_WINDOW = re.compile(rb'event: leaders\n.{0,500}?"window": \{"id": "([^"]*)"', re.DOTALL)
_LOOK_BACK = 2.0  # seconds between two looks at the past of the same window, as in the page
_AT_ONCE = 50  # connections that are opened together


class Receiver(asyncio.BufferedProtocol):
    """One connection; all of them receive into the same memory."""

    memory = bytearray(1 << 16)
    received = 0
    lost = 0

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to receive."""
        return memoryview(Receiver.memory)

    def buffer_updated(self, nbytes: int) -> None:
        """Count what came."""
        Receiver.received += nbytes


class Past(Receiver):
    """The connection on which a reader asks for the windows before."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask at once."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.ask()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the server has closed it: it does so with a connection that rests."""
        self.transport = None

    def ask(self) -> None:
        """Send the request."""
        assert self.transport is not None
        self.transport.write(_PAST)


class Reader(Receiver):
    """The connection on which a reader hears what is new."""

    looks = 0

    def __init__(self, port: int) -> None:
        self._port = port
        self._past = Past()
        self._window = b""
        self._looked = 0.0
        self._opening: asyncio.Task[object] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for what is new."""
        assert isinstance(transport, asyncio.Transport)
        transport.write(_REQUEST)

    def buffer_updated(self, nbytes: int) -> None:
        """Count what came, and look back if a board was part of it."""
        super().buffer_updated(nbytes)
        window = _WINDOW.search(Receiver.memory, 0, nbytes)
        if window is None:
            return
        now = time.monotonic()
        if window[1] != self._window or now - self._looked >= _LOOK_BACK:
            self._window, self._looked = window[1], now
            self._look_back()

    def _look_back(self) -> None:
        if self._opening is not None and not self._opening.done():
            return  # a page waits for the answer before it asks again
        Reader.looks += 1
        if self._past.transport is not None:
            self._past.ask()
            return
        loop = asyncio.get_running_loop()
        opened = loop.create_connection(lambda: self._past, "127.0.0.1", self._port)
        self._opening = loop.create_task(opened)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count who was sent away."""
        Receiver.lost += 1
        if self._past.transport is not None:
            self._past.transport.abort()


async def read(port: int, count: int) -> None:
    """Connect so many readers, and receive until standard input is closed."""
    loop = asyncio.get_running_loop()
    transports: list[asyncio.BaseTransport] = []
    while len(transports) < count:
        some = min(_AT_ONCE, count - len(transports))
        opened = (
            loop.create_connection(lambda: Reader(port), "127.0.0.1", port) for _ in range(some)
        )
        transports += [transport for transport, _ in await asyncio.gather(*opened)]
    print(json.dumps({"connected": len(transports)}), flush=True)
    before, received = time.process_time(), Receiver.received
    await loop.run_in_executor(None, sys.stdin.read)
    spent = time.process_time() - before
    result = {"cpu_seconds": spent, "bytes": Receiver.received - received, "lost": Receiver.lost}
    result["looks"] = Reader.looks
    print(json.dumps(result), flush=True)
    for transport in transports:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


if __name__ == "__main__":
    asyncio.run(read(int(sys.argv[1]), int(sys.argv[2])))
