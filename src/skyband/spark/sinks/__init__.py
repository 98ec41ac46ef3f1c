"""Sinks outside of Spark: writers for ``writeStream.foreachBatch``, each with its promise.

Importing this is light: each name loads the client that it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skyband.spark.sinks.delta import to_delta
    from skyband.spark.sinks.kafka import to_kafka
    from skyband.spark.sinks.postgres import to_postgres
    from skyband.spark.sinks.redis_board import to_redis

__all__ = ["to_delta", "to_kafka", "to_postgres", "to_redis"]

_HOMES = {
    "to_delta": "delta",
    "to_kafka": "kafka",
    "to_postgres": "postgres",
    "to_redis": "redis_board",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"skyband.spark.sinks.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
