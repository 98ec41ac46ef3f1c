"""A study: something that is measured, shown and drawn; and how to run it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record


class Study(Protocol):
    """What the benchmarks, and the tables and figures of the papers, have in common."""

    @property
    def name(self) -> str:
        """The name of its figure."""

    def collect(self) -> list[Record]:
        """Measure, and return flat records."""

    def show(self, records: list[Record], console: Console) -> None:
        """Print the records for people."""

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """Draw the records into files of a folder."""


Sized = Callable[[bool], Study]
"""A study by size: quick or whole."""


def perform(studies: Sequence[Study], *, as_json: bool = False, results: Path | None = None) -> int:
    """Carry out studies one after the other: tables, or one JSON array, on stdout; then figures.

    Returns the exit code.
    """
    folder = results or report.RESULTS
    console = report.console()
    everything: list[Record] = []
    for study in studies:
        records = study.collect()
        everything += records
        if not as_json:
            study.show(records, console)
        for path in report.drawn(study, records, folder):
            report.note(f"drawn: {path}")
    if as_json:
        report.print_json(everything)
    return 0


def main(*studies: Sized, arguments: Sequence[str] | None = None) -> int:
    """Run studies as a script: ``python -m benchmarks.papers.sap.table6 [--quick] [--json]``."""
    parser = argparse.ArgumentParser(description=studies[0](True).name)
    parser.add_argument("--quick", action="store_true", help="smaller streams, fewer settings")
    parser.add_argument("--json", action="store_true", help="one array of flat records")
    given = parser.parse_args(arguments)
    return perform([study(given.quick) for study in studies], as_json=given.json)
