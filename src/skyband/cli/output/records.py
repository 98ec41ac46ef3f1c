"""Printing a leaderboard as CSV or JSON: exact, and the same whatever engine answered."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any, BinaryIO

import numpy as np
from typing_extensions import override

from skyband.cli.output.cells import Cells, Kind, Texts, moment
from skyband.cli.output.leaderboard import Leaderboard
from skyband.order import Ints, Scores
from skyband.windows import FOREVER

LEADING = ["window_start", "window_end", "rank", "score"]
CHANGES = ["change", "previous_rank"]
UPDATES = ["revision", "final"]

_SPECIAL = re.compile(r'[",\r\n]')


class Records(ABC):
    """A leaderboard as records: ``[query] bounds rank middle [change] tail`` each.

    The middle (score and row number) and the tail (the file's columns) of a row are written once,
    however many windows the row is in; the middle once per window where scores are relative to it.
    """

    def __init__(self, board: Leaderboard, cells: Cells, changes: bool) -> None:
        self.board = board
        self.changes = changes
        self.middles = self._middles(board.scores, board.rows)
        self.tails = self.all_tails(cells)

    def _middles(self, scores: Scores, rows: Ints) -> list[str]:
        texts = [_exact(score) for score in self.board.numbers(scores)]
        return [self.middle(*pair) for pair in zip(texts, rows.tolist(), strict=True)]

    @abstractmethod
    def middle(self, score: str, row: int) -> str:
        """A row's score and number; objects have a score only."""

    def _also(self, numbers: list[Any]) -> str:
        """What an object has beside its score."""
        texts = (None if number is None else _exact(number) for number in numbers)
        return "".join(map(self.beside, self.board.also, texts))

    @abstractmethod
    def beside(self, name: str, number: str | None) -> str:
        """A number beside the score; None is NULL."""

    @abstractmethod
    def all_tails(self, cells: Cells) -> list[str]:
        """Each row's values, to the end of the record."""

    @abstractmethod
    def bounds(self, query: str | None, start: str | None, end: str) -> str:
        """The beginning of a record, up to the rank; of a workload with the name of a query.

        A window of all time has no start.
        """

    @abstractmethod
    def rank(self, rank: int) -> str:
        """A rank; 0 is none."""

    @abstractmethod
    def change(self, what: str, previous: int) -> str:
        """What happened to a row, and its rank before; 0 is none."""

    def _change(self, rank: int, previous: int) -> str:
        return self.change(happened(rank, previous), previous) if self.changes else ""

    @abstractmethod
    def write(self, out: BinaryIO) -> None:
        """Write all records."""

    def blocks(self) -> Iterator[str]:
        """All records, some tens of thousands at a time."""
        board, tell = self.board, moment if self.board.timed else str
        middles, tails = self.middles, self.tails
        whole = [middle + tail for middle, tail in zip(middles, tails, strict=True)]
        ranks: list[str] = []
        for block in board.blocks(board.order()):
            fresh = np.diff(block.end, prepend=block.end[:1] - 1) != 0
            if board.queries:
                fresh[:] = True
            bounds = zip(*(column[fresh].tolist() for column in block[:4]), strict=True)
            heads = [
                self.bounds(
                    board.queries[key] if board.queries else None,
                    tell(start) if start > -FOREVER else None,
                    tell(end),
                )
                for start, end, _, key in bounds
            ]
            head = np.repeat(np.cumsum(fresh) - 1, block.size).tolist()
            rank, place = block.rank.tolist(), block.place.tolist()
            ranks += map(self.rank, range(len(ranks), max(rank) + 1))
            if board.relative:
                relative = self._middles(block.score, board.rows[block.place])
                if block.also is not None:
                    also = map(self._also, block.also.tolist())
                    relative = [m + a for m, a in zip(relative, also, strict=True)]
                before = [0] * len(relative) if block.previous is None else block.previous.tolist()
                records = [
                    f"{heads[h]}{ranks[r]}{m}{self._change(r, b)}{tails[p]}"
                    for h, r, m, p, b in zip(head, rank, relative, place, before, strict=True)
                ]
            elif block.previous is None:
                records = [
                    f"{heads[h]}{ranks[r]}{whole[p]}"
                    for h, r, p in zip(head, rank, place, strict=True)
                ]
            else:
                before = block.previous.tolist()
                records = [
                    f"{heads[h]}{ranks[r]}{middles[p]}{self._change(r, b)}{tails[p]}"
                    for h, r, p, b in zip(head, rank, place, before, strict=True)
                ]
            yield "".join(records)


def leading(board: Leaderboard) -> list[str]:
    """The names of the columns before those of the file."""
    names = [*LEADING, *board.also] if board.objects else [*LEADING, "row"]
    return ["query", *names] if board.queries else names


def all_final(cells: Cells) -> Cells:
    """The file's columns behind those that say of updates: one revision, and it is the last."""
    rows = len(cells.texts[0]) if cells.texts else 0
    final: list[Texts] = [["1"] * rows, ["true"] * rows]
    return Cells([*UPDATES, *cells.names], ["number", "truth", *cells.kinds], final + cells.texts)


def renamed(board: Leaderboard, cells: Cells, changes: bool, updates: bool = False) -> Cells:
    """The file's columns, of which those that are called as one of ours get a number: ``rank_1``.

    Whoever reads records finds columns by name, most in any case.
    """
    ours = {*leading(board), *(CHANGES if changes else []), *(UPDATES if updates else [])}
    theirs = {name.lower() for name in cells.names}
    names: list[str] = []
    for name in cells.names:
        free, count = name, 0
        while free.lower() in ours or (count and free.lower() in theirs):
            count += 1
            free = f"{name}_{count}"
        names.append(free)
    return replace(cells, names=names)


def happened(rank: int, previous: int) -> str:
    """What a row of changes reports."""
    return "left" if not rank else "moved" if previous else "entered"


class Csv(Records):
    """RFC 4180 with a header, ``\\n`` ends lines, and NULL is nothing between two commas.

    An empty text is written ``""``, so that it is not NULL.
    """

    def __init__(self, board: Leaderboard, cells: Cells, changes: bool) -> None:
        super().__init__(board, cells, changes)
        names = [*leading(board), *(CHANGES if changes else []), *cells.names]
        self.header = ",".join(map(_quoted, names))

    @override
    def middle(self, score: str, row: int) -> str:
        return f",{score}" if self.board.objects else f",{score},{row}"

    @override
    def beside(self, name: str, number: str | None) -> str:
        return f",{number or ''}"

    @override
    def all_tails(self, cells: Cells) -> list[str]:
        columns = [
            ["," if text is None else f",{_quoted(text)}" for text in texts]
            if kind == "text"
            else ["," if text is None else f",{text}" for text in texts]
            for kind, texts in zip(cells.kinds, cells.texts, strict=True)
        ]
        return [f"{''.join(row)}\n" for row in zip(*columns, strict=True)]

    @override
    def bounds(self, query: str | None, start: str | None, end: str) -> str:
        return f"{'' if query is None else _quoted(query) + ','}{start or ''},{end},"

    @override
    def rank(self, rank: int) -> str:
        return str(rank) if rank else ""

    @override
    def change(self, what: str, previous: int) -> str:
        return f",{what},{previous}" if previous else f",{what},"

    @override
    def write(self, out: BinaryIO) -> None:
        out.write(f"{self.header}\n".encode())
        for block in self.blocks():
            out.write(block.encode())


class Json(Records):
    """One array of flat records; what JSON has no number for (NaN, infinity) is null."""

    @override
    def middle(self, score: str, row: int) -> str:
        number = "" if self.board.objects else f', "row": {row}'
        return f', "score": {_json("float", score)}{number}'

    @override
    def beside(self, name: str, number: str | None) -> str:
        return f", {json.dumps(name, ensure_ascii=False)}: {_json('float', number)}"

    @override
    def all_tails(self, cells: Cells) -> list[str]:
        columns = [
            [f", {json.dumps(name, ensure_ascii=False)}: {_json(kind, text)}" for text in texts]
            for name, kind, texts in zip(cells.names, cells.kinds, cells.texts, strict=True)
        ]
        return [f"{''.join(row)}}},\n" for row in zip(*columns, strict=True)]

    @override
    def bounds(self, query: str | None, start: str | None, end: str) -> str:
        quote = '"' if self.board.timed else ""
        start = "null" if start is None else f"{quote}{start}{quote}"
        end = f"{quote}{end}{quote}"
        head = "" if query is None else f'"query": {json.dumps(query, ensure_ascii=False)}, '
        return f'{{{head}"window_start": {start}, "window_end": {end}, "rank": '

    @override
    def rank(self, rank: int) -> str:
        return str(rank) if rank else "null"

    @override
    def change(self, what: str, previous: int) -> str:
        return f', "change": "{what}", "previous_rank": {previous or "null"}'

    @override
    def write(self, out: BinaryIO) -> None:
        before = "[\n"
        for block in self.blocks():
            out.write((before + block[:-2]).encode())  # the comma belongs to the next record
            before = ",\n"
        out.write(b"[]\n" if before == "[\n" else b"\n]\n")


def _exact(number: Any) -> str:
    return f"{number:f}" if isinstance(number, Decimal) else repr(number)


def _quoted(text: str) -> str:
    if text and not _SPECIAL.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def _json(kind: Kind, text: str | None) -> str:
    if text is None or (kind == "float" and text in ("inf", "-inf", "nan")):
        return "null"
    return json.dumps(text, ensure_ascii=False) if kind == "text" else text
