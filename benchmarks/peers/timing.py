"""How a peer is timed: its answers first, then ever more rows, until a minute is over.

More rows than it can manage are not tried, where the two runs before leave no doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from benchmarks.peers.peer import Failed, Stopped
from benchmarks.peers.question import Question, difference

Outcome = Literal["answered", "stopped", "differs", "failed", "missing"]
_PATIENCE = 5  # as many limits for a comparison, in which a process that was just started warms up
_AGAIN = 0.25  # of the limit: a run as short as that is repeated, and the shorter one counts
_HOPELESS = 1.5  # limits: what would take as long by the two runs before is not started


class Asked(Protocol):
    """What answers: the process of a peer."""

    def ask(self, question: Question, source: Path, target: Path, limit: float) -> float:
        """The seconds that an answer took."""


@dataclass(frozen=True)
class Timed:
    """What a peer managed: so many rows in so many seconds, and how it ended.

    ``stopped``: more rows took too long. Neither ``differs`` nor ``failed`` have a time.
    """

    outcome: Outcome
    rows: int = 0
    seconds: float | None = None
    note: str = ""

    @property
    def rows_per_s(self) -> float | None:
        """Its speed, if it has one."""
        return None if self.seconds is None else self.rows / max(self.seconds, 1e-9)


@dataclass(frozen=True)
class Stream:
    """The rows that peers read: a few, to compare answers, and growing beginnings of all.

    ``write`` gives the folder with the first so many rows of the stream.
    """

    few: Path
    sizes: Sequence[int]
    write: Callable[[int], Path]


def beginnings(rows: int, smallest: int) -> list[int]:
    """How many rows a peer gets, one run after the other, each four times as many as before."""
    sizes = [rows]
    while sizes[0] // 4 >= smallest:
        sizes.insert(0, sizes[0] // 4)
    return sizes


def timed(peer: Asked, question: Question, stream: Stream, target: Path, limit: float) -> Timed:
    """Compare the answers of a peer, then time it over ever more rows within a limit of seconds."""
    try:
        peer.ask(question, stream.few, target, _PATIENCE * limit)
        wrong = difference(question, stream.few, target)
    except Stopped:
        return Timed("stopped", note="while answers were compared")
    except Failed as error:
        return Timed("failed", note=str(error))
    if wrong is not None:
        return Timed("differs", note=wrong)
    before = managed = Timed("stopped")
    for rows in stream.sizes:
        if _predicted(before, managed, rows) > _HOPELESS * limit:
            return managed
        source = stream.write(rows)
        try:
            seconds = peer.ask(question, source, target, limit)
            if rows == stream.sizes[-1] and seconds < _AGAIN * limit:
                seconds = min(seconds, peer.ask(question, source, target, limit))
        except Stopped:
            return managed
        except Failed as error:
            return Timed("failed", managed.rows, managed.seconds, str(error))
        outcome: Outcome = "answered" if rows == stream.sizes[-1] else "stopped"
        before, managed = managed, Timed(outcome, rows, seconds)
    return managed


def _predicted(before: Timed, managed: Timed, rows: int) -> float:
    """The seconds that more rows take if each takes as long as between the last two runs."""
    if before.seconds is None or managed.seconds is None:
        return 0.0
    per_row = (managed.seconds - before.seconds) / (managed.rows - before.rows)
    return managed.seconds + per_row * (rows - managed.rows)
