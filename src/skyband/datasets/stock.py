"""STOCK: trades of 2,300 stocks, busy at the open and the close, a few of them huge."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from typing_extensions import override

from skyband.datasets.arrivals import DAY, HOUR, WEEK, Clock, Rate
from skyband.datasets.blocks import BLOCK, generator
from skyband.datasets.source import Dataset, Source
from skyband.datasets.walks import walks
from skyband.order import Bools, Floats, Ints

SYMBOLS = 2_300
SECTORS = (
    "Communication Services",
    "Consumer Discretionary",
    "Consumer Staples",
    "Energy",
    "Financials",
    "Health Care",
    "Industrials",
    "Information Technology",
    "Materials",
    "Real Estate",
    "Utilities",
)
SESSION = int(6.5 * HOUR)

_STREAM = 2
_LISTING = 3
_MOVE = 0.0017  # of log prices, a block: about 2 % a day
_SECTOR_MOVE = 0.0008
_HALF_SPREAD = 0.0003
_TAIL = 1.5  # Pareto index of trade sizes
_LARGEST = 5_000_000


def activity(seconds: Floats) -> Floats:
    """Relative activity, given seconds after the open: a U, higher at the open."""
    part = seconds / SESSION
    shape: Floats = 0.7 + 1.6 * np.exp(-10 * part) + 1.1 * np.exp(-9 * (1 - part))
    return shape


CLOCK = Clock(
    start="2014-01-06T14:30",  # a Monday, when New York opens
    cycle=WEEK,
    sessions=tuple(day * DAY for day in range(5)),
    length=SESSION,
    rows=400 * SESSION,
    rhythm=activity,
)


class Trades(NamedTuple):
    """A block of trades, as numbers."""

    times: Ints
    symbol: NDArray[np.int16]
    price: Floats
    volume: Ints
    buy: Bools


class Listing(NamedTuple):
    """Constants of each symbol. ``draw`` holds each symbol as often as it trades."""

    log_price: Floats
    lot: Floats
    draw: NDArray[np.int16]


class Stock(Source):
    """Trades whose amount has a heavy tail and a daily rhythm, and whose prices wander.

    400 trades a second on average, 6.5 hours a day, five days a week. Few symbols make most of the
    trades; prices are random walks of the symbol and its sector, to the cent, bouncing between bid
    and ask; volumes are log-normal with a Pareto tail and follow the market's activity.

    Reference: Zhu et al., TKDE 29(6), 2017, section 6.1 (2,300 stocks, price times volume); Yang
    et al., EDBT 2011, section 6 (one day, 400 trades a second).

    Deviations: the exchanges' records are not public; these are drawn.
    """

    schema = pa.schema(
        [
            ("ts", pa.timestamp("us", tz="UTC")),
            ("symbol", pa.string()),
            ("sector", pa.string()),
            ("price", pa.float64()),
            ("volume", pa.int64()),
            ("side", pa.string()),
        ]
    )
    rated = True

    @override
    def block(self, seed: int, number: int, rate: Rate) -> pa.RecordBatch:
        trades = _trades(seed, number, rate)
        columns = [
            pa.array(trades.times, self.schema.field("ts").type),
            pa.array(symbols()).take(pa.array(trades.symbol)),
            pa.array(SECTORS).take(pa.array(trades.symbol % len(SECTORS))),
            pa.array(trades.price),
            pa.array(trades.volume),
            pa.array(["sell", "buy"]).take(pa.array(trades.buy.view(np.int8))),
        ]
        return pa.record_batch(columns, schema=self.schema)

    @override
    def scores(self, seed: int, number: int) -> Floats:
        trades = _trades(seed, number, "even")
        return trades.price * trades.volume


@cache
def symbols() -> tuple[str, ...]:
    """The symbols: four letters each, all different; symbol i is of sector i modulo 11."""
    names = []
    for i in range(SYMBOLS):
        code = (i * 198_491 + 70_001) % 26**4  # odd and not a multiple of 13: no two are equal
        names.append("".join(chr(ord("A") + code // 26**place % 26) for place in (3, 2, 1, 0)))
    return tuple(names)


@lru_cache(maxsize=2)
def _listing(seed: int) -> Listing:
    rng = generator(seed, _LISTING, 0)
    log_price = np.log(30.0) + 0.9 * rng.standard_normal(SYMBOLS)
    lot = 120 * np.exp(0.6 * rng.standard_normal(SYMBOLS))
    share = 1 / (20 + rng.permutation(SYMBOLS)) ** 0.9
    edges = np.rint(np.cumsum(share) / share.sum() * (1 << 16)).astype(np.int64)
    draw = np.repeat(np.arange(SYMBOLS, dtype=np.int16), np.diff(edges, prepend=0))
    return Listing(log_price, lot, draw)


def _log_prices(seed: int, number: int) -> Floats:
    """Return the logarithm of the price of each symbol when a block begins."""
    level = walks(seed, SYMBOLS + len(SECTORS), number)
    sector = np.arange(SYMBOLS) % len(SECTORS)
    symbol_level, sector_level = level[:SYMBOLS], level[SYMBOLS:][sector]
    return _listing(seed).log_price + _MOVE * symbol_level + _SECTOR_MOVE * sector_level


def _trades(seed: int, number: int, rate: Rate) -> Trades:
    rng = generator(seed, _STREAM, number)
    listing = _listing(seed)
    times, seconds = CLOCK.times(seed, number, rate)
    symbol = listing.draw[rng.integers(0, 1 << 16, BLOCK, dtype=np.uint16)]
    buy = rng.random(BLOCK, dtype=np.float32) < 0.5
    begin, end = _log_prices(seed, number), _log_prices(seed, number + 1)
    along = np.arange(BLOCK) / BLOCK
    log_price = begin[symbol] + along * (end - begin)[symbol]
    log_price += np.where(buy, _HALF_SPREAD, -_HALF_SPREAD)
    price = np.maximum(np.rint(np.exp(log_price) * 100), 1) / 100
    size = listing.lot[symbol] * activity(seconds) * np.exp(0.8 * rng.standard_normal(BLOCK))
    size *= 1 + rng.pareto(_TAIL, BLOCK)
    volume = np.clip(np.ceil(size), 1, _LARGEST).astype(np.int64)
    return Trades(times, symbol, price, volume, buy)


STOCK = Dataset(
    name="stock",
    title="STOCK: trades of 2,300 stocks",
    description=(
        "Stock trades, 400 a second in trading hours: wandering prices, heavy-tailed volumes, "
        "busy at the open and the close."
    ),
    score="price * volume",
    time="ts",
    source=Stock(),
)
