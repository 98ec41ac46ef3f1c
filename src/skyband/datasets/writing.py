"""Data sets as files: CSV, Parquet or JSON lines, chunk by chunk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from skyband.datasets.arrivals import Rate
from skyband.datasets.source import Dataset
from skyband.errors import DataError

_CHUNK = 262_144


def write(
    dataset: Dataset,
    path: str | os.PathLike[str],
    rows: int,
    seed: int = 0,
    rate: Rate = "even",
    progress: Callable[[int], object] | None = None,
) -> int:
    """Write the first ``rows`` rows to a file whose suffix names its format; return their number.

    ``.csv`` has a header, ``.parquet`` is compressed, ``.jsonl``, ``.ndjson`` and ``.json`` hold
    one object a line. ``progress`` is called with the number of rows written so far. The file
    appears under its name only when it is whole; an older file of that name is replaced then.

    Complexity: O(1) a row; space O(1), whatever the number of rows.

    Raises :class:`DataError` before any work for an unknown suffix or a folder that cannot be
    written to, and what :meth:`Dataset.chunks` raises.
    """
    target = Path(path)
    form = _form(target)
    _check_folder(target)
    chunks = dataset.chunks(rows, seed, _CHUNK, rate)
    part = target.with_name(f"{target.name}.part")
    written = 0
    try:
        with part.open("wb") as raw, form(raw, dataset.schema) as out:
            for batch in chunks:
                out.write_batch(batch)
                written += batch.num_rows
                if progress is not None:
                    progress(written)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return written


class JsonLines:
    """Writes record batches as JSON, one object a line, whole columns at a time.

    NULL, NaN and the infinities become null. Text may hold quotes and backslashes, but no control
    characters: no data set has any.
    """

    def __init__(self, target: Any, schema: pa.Schema) -> None:
        self._target = target
        self._schema = schema

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a batch."""
        parts: list[Any] = []
        for place, field in enumerate(self._schema):
            parts.append(f'{"," if place else "{"}"{field.name}":')
            parts.append(_as_json(batch.column(place)))
        lines = pc.binary_join_element_wise(*parts, "}\n", "")
        self._target.write(_text(lines))


def _as_json(column: pa.Array) -> pa.Array:
    """Each value of a column as JSON text."""
    text = column.cast(pa.string())
    if pa.types.is_floating(column.type):
        # JSON has no NaN and no infinities.
        text = pc.if_else(pc.is_finite(column), text, pa.scalar(None, pa.string()))
    elif pa.types.is_timestamp(column.type):
        text = pc.replace_substring(text, " ", "T")
    if not pa.types.is_integer(column.type) and not pa.types.is_floating(column.type):
        text = pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"')
        text = pc.binary_join_element_wise('"', text, '"', "")
    return text.fill_null("null")


def _text(lines: pa.Array) -> pa.Buffer:
    """Return the memory of a string array, which holds its values one after the other."""
    offsets = pa.Array.from_buffers(
        pa.int32(), len(lines) + 1, [None, lines.buffers()[1]], offset=lines.offset
    )
    first, past = offsets[0].as_py(), offsets[-1].as_py()
    return lines.buffers()[2].slice(first, past - first)


_FORMS: dict[str, Callable[[Any, pa.Schema], Any]] = {
    ".csv": csv.CSVWriter,
    ".parquet": parquet.ParquetWriter,
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".json": JsonLines,
}

SUFFIXES = tuple(_FORMS)
"""The suffixes that can be written."""


def _form(path: Path) -> Callable[[Any, pa.Schema], Any]:
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        ending = f"ends in {path.suffix!r}" if path.suffix else "has no suffix"
        raise DataError(
            f"the file {path.name!r} {ending}",
            f"a file that ends in {', '.join(SUFFIXES)}",
            f"write {path.with_suffix('.parquet').name!r}",
        )
    return form


def _check_folder(path: Path) -> None:
    folder = path.parent
    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder", "a file", "name a file in it")
    if not folder.is_dir():
        raise DataError(f"there is no folder {str(folder)!r}", "a folder", "create it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DataError(
            f"the folder {str(folder)!r} cannot be written to",
            "a folder with write permission",
            "choose another folder",
        )
