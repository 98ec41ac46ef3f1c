"""Arrow IPC files as a table of DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skyband.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa


class ArrowFiles:
    """The rows of Arrow files, one after the other; each scan reads them anew, batch by batch."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._schema = self.schema_of(files[0])

    def schema_of(self, file: Path) -> pa.Schema:
        """The columns of a file."""
        import pyarrow as pa

        try:
            columns = _opened(file).schema
            # whether NULL may occur is not of interest, and may differ between files
            return pa.schema([pa.field(column.name, column.type) for column in columns])
        except (pa.ArrowInvalid, OSError) as error:
            problem = str(error).partition("\n")[0]
            raise DataError(
                f"{str(file)!r} cannot be read as arrow: {problem}",
                "an Arrow IPC file or stream, such as Feather",
            ) from None

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Begin a scan: how DuckDB asks for the rows."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self._schema, self._batches()).__arrow_c_stream__()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for file in self._files:
            reader = _opened(file)
            if hasattr(reader, "num_record_batches"):
                batches = map(reader.get_batch, range(reader.num_record_batches))
            else:
                batches = iter(reader)
            for batch in batches:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)


def _opened(file: Path) -> Any:
    """A reader of the file format, or of the stream format, which has no mark at its beginning."""
    import pyarrow as pa

    with file.open("rb") as beginning:
        seekable = beginning.read(6) == b"ARROW1"
    content = pa.memory_map(str(file))
    return pa.ipc.open_file(content) if seekable else pa.ipc.open_stream(content)
