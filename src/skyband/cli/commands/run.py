"""``skyband run``: a job file at work, watched until it ends or is stopped."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rich.console import Console

from skyband.cli.output import progress
from skyband.cli.output.live_view import Lines, Nobody, Screen, Watcher, board, progress_lines
from skyband.cli.output.live_view import now as clock
from skyband.spark.jobs import file as jobs
from skyband.spark.jobs.file import Job

_STOPPED = {signal.SIGINT: 130, signal.SIGTERM: 143}


def run_job(file: str, master: str | None, once: bool, quiet: bool) -> int:
    """Run a job; 0 if it ended by itself, 130 after Ctrl-C, 143 after SIGTERM."""
    job = jobs.load(file, master)
    job = job.once() if once else job
    from skyband.spark.jobs.run import Run, opened  # Spark, only for a sound job

    if not quiet:
        progress.tell("starting Spark, which takes some seconds")
    with opened(job) as spark, Stop() as stop, Run(spark, job) as work:
        work.prepare()
        for note in work.notes:
            print(f"skyband: note: {note}", file=sys.stderr)
        with _watcher(job, work.query, quiet) as watcher:
            work.go(stop.requested, lambda: watcher.see(work.progress))
    if not quiet:
        if isinstance(watcher, Screen):
            print()
        elif work.progress.leaders:
            Console(highlight=False).print(board(work.progress.leaders, work.query), "")
        for line in summary(job, work, stop.requested.is_set()):
            print(line)
    return stop.code


@contextmanager
def _watcher(job: Job, query: dict[str, Any], quiet: bool) -> Iterator[Watcher]:
    """A screen on a terminal, lines elsewhere; of a batch there is nothing to see."""
    console = Console(stderr=True, highlight=False)
    if quiet:
        yield Nobody()
    elif job.batch:
        with progress.waiting("ranking"):
            yield Nobody()
    elif sys.stderr.isatty() and console.is_interactive:
        with Screen(jobs.words(job), query, console) as screen:
            yield screen
    else:
        yield Lines(query)


def summary(job: Job, work: Any, stopped: bool) -> list[str]:
    """What a run did, and how to go on, line by line."""
    progress = work.progress
    if progress.batches == 0:
        lines = ["rows        none were read"]
    else:
        names = ["rows", "windows", "set aside", "not ranked", *progress.extra]
        names += [] if job.batch else ["late", "candidates", "watermark"]
        words = dict(progress_lines(progress, work.query, clock()))
        batches = f" in {progress.batches:,} batch{'es' if progress.batches > 1 else ''}"
        words["rows"] = f"{progress.rows:,} read{'' if job.batch else batches}"
        lines = [f"{name:12}{words[name]}" for name in names if name in words]
    if job.sink.path is not None:
        lines.append(f"results     {job.place(job.sink.path)}")
    first, *more = _next(job, work, stopped)
    return [*lines, f"to go on    {first}", *(f"{'':12}{line}" for line in more)]


def _next(job: Job, work: Any, stopped: bool) -> list[str]:
    again = f"skyband run {job.file}"
    if job.batch:
        return ["every window is answered"] if not stopped else [again]
    if work.drained:
        return ["the stream is drained: every window is answered, the checkpoint is finished"]
    if job.checkpoint is None:
        return [f"give the job a checkpoint: without one, {again} begins anew"]
    if stopped or job.trigger.kind == "every":
        return [f"{again} goes on from here"]
    return [
        f"{again} goes on from here with the rows that came since",
        "the last windows stay open for them; drain: true answers these as well",
    ]


class Stop:
    """Ctrl-C and SIGTERM end a run in order; a second one ends it at once."""

    def __init__(self) -> None:
        self.requested = threading.Event()
        self.code = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            self._before = {kind: signal.signal(kind, self._stop) for kind in _STOPPED}
        return self

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self.requested.is_set():
            raise KeyboardInterrupt
        self.code = _STOPPED[signal.Signals(number)]
        self.requested.set()

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
