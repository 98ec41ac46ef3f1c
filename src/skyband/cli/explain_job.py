"""``skyband explain JOB.yaml``: what a job would do, checked against its columns."""

from __future__ import annotations

import json
import sys

from skyband.cli import progress
from skyband.cli.run import title
from skyband.spark.jobs import file as jobs


def run(file: str, as_json: bool, physical: bool) -> None:
    """Check a job as a run would, without running it, and print its plan."""
    job = jobs.load(file)
    from skyband.spark import explain as explaining
    from skyband.spark.jobs.run import explained, opened

    progress.tell("starting Spark, which takes some seconds")
    with opened(job) as spark:
        found = explained(spark, job)
        for note in found.notes:
            print(f"skyband: note: {note}", file=sys.stderr)
        if as_json:
            record = {"query": title(job), **explaining.figures(found.question)}
            print(json.dumps([record], indent=1, ensure_ascii=False))
        else:
            _print(
                [
                    ("query", title(job)),
                    ("source", f"{job.source.format}: {found.columns}"),
                    *explaining.words(job, found.question),
                ]
            )
        if physical:
            print()
            found.leaders.explain("formatted")


def _print(words: list[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, sentence in words:
        table.add_row(name, Text(sentence))
    Console(highlight=False).print(table)
