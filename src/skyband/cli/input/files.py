"""Which files are meant: those that are named, all of a folder, all that match a pattern."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from skyband.errors import DataError

Kind = Literal["csv", "parquet", "json", "arrow"]

EXPECTED = "CSV with a header, Parquet, JSON lines or Arrow"
PATTERN = frozenset("*?[")
"""What makes a pattern of a name."""
STDIN = "-"

_SUFFIXES: dict[str, Kind] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_PACKED = (".gz", ".zst")


def named_files(names: Sequence[str]) -> list[Path]:
    """The files that are meant, in the order of their names within a folder or a pattern."""
    if STDIN in names:
        raise DataError("- beside other files", "files, or - alone for standard input")
    return [path.absolute() for name in names for path in _meant(name)]


def one_kind(files: Sequence[Path], kinds: Sequence[Kind]) -> Kind:
    """The kind that all files are of."""
    for file, kind in zip(files, kinds, strict=True):
        if kind != kinds[0]:
            raise DataError(
                f"{files[0].name!r} is {kinds[0]} and {file.name!r} is {kind}",
                "files of one kind",
                f"name those of one, such as '*{file.suffix}'",
            )
    return kinds[0]


def kind_of(path: Path) -> Kind:
    """The kind of a file by its suffix, else by its first bytes."""
    kind = _kind_by_name(path)
    if kind is not None:
        return kind
    with path.open("rb") as file:
        head = file.read(4096)
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    return "json" if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") else "csv"


def known_suffixes(path: Path) -> str:
    """The end of a file's name that says what it holds, and how it is packed."""
    return "".join([end for end in path.suffixes if end.lower() in (*_SUFFIXES, *_PACKED)][-2:])


def _kind_by_name(path: Path) -> Kind | None:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None


def _meant(name: str) -> list[Path]:
    """The files that one argument means; a file that is there is no pattern."""
    path = Path(name)
    if path.is_dir():
        return _inside(path)
    if path.exists() or not PATTERN & set(name):
        return [_existing(path)]
    matches = [Path(match) for match in sorted(glob.glob(name, recursive=True))]
    files = [_existing(match) for match in matches if match.is_file()]
    if not files:
        raise DataError(f"no file matches {name!r}", f"files of {EXPECTED}", "check the pattern")
    return files


def _inside(folder: Path) -> list[Path]:
    """The data files in a folder and its folders; those of hidden names are not data."""
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and _kind_by_name(path) is not None
        and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    ]
    if not files:
        raise DataError(
            f"{str(folder)!r} is a directory without data files",
            f"files that end in {', '.join(_SUFFIXES)}",
            "name the files themselves",
        )
    return [_existing(path) for path in files]


def _existing(file: Path) -> Path:
    if not file.is_file():
        near = file.parent if file.parent.is_dir() else Path()
        names = [other.name for other in near.iterdir() if other.is_file()]
        close = get_close_matches(file.name, names, 1)
        fix = f"did you mean {str(near / close[0])!r}?" if close else "check the path"
        raise DataError(
            f"there is no file {str(file)!r}",
            "a CSV, Parquet, JSON lines or Arrow file, a folder of them, or - for standard input",
            fix,
        )
    if not os.access(file, os.R_OK):
        raise DataError(
            f"{str(file)!r} may not be read", "a readable file", "check its permissions"
        )
    if not file.stat().st_size:
        raise DataError(f"{str(file)!r} is empty", EXPECTED)
    return file
