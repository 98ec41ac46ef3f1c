"""State arrays <-> versioned bytes. Never pickle.

Layout: magic, format version and header length (little endian), a JSON header (what the state
belongs to, and the name, type and shape of each array), then the arrays' bytes one after the other.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.errors import SnapshotError
from skyband.windows import KINDS, TimeWindow, Window

MAGIC = b"SKYBAND\x00"
VERSION = 3
_PREFIX = struct.Struct("<8sIQ")
Saved = tuple[dict[str, Any], dict[str, NDArray[Any]]]
"""What a part of a monitor gives to a snapshot: plain values, and arrays by name."""

_UNSPOKEN = {
    "numbers": "float64",
    "scale": 0,
    "ties": "newest",
    "rank_by": "row_number",
    "open_windows": "all",
    "also": {},
}
"""What snapshots of earlier versions do not say."""

_TYPES = {"<f8", "<i8", "|b1", "|i1", "|u1", "<u2", "<i4"}


def dump(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Bytes from which :func:`load` gives back the same header and arrays."""
    plain = {
        name: np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        for name, array in arrays.items()
    }
    listed = [[name, array.dtype.str, list(array.shape)] for name, array in plain.items()]
    text = json.dumps({"header": dict(header), "arrays": listed}, default=int).encode()
    body = b"".join(array.tobytes() for array in plain.values())
    return _PREFIX.pack(MAGIC, VERSION, len(text)) + text + body


def load(data: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of a snapshot; raises :class:`SnapshotError` for anything else."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise SnapshotError(f"{type(data).__name__}", "bytes", "pass what snapshot() returned")
    data = bytes(data)
    if len(data) < _PREFIX.size:
        raise SnapshotError(f"{len(data)} bytes", "a snapshot", "pass what snapshot() returned")
    magic, version, length = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise SnapshotError(
            "bytes that do not begin like a snapshot", "a snapshot", "pass what snapshot() returned"
        )
    if version != VERSION:
        raise SnapshotError(
            f"snapshot format {version}",
            f"format {VERSION}",
            "restore it with the version of Skyband that wrote it",
        )
    try:
        described = json.loads(data[_PREFIX.size : _PREFIX.size + length])
        arrays, at = {}, _PREFIX.size + length
        for name, kind, shape in described["arrays"]:
            if kind not in _TYPES:
                raise ValueError(f"array type {kind}")
            count = int(np.prod(shape, dtype=np.int64))
            arrays[name] = np.frombuffer(data, np.dtype(kind), count, at).reshape(shape).copy()
            at += arrays[name].nbytes
        if at != len(data):
            raise ValueError(f"{len(data) - at} bytes too many")
        return described["header"], arrays
    except (ValueError, KeyError, TypeError) as error:
        raise SnapshotError(
            f"a damaged snapshot ({error})", "a whole one", "use an earlier snapshot"
        ) from None


def join(header: Mapping[str, Any], parts: Mapping[str, Saved]) -> Saved:
    """One header and one set of arrays of several parts, each under its name."""
    arrays: dict[str, NDArray[Any]] = {}
    values = dict(header)
    for name, (part_values, part_arrays) in parts.items():
        values[name] = part_values
        arrays |= {f"{name}.{array}": column for array, column in part_arrays.items()}
    return values, arrays


def part(name: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Saved:
    """The part that :func:`join` put under a name."""
    prefix = f"{name}."
    return header[name], {
        array[len(prefix) :]: column for array, column in arrays.items() if array.startswith(prefix)
    }


def describe(query: Any) -> dict[str, Any]:
    """A query as plain JSON values; the offset of a time window is that of its ends."""
    window = query.window
    described: dict[str, Any] = dataclasses.asdict(query) | {"kind": window.kind}
    if isinstance(window, TimeWindow):
        described["window"]["offset"] = window.end_offset
    return dict(json.loads(json.dumps(described)))


def window_of(described: Mapping[str, Any]) -> Window:
    """The window of a query that :func:`describe` described."""
    window = dict(described["window"])
    if described["kind"] == "time":
        window["offset"] -= window["size"] % window["slide"]
    return KINDS[described["kind"]](**window)


def require_same(described: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse a snapshot of another query, naming the first field that differs."""
    described = _UNSPOKEN | dict(described)
    for field in ("kind", "k", "window", "emit", *sorted(wanted)):
        if described[field] != wanted[field]:
            raise SnapshotError(
                f"a snapshot of a query with {field} = {described[field]!r}",
                f"{field} = {wanted[field]!r}",
                "restore it without a query, or start afresh",
            )
