"""Many readers of a live page, in a process of their own: ``python -m benchmarks.spark.readers``.

They follow the page as browsers do, but parse nothing: what they cost is what it costs to receive.
The process says in a line of JSON when all are connected, and, once its standard input is closed,
what they have received and what that cost.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

_REQUEST = b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n"
_AT_ONCE = 50  # connections that are opened together


class Reader(asyncio.BufferedProtocol):
    """One connection; all of them receive into the same memory."""

    memory = bytearray(1 << 16)
    received = 0
    lost = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for what is new."""
        assert isinstance(transport, asyncio.Transport)
        transport.write(_REQUEST)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to receive."""
        return memoryview(Reader.memory)

    def buffer_updated(self, nbytes: int) -> None:
        """Count what came."""
        Reader.received += nbytes

    def connection_lost(self, exc: Exception | None) -> None:
        """Count who was sent away."""
        Reader.lost += 1


async def read(port: int, count: int) -> None:
    """Connect so many readers, and receive until standard input is closed."""
    loop = asyncio.get_running_loop()
    transports: list[asyncio.BaseTransport] = []
    while len(transports) < count:
        some = min(_AT_ONCE, count - len(transports))
        opened = (loop.create_connection(Reader, "127.0.0.1", port) for _ in range(some))
        transports += [transport for transport, _ in await asyncio.gather(*opened)]
    print(json.dumps({"connected": len(transports)}), flush=True)
    before, received = time.process_time(), Reader.received
    await loop.run_in_executor(None, sys.stdin.read)
    spent = time.process_time() - before
    result = {"cpu_seconds": spent, "bytes": Reader.received - received, "lost": Reader.lost}
    print(json.dumps(result), flush=True)
    for transport in transports:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


if __name__ == "__main__":
    asyncio.run(read(int(sys.argv[1]), int(sys.argv[2])))
