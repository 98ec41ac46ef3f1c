"""Several sinks of one job: batches wait in an outbox, and each sink fetches them at its own pace.

The stream writes each batch of ranked windows once, into the outbox beside its checkpoint. A
*delivery* per sink takes the batches from there, in order, and remembers how far it is. So a sink
that is down holds up nobody, and catches up later; a batch that all have is removed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skyband.errors import QueryError, SkybandError
from skyband.spark.sinks.patience import LOG, first_line
from skyband.spark.sinks.ranked_batch import BatchWriter

if TYPE_CHECKING:
    from pyarrow import fs

_NOTHING = -1  # the number before the first batch
_PAUSE = 1.0  # seconds until a sink that failed is tried again
_LONGEST_PAUSE = 30.0


@dataclass(frozen=True)
class Folder:
    """A directory of a checkpoint, on any file system that PyArrow knows."""

    place: str

    @property
    def _files(self) -> tuple[fs.FileSystem, str]:
        import pyarrow as pa
        from pyarrow import fs

        try:
            files, path = fs.FileSystem.from_uri(self.place)
        except (pa.ArrowInvalid, OSError) as error:
            raise QueryError(
                f"the checkpoint {self.place} cannot be read from here: {error}",
                "a checkpoint on this machine, or in a store that PyArrow knows, for several sinks",
                "write one sink, or another checkpoint",
            ) from None
        return files, path

    def numbers(self) -> list[int]:
        """The numbers that entries are called by, ascending: ``7``, or ``batch=7``."""
        names = [name.removeprefix("batch=") for name in self.names()]
        return sorted(int(name) for name in names if name.isdigit())

    def names(self) -> list[str]:
        """The names of its entries."""
        from pyarrow import fs

        files, path = self._files
        entries = files.get_file_info(fs.FileSelector(path, allow_not_found=True))
        return sorted(entry.base_name for entry in entries)

    def mark(self, number: int) -> None:
        """Leave an empty file called by a number, and no others."""
        files, path = self._files
        files.create_dir(path)
        files.open_output_stream(f"{path}/{number}").close()
        for before in self.numbers():
            if before < number:
                files.delete_file(f"{path}/{before}")

    def remove(self, name: str) -> None:
        """Remove a directory."""
        files, path = self._files
        files.delete_dir(f"{path}/{name}")


@dataclass(frozen=True)
class Outbox:
    """Batches of ranked windows that some sink has not fetched yet."""

    checkpoint: str
    schema: StructType

    @property
    def place(self) -> str:
        """The directory of the batches."""
        return f"{self.checkpoint}/skyband/outbox"

    def writer(self, done: Callable[[int], None]) -> BatchWriter:
        """A writer for ``foreachBatch``; ``done`` hears of each batch that is complete."""
        place = self.place

        def write(rows: DataFrame, batch: int) -> None:
            rows.write.mode("overwrite").parquet(f"{place}/batch={batch}")
            done(batch)

        return write

    def complete(self) -> list[int]:
        """The batches that are there and complete: those that Spark has committed."""
        committed = Folder(f"{self.checkpoint}/commits").numbers()
        last = committed[-1] if committed else _NOTHING
        return [number for number in Folder(self.place).numbers() if number <= last]

    def read(self, spark: SparkSession, batch: int) -> DataFrame:
        """The rows of a batch, with the columns that they were ranked with."""
        return spark.read.schema(self.schema).parquet(f"{self.place}/batch={batch}")

    def remove_before(self, batch: int) -> None:
        """Remove the batches before a number: all sinks have them."""
        folder = Folder(self.place)
        for number in folder.numbers():
            if number < batch:
                folder.remove(f"batch={number}")


def refuse_waiting(checkpoint: str) -> None:
    """Refuse a job of one sink where batches wait that sinks of an earlier run did not fetch."""
    sinks = Folder(f"{checkpoint}/skyband/sinks")
    try:
        batches = Folder(f"{checkpoint}/skyband/outbox").numbers()
        marks = [Folder(f"{sinks.place}/{name}").numbers() for name in sinks.names()]
    except QueryError:
        return  # what this machine cannot read has no outbox
    behind = min((numbers[-1] if numbers else _NOTHING for numbers in marks), default=_NOTHING)
    count = sum(batch > behind for batch in batches)
    if count:
        raise QueryError(
            f"{_waiting(count)} in the outbox of {checkpoint} for sinks of an earlier run",
            "sinks: as before, until they have fetched them",
            f"run the job with them once more, or remove {checkpoint}/skyband/outbox",
        )


@dataclass
class Delivery:
    """One sink: its writer, the last batch that it has, and why it has no more.

    ``failure`` is what the last attempt failed with, None if all is well.
    """

    name: str
    write: BatchWriter
    folder: Folder
    delivered: int = _NOTHING
    failure: Exception | None = None
    _thread: threading.Thread | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        numbers = self.folder.numbers()
        self.delivered = numbers[-1] if numbers else _NOTHING


class Deliveries:
    """Brings the batches of an outbox to all sinks, each in a thread of its own."""

    def __init__(self, spark: SparkSession, outbox: Outbox, sinks: dict[str, BatchWriter]) -> None:
        self.spark = spark
        self.outbox = outbox
        folder = f"{outbox.checkpoint}/skyband/sinks"
        self.sinks = [
            Delivery(name, write, Folder(f"{folder}/{name}")) for name, write in sinks.items()
        ]
        self._waiting: list[int] = outbox.complete()
        self._changed = threading.Condition()
        self._removing = threading.Lock()
        self._stopping = False

    def add(self, batch: int) -> None:
        """Say that a batch is complete."""
        with self._changed:
            if batch not in self._waiting:
                self._waiting.append(batch)
            self._changed.notify_all()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Deliver while the block runs; what is under way is finished at its end."""
        for sink in self.sinks:
            sink._thread = threading.Thread(
                target=self._run, args=(sink,), name=f"skyband sink {sink.name}", daemon=True
            )
            sink._thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._stopping = True
                self._changed.notify_all()
            for sink in self.sinks:
                assert sink._thread is not None
                sink._thread.join()

    def settled(self) -> bool:
        """Whether each sink has all batches, or has failed to take one."""
        with self._changed:
            last = max(self._waiting, default=_NOTHING)
            return all(sink.delivered >= last or sink.failure for sink in self.sinks)

    def behind(self) -> dict[str, int]:
        """How many batches each sink has not got yet."""
        with self._changed:
            return {
                sink.name: sum(batch > sink.delivered for batch in self._waiting)
                for sink in self.sinks
            }

    def failure(self) -> SkybandError | None:
        """What the first sink that is behind failed with, and what becomes of it."""
        for sink in self.sinks:
            count = self.behind()[sink.name]
            if sink.failure is not None and count:
                return SkybandError(
                    f"the sink {sink.name} failed: {first_line(sink.failure)}",
                    fix=f"{_waiting(count)} for it in the outbox: run again, and it catches up",
                )
        return None

    def _run(self, sink: Delivery) -> None:
        """Bring a sink all that it has not, until the end; try again what fails."""
        pause = 0.0
        while (batch := self._next(sink, pause)) is not None:
            try:
                sink.write(self.outbox.read(self.spark, batch), batch)
                sink.folder.mark(batch)
            except Exception as error:
                pause = min(2 * pause or _PAUSE, _LONGEST_PAUSE)
                LOG.warning(
                    "sink %s failed, trying again in %.0f seconds: %s",
                    *(sink.name, pause, first_line(error)),
                )
                with self._changed:
                    sink.failure = error
            else:
                pause = 0.0
                self._has(sink, batch)

    def _next(self, sink: Delivery, pause: float) -> int | None:
        """The next batch for a sink, after a pause, or when there is one; None at the end."""

        def due() -> list[int]:
            return [batch for batch in self._waiting if batch > sink.delivered]

        with self._changed:
            if pause:
                self._changed.wait_for(lambda: self._stopping, pause)
            self._changed.wait_for(lambda: self._stopping or bool(due()))
            return None if self._stopping else min(due())

    def _has(self, sink: Delivery, batch: int) -> None:
        """Note that a sink has a batch; remove those that all have."""
        with self._changed:
            sink.delivered, sink.failure = batch, None
            everywhere = min(each.delivered for each in self.sinks)
            self._waiting = [number for number in self._waiting if number > everywhere]
        with self._removing:
            try:
                self.outbox.remove_before(everywhere)
            except OSError as error:  # the next batch tries again; nobody reads them any more
                LOG.warning("old batches stay in the outbox: %s", first_line(error))


def _waiting(count: int) -> str:
    return "1 batch waits" if count == 1 else f"{count:,} batches wait"
