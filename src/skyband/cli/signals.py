"""Signals that end a command: in order, with a line and the exit code that shells expect."""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

CODES = {number: 128 + number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
"""The exit codes of commands that a signal has ended."""

_AGAIN = 0.02  # seconds until a signal is sent again
_received: list[int] = []  # by the command that runs


class Terminated(KeyboardInterrupt):
    """A signal that ends a command, as Ctrl-C does."""


def code() -> int:
    """The exit code for the first signal that the command has received; 0 if there was none."""
    return CODES[signal.Signals(_received[0])] if _received else 0


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have a function handle the signals that end a command; only the main thread may.

    What is ignored stays ignored: by ``nohup``, and by shells that run a command in the background.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [number for number in CODES if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def raised() -> Iterator[None]:
    """Have signals raise :class:`Terminated` wherever the command is."""

    def end(number: int, frame: FrameType | None) -> None:
        _received.append(number)
        _terminate()

    _received.clear()
    with _handled(end), _raised_again():
        yield


def _terminate() -> NoReturn:
    """Raise :class:`Terminated`; what it cuts short leaves files open, of which nobody is told."""
    warnings.simplefilter("ignore", ResourceWarning)
    raise Terminated


@contextmanager
def _raised_again() -> Iterator[None]:
    """Send a signal again whose exception Python has dropped.

    Nothing leaves a callback of a weak reference or a ``__del__``; Py4J's run at any time.
    """
    before = sys.unraisablehook
    timers: list[threading.Timer] = []

    def hook(dropped: Any) -> None:
        if not issubclass(dropped.exc_type, Terminated):
            before(dropped)
            return
        # from a thread, a moment later: here the signal would be raised inside this function. It
        # is a real one, which ends whatever the main thread waits for
        main = threading.main_thread().ident
        again = threading.Timer(_AGAIN, signal.pthread_kill, (main, _received[-1]))
        again.daemon = True
        timers.append(again)
        again.start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
        for again in timers:
            again.cancel()


class Stop:
    """Signals end a run in order: they set ``requested``. A second one ends it at once.

    Whoever talks to Java must not be interrupted: what it answers would be taken for the answer
    to the next question.
    """

    def __init__(self) -> None:
        self.requested = threading.Event()
        self.code = 0
        self._handlers: Any = None

    def __enter__(self) -> Stop:
        self._handlers = _handled(self._stop)
        self._handlers.__enter__()
        return self

    def _stop(self, number: int, frame: FrameType | None) -> None:
        _received.append(number)
        if self.requested.is_set():
            _terminate()
        self.code = CODES[signal.Signals(number)]
        self.requested.set()

    def __exit__(self, *_: object) -> None:
        self._handlers.__exit__(None, None, None)
