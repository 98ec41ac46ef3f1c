"""Where Arrow looks for a file that Spark names, and whether it can.

Spark names files by Hadoop's paths, in which nothing is quoted; Arrow takes URIs. Workers import
this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from urllib.parse import quote

import pyarrow as pa
from pyarrow.fs import FileSystem, FileType

_ARROW = {"s3a": "s3", "s3n": "s3"}
"""What Arrow calls a file system that has another name in Hadoop."""
_KNOWN = ("file", "gs", "hdfs", "s3", "s3a")
"""File systems that both Spark and Arrow know, as Hadoop calls them."""
_OPTIONS = {"gs": "?retry_limit_seconds=60"}
"""What Arrow is told of a file system; without credentials it would try for many minutes."""
_PATTERN = re.compile(r"[*?{\[]")


def scheme_of(path: str) -> str | None:
    """The scheme of a path, as Hadoop sees it."""
    first = path.partition("/")[0]
    return first.partition(":")[0] if ":" in first else None


def located(path: str) -> tuple[FileSystem | None, str]:
    """The file system of a path that Spark gives, None for the local one, and the place there."""
    scheme = scheme_of(path)
    if scheme in (None, "file"):
        return None, "/" + path.removeprefix("file:").lstrip("/")
    rest = path.partition(":")[2]
    options = _OPTIONS.get(str(scheme), "")
    authority, slash, place = rest.removeprefix("//").partition("/")
    uri = f"{_ARROW.get(str(scheme), scheme)}://{authority}{slash}{quote(place)}{options}"
    file_system, place = FileSystem.from_uri(uri)
    return file_system, place


def needs_trial(path: str, default: str) -> bool:
    """Whether only those who try know if Arrow can open a path: libraries, credentials."""
    scheme = scheme_of(path) or scheme_of(default)
    return scheme in _KNOWN and scheme != "file"


def tried(path: str, default: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What :func:`why_not_opened` says in the task that calls this: files are read there."""
    for _ in batches:
        reason = why_not_opened(path, default)
        yield pa.RecordBatch.from_pydict({"reason": pa.array([reason], pa.string())})


def why_not_opened(path: str, default: str) -> str | None:
    """Why Arrow cannot open the files at a path, in words; None if it can.

    ``default`` is the file system of paths without a scheme. A local one may be that of other
    machines, and is not looked at.
    """
    scheme = scheme_of(path)
    if scheme is None:
        if scheme_of(default) in (None, "file"):
            return None
        if not path.startswith("/"):
            return f"{path} is relative to a folder of {default}"
        path = default.rstrip("/") + path
        scheme = scheme_of(path)
    if scheme not in _KNOWN:
        return f"Arrow does not open {scheme}: files"
    if scheme == "file":
        return None
    try:
        file_system, place = located(path)
        assert file_system is not None
        missing = file_system.get_file_info(_before_patterns(place)).type == FileType.NotFound
    except Exception as error:  # libraries and credentials are missing in many ways
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return f"Arrow does not open {scheme}: files here: {reason}"
    return f"Arrow finds nothing at {path}" if missing else None


def _before_patterns(place: str) -> str:
    """The folder before the first pattern of a path."""
    parts = PurePosixPath(place).parts
    fixed = next((at for at, part in enumerate(parts) if _PATTERN.search(part)), len(parts))
    return str(PurePosixPath(*parts[:fixed]))
