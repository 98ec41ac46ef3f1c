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
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skyband.errors import QueryError, SkybandError
from skyband.spark.sinks.patience import LOG, first_line
from skyband.spark.sinks.ranked_batch import BatchWriter

_NOTHING = -1  # the number before the first batch
_PAUSE = 1.0  # seconds until a sink that failed is tried again
_LONGEST_PAUSE = 30.0


@dataclass(frozen=True)
class Folder:
    """A directory of a checkpoint, on any file system that Spark knows, with its credentials."""

    spark: SparkSession = field(repr=False)
    place: str

    def _path(self, name: str = "") -> Any:
        """The path of an entry, or of the directory itself, as Hadoop has it."""
        java: Any = self.spark._jvm
        return java.org.apache.hadoop.fs.Path(f"{self.place}/{name}" if name else self.place)

    @property
    def _files(self) -> Any:
        """The file system that it is on."""
        context: Any = self.spark.sparkContext
        return self._path().getFileSystem(context._jsc.hadoopConfiguration())

    def exists(self) -> bool:
        """Whether there is such a directory."""
        return bool(self._files.exists(self._path()))

    def make(self) -> None:
        """Make it, unless it is there."""
        self._files.mkdirs(self._path())

    def numbers(self) -> list[int]:
        """The numbers that entries are called by, ascending: ``7``, or ``batch=7``."""
        names = [name.removeprefix("batch=") for name in self.names()]
        return sorted(int(name) for name in names if name.isdigit())

    def last(self) -> int:
        """The largest of its numbers; the one before the first if there is none."""
        return max(self.numbers(), default=_NOTHING)

    def names(self) -> list[str]:
        """The names of its entries."""
        if not self.exists():
            return []
        return sorted(each.getPath().getName() for each in self._files.listStatus(self._path()))

    def mark(self, number: int) -> None:
        """Leave an empty file called by a number, and no others."""
        self.make()
        self._files.create(self._path(f"{number}")).close()
        for before in self.numbers():
            if before < number:
                self.remove(f"{before}")

    def remove(self, name: str) -> None:
        """Remove an entry."""
        self._files.delete(self._path(name), True)


@dataclass(frozen=True)
class Outbox:
    """Batches of ranked windows that some sink has not fetched yet."""

    spark: SparkSession = field(repr=False)
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

    @property
    def folder(self) -> Folder:
        """The directory of the batches."""
        return Folder(self.spark, self.place)

    def committed(self) -> int:
        """The last batch that Spark has committed."""
        return Folder(self.spark, f"{self.checkpoint}/commits").last()

    def complete(self) -> list[int]:
        """The batches that are there and complete: those that Spark has committed."""
        last = self.committed()
        return [number for number in self.folder.numbers() if number <= last]

    def read(self, batch: int) -> DataFrame:
        """The rows of a batch, with the columns that they were ranked with."""
        return self.spark.read.schema(self.schema).parquet(f"{self.place}/batch={batch}")

    def remove_before(self, batch: int) -> None:
        """Remove the batches before a number: all sinks have them."""
        folder = self.folder
        for number in folder.numbers():
            if number < batch:
                folder.remove(f"batch={number}")

    def sink_folder(self, name: str) -> Folder:
        """The directory in which a sink marks how far it is."""
        return Folder(self.spark, f"{self.checkpoint}/skyband/sinks/{name}")

    def earlier_sinks(self) -> list[str]:
        """The names of all sinks that ever were."""
        return Folder(self.spark, f"{self.checkpoint}/skyband/sinks").names()

    def waiting_for(self, name: str) -> list[int]:
        """The batches that an earlier sink has not fetched, if it could still go on with them."""
        batches, last = self.folder.numbers(), self.sink_folder(name).last()
        return [batch for batch in batches if batch > last] if last + 1 in batches else []


def refuse_waiting(spark: SparkSession, checkpoint: str) -> None:
    """Refuse a job of one sink where batches wait that sinks of an earlier run did not fetch."""
    outbox = Outbox(spark, checkpoint, StructType())
    names = outbox.earlier_sinks()
    waiting = {batch for name in names for batch in outbox.waiting_for(name)}
    if not names:  # none has got any
        waiting = set(outbox.folder.numbers())
    if waiting:
        raise QueryError(
            f"{_waiting(len(waiting))} in the outbox of {checkpoint} for sinks of an earlier run",
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

    is_new: bool = False

    def __post_init__(self) -> None:
        self.delivered = self.folder.last()
        self.is_new = not self.folder.exists()

    def begin(self, before: int) -> None:
        """Leave a mark before the first batch of a new sink, so that later runs know of it."""
        if self.is_new:
            self.delivered, self.is_new = before, False
            self.folder.make()
            if before > _NOTHING:
                self.folder.mark(before)


class Deliveries:
    """Brings the batches of an outbox to all sinks, each in a thread of its own."""

    def __init__(self, outbox: Outbox, sinks: dict[str, BatchWriter]) -> None:
        self.outbox = outbox
        self.sinks = [
            Delivery(name, write, outbox.sink_folder(name)) for name, write in sinks.items()
        ]
        self._waiting: list[int] = outbox.complete()
        self._changed = threading.Condition()
        self._removing = threading.Lock()
        self._stopping = False

    def refuse_lost(self) -> None:
        """Refuse a sink whose next batch is gone: an earlier run went on without it."""
        batches, last = self.outbox.folder.numbers(), self.outbox.committed()
        for sink in self.sinks:
            first = sink.delivered + 1
            if sink.is_new or first > last or first in batches:
                continue
            until = min((batch for batch in batches if batch > first), default=last + 1) - 1
            lost = f"batch {first}" if until == first else f"batches {first} to {until}"
            raise QueryError(
                f"the outbox of {self.outbox.checkpoint} has {lost} no more, which sink "
                f"{sink.name} did not get: an earlier run went on without it",
                "a sink that was in every run, or a new one",
                "give it another name and a place of its own; or, if it may lack them, remove "
                f"{sink.folder.place}, and it gets what is ranked from now on",
            )

    def notes(self) -> list[str]:
        """What people should know: which sinks are new, and which are missed by their batches."""
        names = {sink.name for sink in self.sinks}
        new = [
            f"sink {sink.name} is new: it gets what is ranked from now on"
            for sink in self.sinks
            if sink.is_new
        ]
        waiting = {
            name: len(self.outbox.waiting_for(name))
            for name in self.outbox.earlier_sinks()
            if name not in names
        }
        return new + [
            f"sink {name} is not among the sinks any more: {_waiting(count)} for it in the outbox, "
            "and this run removes what the others have got; stop it and add the sink again to keep "
            "them"
            for name, count in waiting.items()
            if count
        ]

    def add(self, batch: int) -> None:
        """Say that a batch is complete."""
        with self._changed:
            if batch not in self._waiting:
                self._waiting.append(batch)
            self._changed.notify_all()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Deliver while the block runs; what is under way is finished at its end."""
        before = min(self._waiting, default=self.outbox.committed() + 1) - 1
        for sink in self.sinks:
            sink.begin(before)
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
                sink.write(self.outbox.read(batch), batch)
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
            except Exception as error:  # the next batch tries again; nobody reads them any more
                LOG.warning("old batches stay in the outbox: %s", first_line(error))


def _waiting(count: int) -> str:
    return "1 batch waits" if count == 1 else f"{count:,} batches wait"
