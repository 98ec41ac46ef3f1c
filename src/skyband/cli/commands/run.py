"""``skyband run``: a job file at work, watched until it ends or is stopped."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from skyband.cli.output import progress
from skyband.cli.output.live_view import Lines, Nobody, Screen, Watcher, board, progress_lines
from skyband.cli.output.live_view import now as clock
from skyband.cli.signals import Stop
from skyband.spark import connectors
from skyband.spark.jobs import file as jobs
from skyband.spark.jobs.file import Job


def run_job(file: str, master: str | None, once: bool, quiet: bool, serve: str | None) -> int:
    """Run a job; 0 if it ended by itself, else the code of the signal that stopped it."""
    job = jobs.load(file, master)
    job = job.once() if once else job
    _fetch_jars(job)
    with Stop() as stop, _page(job, serve) as page:
        if not quiet:
            progress.tell("starting Spark, which takes some seconds")
        from skyband.spark.jobs.run import Run, opened  # Spark, only for a sound job

        with opened(job) as spark, Run(spark, job, page is not None) as work:
            work.make_ready(stop.requested)
            if not stop.requested.is_set():
                work.prepare()
                for note in work.notes:
                    print(f"skyband: note: {note}", file=sys.stderr)
                if page is not None:
                    page.describe(work)
                with _watcher(job, work.query, quiet) as watcher:

                    def see() -> None:
                        watcher.see(work.progress)
                        if page is not None:
                            page.see(work)

                    work.go(stop.requested, see)
                if page is not None and not stop.requested.is_set():
                    page.feed.end("The job has ended.")
                if not quiet:
                    _show_leaders(watcher, work)
    if not quiet:
        print(*summary(job, work, stop.requested.is_set()), sep="\n")
    return stop.code


def _fetch_jars(job: Job) -> None:
    """Fetch what the job connects with, before signals are put off: one ends it at once."""
    jars = connectors.missing_jars(job.connect)
    if jars:
        with progress.waiting(f"fetching {len(jars)} jars for {', '.join(job.connect)}, once"):
            connectors.fetched(jars)


@contextmanager
def _page(job: Job, serve: str | None) -> Iterator[Any]:
    """The page of a job, if there is to be one; its address is said at once."""
    if serve is None and job.serve is None:
        yield None
        return
    from skyband.serve.of_job import job_page

    with job_page(job, serve) as page:
        assert page is not None
        print(f"skyband: the page of this job is at {page.url}", file=sys.stderr, flush=True)
        yield page


def _show_leaders(watcher: Watcher, work: Any) -> None:
    """Leave the last leaderboard above the summary."""
    if isinstance(watcher, Screen):
        print()
    elif work.progress.leaders:
        Console(highlight=False).print(board(work.progress.leaders, work.query), "")


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
        names = [
            "rows",
            "windows",
            "set aside",
            "not ranked",
            "bad records",
            *progress.extra,
            "missed",
        ]
        names += [] if job.batch else ["late", "candidates", "watermark"]
        words = dict(progress_lines(progress, work.query, clock()))
        batches = f" in {progress.batches:,} batch{'es' if progress.batches > 1 else ''}"
        words["rows"] = f"{progress.rows:,} read{'' if job.batch else batches}"
        lines = [f"{name:12}{words[name]}" for name in names if name in words]
    places = [job.place(one.sink.path) for one in job.each_sink if one.sink.path is not None]
    lines += [job.masked(f"results     {place}") for place in places]
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
