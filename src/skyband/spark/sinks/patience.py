"""Waits for a server that is down, and says so, instead of ending a stream at once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from skyband.errors import DataError, ServerDownError

Answer = TypeVar("Answer")

LOG = logging.getLogger("skyband.sinks")
STOPPING = threading.Event()
"""Ends all waiting, when it is set: a run is to stop."""

_FIRST, _LONGEST = 0.5, 30.0  # seconds between two attempts


class Trouble(NamedTuple):
    """Why a server is waited for, what is expected of it, and how to help it."""

    problem: str
    expected: str
    fix: str


UNREACHABLE = Trouble("cannot be reached", "a server that answers", "start it")


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server: ``limit`` seconds, with longer and longer pauses.

    ``down`` are the errors of its client that say that it cannot be reached, or whatever else the
    ``trouble`` with it is; ``errors`` are all others, which no waiting mends.
    """

    server: str
    limit: float
    down: tuple[type[Exception], ...]
    errors: tuple[type[Exception], ...] = ()
    trouble: Callable[[Exception], Trouble] = lambda error: UNREACHABLE

    def call(self, attempt: Callable[[], Answer]) -> Answer:
        """What an attempt returns; it is made again while it says that the server is down."""
        pause, waited = _FIRST, 0.0
        while True:
            try:
                answer = attempt()
            except self.down as error:
                if waited >= self.limit or STOPPING.is_set():
                    raise self._down(error) from error
                LOG.warning(
                    "%s %s, trying again in %.1f seconds: %s",
                    *(self.server, self.trouble(error).problem, pause, first_line(error)),
                )
                STOPPING.wait(pause)
                waited += pause
                pause = min(2 * pause, _LONGEST)
            except self.errors as error:
                raise self._refused(error) from error
            else:
                if waited:
                    LOG.warning("%s is there again after %.1f seconds", self.server, waited)
                return answer

    def call_once(self, attempt: Callable[[], Answer]) -> Answer:
        """What an attempt returns, before anything runs: people see at once what is wrong."""
        try:
            return attempt()
        except self.down as error:
            raise self._down(error) from error
        except self.errors as error:
            raise self._refused(error) from error

    def _refused(self, error: Exception) -> DataError:
        return DataError(
            f"{self.server} does not take the rankings: {first_line(error)}",
            "a sink that may be written, and that holds what the query returns",
        )

    def _down(self, error: Exception) -> ServerDownError:
        problem, expected, fix = self.trouble(error)
        return ServerDownError(
            f"{self.server} {problem}: {first_line(error)}",
            expected,
            f"{fix}, and run again: a stream goes on where it was",
        )


def first_line(error: BaseException) -> str:
    """The first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
