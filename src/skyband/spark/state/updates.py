"""Windows that are still open: their rankings so far, in every micro-batch, then once the final.

Panes are not collected by Spark, which would show them only when they are closed: tasks reduce the
rows of a micro-batch to blocks, and the state of a key joins the blocks of each open pane. Closed
panes go to the state of the family, whose answers are final. To answer the open windows a copy of
that state runs ahead: it takes in the open panes, too, answers, and is thrown away. So rankings so
far are those that the family would answer if the stream ended here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

from pyspark.sql.types import BinaryType, BooleanType, LongType, StringType, StructField

from skyband.spark.axis import FOREVER, WatermarkProgress
from skyband.spark.state.processor import KeyState, PaneStore, StateSpec, array_field

UPDATE_COLUMNS = ("revision", "final")
"""What rows say besides if windows are reported while they are open."""

_DIGEST = 16  # bytes


class PaneBlocks(Protocol):
    """How the blocks of a pane are joined and read; plain values only, for workers get it."""

    def join(self, blocks: list[bytes]) -> bytes:
        """Several blocks of a pane as one."""

    def read(self, data: bytes) -> list[Any]:
        """What the family makes a pane of: rows, by each score that they are ranked by."""


class Block(NamedTuple):
    """Rows of a pane that tasks reduced: with which window it closes, and its newest position.

    There is no ``data`` if none of its rows has a score: they have moved the watermark, and may
    complete windows that count rows.
    """

    closes: int
    pane: int
    newest: int
    data: bytes | None


@dataclass(frozen=True)
class UpdatesSpec(StateSpec):
    """Keeps the open panes of each key beside what a family keeps of its closed ones.

    With ``current`` only the window that the newest row's slide completes is shown while it is
    open.
    """

    family: StateSpec
    blocks: PaneBlocks
    current: bool

    name: ClassVar[str] = "updates"

    @property
    def pane_store(self) -> tuple[str, str] | None:
        """The family's."""
        return self.family.pane_store

    @property
    def fields(self) -> tuple[StructField, ...]:
        """Open panes, what was shown last of open windows, and the fields of the family."""
        return (
            StructField("revision", LongType(), False),
            StructField("newest_pane", LongType(), False),
            array_field("open_closes", LongType(), False),
            array_field("open_pane", LongType(), False),
            array_field("open_newest", LongType(), False),
            array_field("open_rows", BinaryType(), False),
            array_field("shown", StringType(), False),
            StructField("shown_digests", BinaryType(), False),
            *self.family.fields,
        )

    @property
    def output(self) -> tuple[StructField, ...]:
        """The columns of the family's answers, then which revision it is, and whether the last."""
        return (*self.family.output, *revision_fields())

    def pane(self, values: tuple[Any, ...]) -> Block:
        """A block of its label, then its own columns."""
        _, closes, pane, newest, data = values
        return Block(closes, pane, newest, None if data is None else bytes(data))

    def open(
        self, key: Any, fields: Mapping[str, Any] | None, store: PaneStore | None = None
    ) -> UpdatesState:
        """The open panes of a key, and the family's state of its closed ones."""
        state = UpdatesState(self, key, store, self.family.open(key, fields, store))
        if fields is not None:
            state.revision, state.newest_pane = fields["revision"], fields["newest_pane"]
            names = ("open_closes", "open_pane", "open_newest", "open_rows")
            for block in map(Block._make, zip(*(fields[name] for name in names), strict=True)):
                state.panes[block.pane] = block._replace(data=bytes(block.data or b""))
            digests = bytes(fields["shown_digests"])
            state.shown = {
                window: digests[at * _DIGEST : (at + 1) * _DIGEST]
                for at, window in enumerate(fields["shown"])
            }
        return state

    def progress(self, watermark: int) -> WatermarkProgress:
        """How far a watermark is, as the family sees it."""
        return self.family.progress(watermark)

    def weight(self, row: tuple[Any, ...]) -> int:
        """How many ranked rows an output row holds, without its key."""
        return self.family.weight(row[:-2])


def with_open_panes(spec: StateSpec, blocks: PaneBlocks, current: bool) -> UpdatesSpec:
    """What a family keeps of a key, and its open panes."""
    return UpdatesSpec(spec.groups, spec.axis, spec.grid, spec, blocks, current)


class UpdatesState(KeyState):
    """One key: open panes, what was shown of open windows, and the family's state."""

    def __init__(
        self, spec: UpdatesSpec, key: Any, store: PaneStore | None, family: KeyState
    ) -> None:
        self.spec = spec
        self.key = key
        self.store = store
        self.family = family
        self.revision = 0
        self.newest_pane = -FOREVER
        self.panes: dict[int, Block] = {}
        self.shown: dict[str, bytes] = {}  # a digest of the ranking of each open window

    def run(self, panes: list[Block], progress: WatermarkProgress) -> Iterator[tuple[Any, ...]]:
        """Take in blocks; answer what the watermark has passed, then what changed of the rest."""
        self._take(panes)
        revision = self.revision + 1
        for row in self._final(progress):
            self.revision = revision
            yield (*row, revision, True)
        if self.family.finished:
            self.family.remove()
            self.family = self.spec.family.open(self.key, None, self.store)
        if not panes or progress.ended:
            return
        for row in self._changed():
            self.revision = revision
            yield (*row, revision, False)

    def _take(self, blocks: list[Block]) -> None:
        """Join blocks with the panes that they belong to."""
        together: dict[int, list[Block]] = {pane: [block] for pane, block in self.panes.items()}
        for block in blocks:
            if block.data is not None or self.spec.axis.counts_rows:
                together.setdefault(block.pane, []).append(block)
                self.newest_pane = max(self.newest_pane, block.pane)
        for pane, parts in together.items():
            if len(parts) > 1 or pane not in self.panes:
                newest = max(part.newest for part in parts)
                rows = [part.data for part in parts if part.data]
                data = self.spec.blocks.join(rows) if rows else b""
                self.panes[pane] = Block(parts[0].closes, pane, newest, data)

    def _closed(self, progress: WatermarkProgress) -> list[Any]:
        """The panes that have closed, as the family takes them; they are open no more."""
        closed = [block for block in self.panes.values() if block.closes <= progress.closed]
        for block in closed:
            del self.panes[block.pane]
        return list(map(self._pane, closed))

    def _pane(self, block: Block) -> Any:
        assert block.data is not None
        rows = self.spec.blocks.read(block.data)
        return self.spec.family.pane_of_rows(block.pane, rows, block.newest)

    def _final(self, progress: WatermarkProgress) -> Iterator[tuple[Any, ...]]:
        """The windows that have ended; of those that were shown and rank nothing now, no rows."""
        spec = self.spec.family
        ended = {window for window in self.shown if _number(window) <= progress.closed}
        for answer in self.family.run(self._closed(progress), progress):
            ended.difference_update(window for window, _ in spec.each_window(answer))
            yield answer
        for window in sorted(ended, key=_number):
            row = spec.empty_window(window)
            if row is not None:
                yield row
        still_open = (window for window in self.shown if _number(window) > progress.closed)
        self.shown = {window: self.shown[window] for window in still_open}

    def _changed(self) -> Iterator[tuple[Any, ...]]:
        """The rankings so far of open windows, where they are others than were shown last."""
        now = dict(self._so_far())
        for window in self.shown.keys() - now.keys():
            row = self.spec.family.empty_window(window)
            if row is not None and self._is_shown(row):  # it ranks nothing any more
                now[window] = row
        for window, row in now.items():
            digest = hashlib.blake2b(repr(row).encode(), digest_size=_DIGEST).digest()
            if self.shown.get(window) != digest:
                self.shown[window] = digest
                yield row

    def _so_far(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """The rankings so far of the windows to be shown, by their names."""
        spec = self.spec.family
        candidates = [field.name for field in spec.output].index("candidates")
        panes = list(map(self._pane, self.panes.values()))
        for answer in self.family.fork().run(
            panes, spec.ahead(self.newest_pane, self.spec.current)
        ):
            for window, row in spec.each_window(answer):
                if self._is_shown(row):
                    # final answers say how many candidates there are
                    yield window, (*row[:candidates], None, *row[candidates + 1 :])

    def _is_shown(self, row: tuple[Any, ...]) -> bool:
        """Whether the window of an answer is one of those to be shown while they are open."""
        return not self.spec.current or self.spec.family.is_current(row, self.newest_pane)

    @property
    def alarm(self) -> int | None:
        """When the next pane closes, or the family has something to do."""
        alarms = [self.family.alarm]
        if self.panes:
            closes = min(block.closes for block in self.panes.values())
            alarms.append(self.spec.axis.alarm(self.spec.grid.window_end(closes)))
        return min((alarm for alarm in alarms if alarm is not None), default=None)

    @property
    def finished(self) -> bool:
        """Whether no pane is open, and the family keeps nothing."""
        return not self.panes and self.family.finished

    def save(self) -> dict[str, Any]:
        """The open panes, what was shown, and the family's fields."""
        blocks = list(self.panes.values())
        return {
            "revision": self.revision,
            "newest_pane": self.newest_pane,
            "open_closes": [block.closes for block in blocks],
            "open_pane": [block.pane for block in blocks],
            "open_newest": [block.newest for block in blocks],
            "open_rows": [block.data for block in blocks],
            "shown": list(self.shown),
            "shown_digests": b"".join(self.shown.values()),
            **self.family.save(),
        }

    def remove(self) -> None:
        """Remove what the family keeps outside of its fields."""
        self.family.remove()


def _number(window: str) -> int:
    """The number, or the end, with which the name of a window begins: see ``each_window``."""
    return int(window.split(" ", 1)[0])


def revision_fields() -> tuple[StructField, ...]:
    """Which revision of its window's ranking an answer is, and whether the last."""
    return StructField("revision", LongType()), StructField("final", BooleanType())
