"""WORLDCUP: requests to a large web site in the summer of 1998, when there were matches."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from typing_extensions import override

from skyband.datasets.arrivals import DAY, HOUR, SECOND, Clock, Rate
from skyband.datasets.blocks import BLOCK, generator
from skyband.datasets.incomplete import Sightings
from skyband.datasets.journeys import begun, in_time, running
from skyband.datasets.source import Dataset, Source
from skyband.errors import QueryError
from skyband.order import Floats, Ints

SERVERS = 8
CLIENTS = 2_000_000
MATCHES = (12.5, 15.5, 19.0)  # hours of the day, in UTC, at which matches begin
LARGEST = 4_000_000  # bytes of a response
FULL = 1_000_000  # bytes of a chunk that count as a value of 1, as do more

_STREAM = 18
_PAGES = 4  # of a visit, on average
_PARTS = 7  # of a page: requests
_READING = 30.0  # seconds from one page to the next
_LOADING = 1.0  # seconds until a part of a page is requested
_HOME = 0.25  # of a visit's requests go to one server, the others to any
_MILLISECOND = 1_000


def interest(seconds: Floats) -> Floats:
    """Relative load, given seconds after midnight: higher by day and around matches."""
    wave = 1 - 0.5 * np.cos((seconds - 3 * HOUR) * (2 * np.pi / DAY))
    for start in MATCHES:
        passed = (seconds - start * HOUR) / HOUR
        wave += 2 * np.exp(-(((passed - 0.9) / 0.7) ** 2))  # while it lasts
        wave += 2 * np.exp(-(((passed - 1.9) / 0.15) ** 2))  # and when it is over
    return wave


CLOCK = Clock(
    start="1998-06-10",
    cycle=DAY,
    sessions=(0,),
    length=DAY,
    rows=160 * DAY,
    rhythm=interest,
)


class Requests(NamedTuple):
    """A block of requests, as numbers."""

    times: Ints
    client: Ints
    server: Ints
    bytes: Ints


class WorldCup(Source):
    """Requests of clients to eight servers, 160 a second on average: who, where, how many bytes.

    A visit of a client is a number of pages, each of them some requests within seconds. A small
    share of the clients (proxies of whole companies) visits often. Sizes are log-normal with a
    Pareto tail. A quarter of a visit's requests go to one server, the others to any.

    Reference: Haghani et al., CIKM 2009, section 6.1.1 (WorldCup98: client, server and size of
    requests to the web site of the championship of 1998).

    Deviations: drawn, not the log of the site; so are the rhythm, the number of servers, what
    visits look like, and that they go on at the beginning of a block where they pass its end.
    """

    schema = pa.schema(
        [
            ("ts", pa.timestamp("us", tz="UTC")),
            ("client", pa.int64()),
            ("server", pa.string()),
            ("bytes", pa.int64()),
        ]
    )
    rated = True

    @override
    def block(self, seed: int, number: int, rate: Rate) -> pa.RecordBatch:
        block = requests(seed, number, rate)
        columns = [
            pa.array(block.times, self.schema.field("ts").type),
            pa.array(block.client),
            pa.array(servers()).take(pa.array(block.server)),
            pa.array(block.bytes),
        ]
        return pa.record_batch(columns, schema=self.schema)

    @override
    def scores(self, seed: int, number: int) -> Floats:
        return requests(seed, number, "even").bytes.astype(np.float64)


@cache
def servers() -> tuple[str, ...]:
    """The names of the servers."""
    return tuple(f"server-{number}" for number in range(1, SERVERS + 1))


def requests(seed: int, number: int, rate: Rate = "even") -> Requests:
    """A block of requests, by time."""
    rng = generator(seed, _STREAM, number)
    times, _ = CLOCK.times(seed, number, rate)
    length = max(1.0, (times[-1] - times[0]) / SECOND)
    visits = BLOCK // 16  # more than fill a block
    pages = rng.geometric(1 / _PAGES, visits)
    of = np.repeat(np.arange(visits), pages)
    page = begun(rng.geometric(1 / _PARTS, len(of)))
    visit = of[page]
    reading = running(of, rng.exponential(_READING, len(of)))
    since = reading[page] + rng.exponential(_LOADING, BLOCK)
    at = in_time(visit, rng.uniform(0, length, visits), since, length)
    whose = visit[at.drawn]  # also of visits that continue at the beginning of the block
    client = (CLIENTS ** rng.random(visits)).astype(np.int64)
    home = rng.integers(0, SERVERS, visits)[whose]
    server = np.where(rng.random(BLOCK) < _HOME, home, rng.integers(0, SERVERS, BLOCK))
    size = 3_000 * np.exp(1.3 * rng.standard_normal(BLOCK)) * (1 + rng.pareto(1.4, BLOCK))
    return Requests(times, client[whose], server, np.rint(size.clip(40, LARGEST)).astype(np.int64))


def chunked(rows: int, servers: int = 2, delta_ms: int = 5_000, seed: int = 0) -> Sightings:
    """Add up the bytes sent to clients in chunks of time; return ``rows`` values from 0 to 1.

    Each of the first ``servers`` servers is a stream. It adds up the requests of each client in
    chunks of ``delta_ms`` milliseconds, and sends the sums when a chunk is over. A client that
    comes again in a stream is a new object from then on, in all streams; so no object comes twice
    in one of them.

    Complexity: O(log n) a request; space for all requests.

    Reference: Haghani et al., CIKM 2009, section 6.1.1. Deviations: the paper does not say how
    values are normalised, nor in which order chunks arrive. Here a value is the logarithm of the
    bytes, 1 for a million of them or more: as shares of the largest sum most values would be next
    to nothing. Rows of a chunk stand by the time of their last request.

    >>> rows = chunked(1_000, servers=3)
    >>> len(rows.id), sorted(set(rows.stream.tolist()))
    (1000, [0, 1, 2])
    """
    if rows < 0 or not 1 <= servers <= SERVERS or delta_ms < 1:
        raise QueryError(
            f"{rows} rows of {servers} servers in chunks of {delta_ms} ms",
            f"one to {SERVERS} servers and a millisecond at least",
            "write servers=2, delta_ms=5_000",
        )
    parts: list[Requests] = []
    chunks = None
    while chunks is None or len(chunks.client) < rows:
        for _ in range(max(1, len(parts))):
            block = requests(seed, len(parts))
            there = block.server < servers
            parts.append(Requests(*(column[there] for column in block)))
        joined = Requests(*map(np.concatenate, zip(*parts, strict=True)))
        chunks = _added_up(joined, delta_ms * _MILLISECOND)
    chunks = Requests(*(column[:rows] for column in chunks))
    value = np.minimum(1.0, np.log1p(chunks.bytes) / np.log1p(FULL))
    return Sightings(_broken(chunks.client, chunks.server), chunks.server, value)


def _added_up(rows: Requests, length: int) -> Requests:
    """Sum bytes per chunk, client and server; ended chunks only, by chunk and last request."""
    chunk = rows.times // length
    over = chunk < chunk[-1] if len(chunk) else chunk < 0
    who = rows.client[over] * SERVERS + rows.server[over]
    order = np.lexsort((who, chunk[over]))
    who, chunk = who[order], chunk[over][order]
    first = np.flatnonzero((np.diff(who, prepend=-1) != 0) | (np.diff(chunk, prepend=-1) != 0))
    if not len(first):
        return Requests(*(column[:0] for column in rows))
    last = np.append(first[1:], len(who)) - 1
    moment = rows.times[over][order][last]
    by_time = np.argsort(moment, kind="stable")
    client, server = np.divmod(who[first], SERVERS)
    total = np.add.reduceat(rows.bytes[over][order], first)
    return Requests(moment[by_time], client[by_time], server[by_time], total[by_time])


def _broken(client: Ints, server: Ints) -> Ints:
    """Number objects from 0: a client that comes again in a stream is a new object."""
    alias: dict[int, tuple[int, int]] = {}  # by client: its object, and the streams, as bits
    ids = np.empty(len(client), np.int64)
    objects = 0
    for at, (who, bit) in enumerate(zip(client.tolist(), (1 << server).tolist(), strict=True)):
        number, came = alias.get(who, (-1, bit))
        if came & bit:
            number, came, objects = objects, 0, objects + 1
        alias[who] = (number, came | bit)
        ids[at] = number
    return ids


WORLDCUP = Dataset(
    name="worldcup",
    title="WORLDCUP: requests to a web site",
    description="Clients, servers and bytes of requests to a web site, many around matches.",
    score="bytes",
    time="ts",
    source=WorldCup(),
    seen=("client", "server", "bytes"),
)
