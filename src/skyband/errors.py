"""The errors that Skyband raises.

::

    SkybandError
    ├── QueryError      a query, window or option that makes no sense      (also ValueError)
    ├── DataError       data that does not fit the query                   (also ValueError)
    ├── ServerDownError a server that cannot be reached, or takes nothing now
    └── SnapshotError   bytes that are not a snapshot of this query        (also ValueError)

Each message says what was found, what was expected and the likely fix, and is raised before any
work starts.
"""

from __future__ import annotations


class SkybandError(Exception):
    """Any error that Skyband raises on purpose."""

    def __init__(self, found: str, expected: str = "", fix: str = "") -> None:
        self.found = found
        self.expected = expected
        self.fix = fix
        parts = [found]
        if expected:
            parts.append(f"expected {expected}")
        if fix:
            parts.append(f"fix: {fix}")
        super().__init__("; ".join(parts))


class QueryError(SkybandError, ValueError):
    """A query, window or option that makes no sense."""


class DataError(SkybandError, ValueError):
    """Data that does not fit the query."""


class ServerDownError(SkybandError):
    """A server that cannot be reached, or takes nothing now; it may be there again later."""


class SnapshotError(SkybandError, ValueError):
    """Bytes that are not a snapshot, or a snapshot of something else."""
