"""Trades in topics of Kafka, a job from topic to topic, and what the oracle says of them."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from tests import oracle
from tests.servers import KafkaServer

SECOND = 1_000_000
FIELDS = "ts timestamp, id bigint, sector string, price double"
QUERY: dict[str, Any] = {
    "k": 3, "by": "price", "time": "ts", "window": "30 seconds", "slide": "10 seconds",
    "partition_by": "sector", "id": "id", "keep": "id", "skew": None, "delay": "5 minutes",
}  # fmt: skip

Trade = dict[str, Any]
Record = tuple[int, bytes | None, bytes | None]


def trades(seed: int, count: int) -> list[Trade]:
    """Trades in order of time, one a second and 7 microseconds later, with many equal scores."""
    chance = random.Random(seed)
    return [
        {
            "ts": (1_700_000_000 + number) * SECOND + 7,
            "id": number,
            "sector": chance.choice(["a", "b", None]),
            "price": float(chance.randrange(9)),
        }
        for number in range(count)
    ]


def moment(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


def as_json(trade: Trade) -> bytes:
    return json.dumps({**trade, "ts": moment(trade["ts"]).isoformat()}).encode()


def spread(rows: list[Trade], partitions: int) -> list[Record]:
    """Records of trades, over so many partitions."""
    return [(row["id"] % partitions, None, as_json(row)) for row in rows]


def write_job(home: Path, kafka: KafkaServer, topic: str, **parts: Any) -> Path:
    """A job from a topic into ``topic-board``; parts of it may be others."""
    options = {"kafka.bootstrap.servers": kafka.address, "subscribe": topic}
    content = {
        "source": {"format": "kafka", "json": FIELDS, "options": options, "bad_records": "bad"},
        "query": QUERY,
        "sink": {
            "format": "kafka",
            "options": {"kafka.bootstrap.servers": kafka.address, "topic": f"{topic}-board"},
        },
        "checkpoint": "checkpoint",
        "session": {"shuffle_partitions": 2},
        **parts,
    }
    file = home / "job.yaml"
    written = {name: part for name, part in content.items() if part is not None}
    file.write_text(yaml.safe_dump(written))
    return file


def board(kafka: KafkaServer, topic: str) -> list[tuple[Any, ...]]:
    """Sector, window end, rank, score and id of the rows in a topic: the last of each key."""
    rows = {}
    for message in kafka.read(topic):
        row = json.loads(message.value())
        headers = {name: value.decode() for name, value in message.headers()}
        end = datetime.fromisoformat(row["window"]["end"])
        assert {name: headers[name] for name in ("start", "end")} == row["window"]
        key = json.loads(message.key())
        assert (key["rank"], key.get("sector")) == (row["rank"], row.get("sector"))
        micros = (end - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        rows[message.key()] = (
            row.get("sector") or "", micros, row["rank"], row["score"], row["id"]
        )  # fmt: skip
    return sorted(rows.values())


def expected(rows: list[Trade]) -> list[tuple[Any, ...]]:
    """What the oracle says, as :func:`board` has it."""
    answers = []
    for sector in {row["sector"] for row in rows}:
        columns = [[row[name] for row in rows if row["sector"] == sector] for name in rows[0]]
        times, ids, _, prices = columns
        windows = oracle.time_windows(prices, times, 30 * SECOND, 10 * SECOND, 3, 0, ids)
        for window in windows:
            for rank, (score, id) in enumerate(window.rows, start=1):
                answers.append((sector or "", window.end, rank, score, id))
    return sorted(answers)
