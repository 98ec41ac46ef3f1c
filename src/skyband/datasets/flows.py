"""FLOWS: traffic between computers, as the routers on its way report it."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from skyband.datasets.arrivals import DAY, SECOND, Clock, Rate
from skyband.datasets.blocks import BLOCK, generator
from skyband.datasets.journeys import begun, in_time, running
from skyband.datasets.network import busy
from skyband.datasets.source import Dataset, Source
from skyband.order import Floats, Ints

NETWORKS = ("192.0.2", "198.51.100", "203.0.113")  # addresses that are for documentation
HOSTS = 255  # of each network; host 0 is never used
ROUTERS = ("edge-1", "edge-2", "edge-3", "core-1", "core-2", "core-3")
LARGEST = 4_000_000_000  # bytes of a flow

_STREAM = 16
_LOST = 0.02  # largest share of the bytes lost from one router to the next
_DETOUR = 0.4  # share of the flows between networks that pass two core routers
_CORE = 3

CLOCK = Clock(
    start="2009-11-02",
    cycle=DAY,
    sessions=(0,),
    length=DAY,
    rows=250 * DAY,
    rhythm=busy,
)


class _Reports(NamedTuple):
    """A block of reports, as numbers."""

    times: Ints
    source: Ints
    destination: Ints
    router: Ints
    bytes: Ints


class Flows(Source):
    """Reports of six routers on the flows that pass them, 250 a second on average.

    A flow goes from one address to another, and enters by the edge router of its source's
    network; unless it stays there it goes on through one or two core routers and leaves by another
    edge router. Each router reports it seconds after the one before, with slightly fewer bytes.
    Sizes have a heavy tail, and a small share of the computers takes part in most flows, so pairs
    of addresses repeat.

    Reference: Haghani et al., CIKM 2009, section 1 and Figure 1 (flows of an Internet service
    provider, of which each router reports the size that it saw).

    Deviations: the network is ours. A flow that is on its way when a block ends is reported by the
    remaining routers as one between other computers.
    """

    schema = pa.schema(
        [
            ("ts", pa.timestamp("us", tz="UTC")),
            ("flow", pa.string()),
            ("router", pa.string()),
            ("bytes", pa.int64()),
        ]
    )
    rated = True

    @override
    def block(self, seed: int, number: int, rate: Rate) -> pa.RecordBatch:
        reports = _reports(seed, number, rate)
        known = pa.array(addresses())
        pair = (known.take(reports.source), known.take(reports.destination))
        columns = [
            pa.array(reports.times, self.schema.field("ts").type),
            pc.binary_join_element_wise(*pair, "-"),
            pa.array(ROUTERS).take(reports.router),
            pa.array(reports.bytes),
        ]
        return pa.record_batch(columns, schema=self.schema)

    @override
    def scores(self, seed: int, number: int) -> Floats:
        return _reports(seed, number, "even").bytes.astype(np.float64)


@cache
def addresses() -> tuple[str, ...]:
    """The addresses, network by network; host 0 is not one."""
    return tuple(f"{net}.{host}" for net in NETWORKS for host in range(HOSTS))


def _reports(seed: int, number: int, rate: Rate) -> _Reports:
    rng = generator(seed, _STREAM, number)
    times, _ = CLOCK.times(seed, number, rate)
    length = max(1.0, (times[-1] - times[0]) / SECOND)
    flows = BLOCK // 2  # more than fill a block
    net = rng.integers(0, len(NETWORKS), (2, flows))
    away = net[0] != net[1]
    stops = np.where(away, 3 + (rng.random(flows) < _DETOUR), 1)
    journey = begun(stops)
    first = np.flatnonzero(np.diff(journey, prepend=-1))
    stop = np.arange(BLOCK) - np.repeat(first, np.diff(first, append=BLOCK))
    router = _ways(rng, net, stops)[journey, stop]
    size = 2_000 * np.exp(1.8 * rng.standard_normal(flows)) * (1 + rng.pareto(1.1, flows))
    left = np.exp(running(journey, np.log1p(-_LOST * rng.random(BLOCK))))
    sent = np.rint((size[journey] * left).clip(40, LARGEST)).astype(np.int64)
    since = running(journey, rng.exponential(8.0, BLOCK))
    at = in_time(journey, rng.uniform(0, length, flows), since, length)
    rounds = 1 + int(at.journey.max()) // flows
    host = (HOSTS ** rng.random((2, flows * rounds))).astype(np.int64)  # from 1 on, most small
    whose = at.journey % flows
    source, destination = (net[side][whose] * HOSTS + host[side][at.journey] for side in (0, 1))
    destination += source == destination  # no flow to its own source; the largest host is rare
    return _Reports(times, source, destination, router[at.drawn], sent[at.drawn])


def _ways(rng: np.random.Generator, net: Ints, stops: Ints) -> Ints:
    """The routers of each flow: edge, core, perhaps another core, edge; as many as it stops at."""
    core = rng.integers(0, _CORE, len(stops))
    other = (core + rng.integers(1, _CORE, len(stops))) % _CORE
    last = np.where(stops == 3, net[1], len(NETWORKS) + other)
    routers: Ints = np.stack([net[0], len(NETWORKS) + core, last, net[1]], axis=1)
    return routers


FLOWS = Dataset(
    name="flows",
    title="FLOWS: traffic through routers",
    description="Flows between addresses, and the bytes of each that routers report.",
    score="bytes",
    time="ts",
    source=Flows(),
    seen=("flow", "router", "bytes"),
)
