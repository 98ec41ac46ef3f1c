"""Workloads as plain values, for the manifest of a checkpoint and for the column that names it."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

from skyband.query import TopK

DEFINES = 6
"""How many of the values that describe a query define it; behind them is since when it is asked."""


def plain_query(query: TopK, by: str) -> list[Any]:
    """A query as values that JSON knows: k, window, slide, offset, full, score."""
    window = query.window
    offset, full = getattr(window, "offset", 0), getattr(window, "full", False)
    return [query.k, window.size, window.slide, offset, full, by]


def packed(value: Any) -> str:
    """A value of JSON as a short text."""
    return base64.b64encode(zlib.compress(json.dumps(value).encode())).decode()


def unpacked(text: str) -> Any:
    """What :func:`packed` packed."""
    return json.loads(zlib.decompress(base64.b64decode(text)))
