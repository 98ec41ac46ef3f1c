"""Paths of directories that Skyband both reads and writes."""

from __future__ import annotations

import os

from skyband.errors import QueryError

_PATTERN = "*?[]{}"


def plain_path(path: str | os.PathLike[str], what: str) -> str:
    """A path as text; refused if Spark, when reading, would take it for a pattern."""
    if not isinstance(path, (str, os.PathLike)):
        raise QueryError(f"{what} is {path!r}", "a directory", f"write {what}='directory'")
    text = os.fspath(path)
    if not text:
        raise QueryError(f"{what} is empty", "a directory", f"write {what}='directory'")
    found = sorted(set(text) & set(_PATTERN))
    if found:
        raise QueryError(
            f"{what} is {text!r}, in which {' '.join(found)} makes a pattern to Spark",
            "a path without any of * ? [ ] { }",
            "choose another directory",
        )
    return text
