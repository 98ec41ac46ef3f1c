"""Telling people on stderr how far a long run is, if stderr is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def tell(what: str) -> None:
    """Say what takes a while, if stderr is a terminal."""
    if sys.stderr.isatty():
        print(f"skyband: {what}", file=sys.stderr, flush=True)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show that something is going on, and for how long, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(what, total=None)
        yield


@contextmanager
def rows_done(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Give a function to call with the number of rows done since the last call.

    Draws a bar if the total is known, else counts; nothing at all if stderr is not a terminal.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    ending = [BarColumn(), TimeRemainingColumn()] if total else [TimeElapsedColumn()]
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.completed:,.0f} rows"),
        *ending,
        console=Console(stderr=True),
        transient=True,
    )
    with progress:
        task = progress.add_task(what, total=total)
        yield lambda rows: progress.advance(task, rows)
