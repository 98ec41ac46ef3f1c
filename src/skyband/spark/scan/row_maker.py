"""What stands for the rows of a batch where they are not handed on as they are.

A family that adds up rows, or puts them into blocks, does so in the tasks that read them, by a
:class:`RowMaker`. Workers import this module.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from skyband.order import Ints

Columns = dict[str, Any]
"""Arrow columns by the names under which they are handed on."""


@dataclass(frozen=True)
class ScannedRows:
    """Rows of a batch that have a sound position: their numbers, positions and columns."""

    values: list[Any]
    positions: Ints
    columns: Columns


class RowMaker(ABC):
    """Makes of the rows of a batch what is handed on; plain values only, for workers get it."""

    hands_on: ClassVar[str]
    """What is handed on, in words."""

    def checked(self, values: list[Any], columns: Columns, extra: dict[str, int]) -> list[Any]:
        """The numbers of all rows of a batch: they are counted by the first, NULL or NaN.

        What a family counts besides, see :attr:`Plan.extra_counts`, is added to ``extra``.
        """
        return values

    @abstractmethod
    def made(self, rows: ScannedRows) -> Iterator[Columns]:
        """What stands for rows, whose numbers are those that were checked; it has a position."""
