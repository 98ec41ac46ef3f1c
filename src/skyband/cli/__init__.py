"""The command line: ``skyband top``, ``dominating``, ``run``, ``explain``, ``generate`` and others.

``app`` declares the commands, by the options that are in ``arguments``; ``options`` turns words
into numbers and windows. ``commands`` does the work: ``rank`` is the one way of the commands that
rank a file, locally and on Spark, ``explain`` says how that would be done, and a module per family
says what is its own, as ``file_query`` describes it. ``input`` opens files through DuckDB, checks
what is to be evaluated, and writes Parquet for Spark; ``output`` prints. Nothing heavy is imported
before a command runs.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from signal import SIGINT

from skyband.cli import signals
from skyband.errors import SkybandError

__all__ = ["main"]

_WRONG, _UNREAD = 2, 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done; 2: something about the command, the file or the data is wrong, reported in one line on
    stderr; 130, 143, 129: ended by SIGINT, SIGTERM, SIGHUP; 1: the reader of our output went away.
    """
    try:
        with signals.raised():
            from skyband.cli.app import parser

            code = parser()(
                args=None if arguments is None else list(arguments),
                prog_name="skyband",
                standalone_mode=False,
            )
            sys.stdout.flush()
    except SkybandError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return signals.code() or signals.CODES[SIGINT]
    except BrokenPipeError:
        _silence()
        return _UNREAD
    except MemoryError:
        return _fail("not enough memory for this query; fix: ask for a smaller k or window")
    except Exception as error:
        if signals.code():  # libraries turn what a signal has cut short into errors of their own
            return signals.code()
        if isinstance(error, OSError):
            _silence()
            return _fail(f"{error.strerror or error}; fix: check where the output goes")
        if not hasattr(error, "format_message"):
            raise
        return _usage(error)
    if signals.code():  # also if the parser of the command line has caught what a signal raised
        return signals.code()
    return code if isinstance(code, int) else 0


def _fail(message: str) -> int:
    print(f"skyband: {' '.join(message.split())}", file=sys.stderr)
    return signals.code() or _WRONG


def _usage(error: Exception) -> int:
    """Print what the parser of the command line refuses, and where help is."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "skyband"
    message = error.format_message().rstrip(".")  # type: ignore[attr-defined]
    if type(error).__name__ == "NoArgsIsHelpError":  # the message is the help, if not yet printed
        print(message, end="")
        return _WRONG
    return _fail(f"{message[0].lower()}{message[1:]}; fix: see '{path} --help'")


def _silence() -> None:
    """Nobody reads our output any more: let nothing be written at exit either."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
