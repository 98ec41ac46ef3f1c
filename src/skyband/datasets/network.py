"""NETWORK: traffic of the computers of a campus, a few of which attack others."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from typing_extensions import override

from skyband.datasets.arrivals import DAY, HOUR, Clock, Rate
from skyband.datasets.blocks import BLOCK, generator, places
from skyband.datasets.source import Dataset, Source
from skyband.order import Bools, Floats, Ints

COMPUTERS = 1_024
SERVERS = 24  # the first of the computers
ATTACKS = 2  # of a block
ATTACK = 16_384  # reports while an attack lasts, of which a 1,024th are the attacker's

_STREAM = 13
_CAMPUS = 14
_STRIDE = 389  # in which order computers report; odd, so each has its turn


def busy(seconds: Floats) -> Floats:
    """Relative load, given seconds after midnight: from 0.4 at four to 1.6 twelve hours later."""
    wave: Floats = 1 - 0.6 * np.cos((seconds - 4 * HOUR) * (2 * np.pi / DAY))
    return wave


CLOCK = Clock(
    start="2010-03-01",
    cycle=DAY,
    sessions=(0,),
    length=DAY,
    rows=200 * DAY,
    rhythm=np.ones_like,
)


class _Reports(NamedTuple):
    """A block of reports, as numbers."""

    times: Ints
    computer: Ints
    bandwidth: Floats
    connections: Ints
    destinations: Ints
    attack: Bools


class Network(Source):
    """Reports of 1,024 computers in turn, 200 a second: bandwidth, connections, destinations.

    Bandwidth is in megabits a second. All three have heavy tails and follow the day; servers have
    many connections to not so many destinations. Now and then a computer attacks for a minute or
    so: thousands of connections, each to another destination. ``attack`` is 1 in its reports, so
    that a query for attackers can be checked.

    Invariants: (1) a computer reports once in 1,024 rows; (2) there are at least as many
    connections as destinations, and at least one.

    Reference: Kontaki et al., TKDE 2012, section 1 (the network operation center of a campus).
    """

    schema = pa.schema(
        [
            ("ts", pa.timestamp("us", tz="UTC")),
            ("computer", pa.string()),
            ("bandwidth", pa.float64()),
            ("connections", pa.int64()),
            ("destinations", pa.int64()),
            ("attack", pa.int64()),
        ]
    )
    rated = True

    @override
    def block(self, seed: int, number: int, rate: Rate) -> pa.RecordBatch:
        reports = _reports(seed, number, rate)
        columns = [
            pa.array(reports.times, self.schema.field("ts").type),
            pa.array(computers()).take(pa.array(reports.computer)),
            pa.array(reports.bandwidth),
            pa.array(reports.connections),
            pa.array(reports.destinations),
            pa.array(reports.attack.astype(np.int64)),
        ]
        return pa.record_batch(columns, schema=self.schema)

    @override
    def scores(self, seed: int, number: int) -> Floats:
        return _reports(seed, number, "even").bandwidth


@cache
def computers() -> tuple[str, ...]:
    """The names of the computers."""
    servers = [f"server-{number:02d}" for number in range(1, SERVERS + 1)]
    return (*servers, *(f"pc-{number:04d}" for number in range(1, COMPUTERS - SERVERS + 1)))


@lru_cache(maxsize=2)
def _habits(seed: int) -> Floats:
    """Usual connections of each computer."""
    usual = 6 * np.exp(0.9 * generator(seed, _CAMPUS, 0).standard_normal(COMPUTERS))
    usual[:SERVERS] *= 20
    return usual


def _reports(seed: int, number: int, rate: Rate) -> _Reports:
    rng = generator(seed, _STREAM, number)
    times, seconds = CLOCK.times(seed, number, rate)
    computer = places(number) * _STRIDE % COMPUTERS
    mean = _habits(seed)[computer] * busy(seconds) * np.exp(0.7 * rng.standard_normal(BLOCK))
    connections = 1 + np.floor(mean)
    destinations = np.ceil(connections ** rng.uniform(0.4, 0.9, BLOCK))
    bandwidth = 0.03 * connections * np.exp(0.8 * rng.standard_normal(BLOCK))
    bandwidth *= 1 + rng.pareto(1.8, BLOCK)
    attack = _attacks(rng, computer)
    flood = np.rint(rng.uniform(2_000, 6_000, BLOCK))
    connections = np.where(attack, flood, connections)
    destinations = np.where(attack, np.rint(flood * rng.uniform(0.9, 1.0, BLOCK)), destinations)
    bandwidth = np.where(attack, flood * rng.uniform(0.02, 0.1, BLOCK), bandwidth)
    return _Reports(
        times,
        computer,
        np.rint(bandwidth * 1000) / 1000,
        connections.astype(np.int64),
        destinations.astype(np.int64),
        attack,
    )


def _attacks(rng: np.random.Generator, computer: Ints) -> Bools:
    """Mark the reports of attackers; no attack passes the end of its block."""
    attackers = rng.integers(SERVERS, COMPUTERS, ATTACKS)
    starts = rng.integers(0, BLOCK - ATTACK, ATTACKS)
    attacked = np.zeros(BLOCK, np.bool_)
    for attacker, start in zip(attackers.tolist(), starts.tolist(), strict=True):
        attacked[start : start + ATTACK] |= computer[start : start + ATTACK] == attacker
    return attacked


NETWORK = Dataset(
    name="network",
    title="NETWORK: computers of a campus",
    description="Bandwidth, connections and destinations of computers, a few of which attack.",
    score="bandwidth",
    time="ts",
    source=Network(),
    dimensions=(("bandwidth", "max"), ("connections", "max"), ("destinations", "max")),
)
