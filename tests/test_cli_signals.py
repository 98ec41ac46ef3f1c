"""Signals that reach a command where Python drops exceptions."""

from __future__ import annotations

import signal
import threading
import warnings
import weakref
from collections.abc import Callable

import pytest

from skyband.cli import signals


class Noisy:
    """Whoever lets go of it gets a signal, inside a ``__del__``."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


class Referred:
    """Something that weak references point to."""


def let_go_of_a_referent() -> None:
    """Get a signal inside the callback of a weak reference, where Py4J lets go of objects."""
    referent = Referred()
    reference = weakref.ref(referent, lambda _: signal.raise_signal(signal.SIGTERM))
    assert reference() is referent
    del referent


@pytest.mark.parametrize("let_go", [Noisy, let_go_of_a_referent])
def test_a_signal_that_python_drops_is_raised_again(
    let_go: Callable[[], object], capsys: pytest.CaptureFixture[str]
) -> None:
    def run() -> None:
        with signals.raised():
            let_go()
            assert not threading.Event().wait(60)  # the signal ends it
            pytest.fail("the signal was lost")

    with pytest.raises(signals.Terminated):
        run()
    assert signals.code() == 143
    assert capsys.readouterr().err == ""


def test_a_signal_leaves_no_word_of_open_files() -> None:
    """Such as an import that is cut short leaves behind."""

    def run() -> None:
        with signals.raised():
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(signals.Terminated):
        run()
    warnings.warn("unclosed file", ResourceWarning, stacklevel=1)  # an error, as all others are
