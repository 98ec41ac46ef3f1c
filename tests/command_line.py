"""Run the command line in this process, and compute what it should print."""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass

from skyband.cli import main
from tests.oracle import changes, count_windows, time_windows

COMPILING = re.compile("skyband: (compiling|compiled)")

# options of each command over the rows of few_rows, and windows for them
OF_FAMILIES = {
    "top": ["--by", "v"],
    "totals": ["--key", "o", "--by", "sum(v)"],
    "dominating": ["--on", "v:max", "--on", "t:min"],
    "incomplete": ["--id", "o", "--stream", "s", "--value", "v", "--bounds", "0:100"],
}
OF_WINDOWS = {
    "counts": ["--last", 1_000_000_000, "--slide", 3],
    "counts by key": ["--last", 1_000_000_000, "--slide", 2, "--partition-by", "s"],
    "times": ["--time", "t", "--window", 6, "--slide", 2],
    "keys": ["--time", "t", "--window", 6, "--slide", 2, "--partition-by", "s"],
}


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def rows(self):
        """The records of CSV output."""
        return list(csv.DictReader(io.StringIO(self.out, newline="")))

    @property
    def ranked(self):
        """(start, end, rank, score, row) of each record, as numbers."""
        types = {"window_start": int, "window_end": int, "rank": int, "score": float, "row": int}
        return [tuple(read(row[name]) for name, read in types.items()) for row in self.rows]


class Runner:
    """Calls ``main`` and captures what it prints."""

    def __init__(self, capsys, monkeypatch):
        self.capsys = capsys
        self.monkeypatch = monkeypatch

    def __call__(self, *arguments, stdin=None):
        if stdin is not None:
            data = stdin if isinstance(stdin, bytes) else stdin.encode()
            self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        self.capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = self.capsys.readouterr()
        lines = [line for line in err.splitlines(keepends=True) if not COMPILING.match(line)]
        return Ran(code, out, "".join(lines))

    def fails(self, *arguments, stdin=None):
        """Run a command that must fail: one line on stderr, exit code 2, no output."""
        ran = self(*arguments, stdin=stdin)
        assert ran.code == 2, ran
        assert ran.out == ""
        assert ran.err.startswith("skyband: ")
        assert ran.err.count("\n") == 1
        assert "Traceback" not in ran.err
        return ran.err


def process(*arguments, **options):
    """Run a new process with the cache of compiled kernels that tests share."""
    environment = {**os.environ, "COLUMNS": "100", "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-m", "skyband.cli", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, check=False, timeout=120, env=environment, **options
    )


def counted(scores, n, s, k, *, keys=None, full=False):
    """(start, end, rank, score, row) of every window over rows in arrival order."""
    lines = []
    for key, rows in by_key(keys, len(scores)):
        for a in count_windows([scores[r] for r in rows], n, s, k, ids=rows, full=full):
            lines += [(a.end, key, rank, a.start, *row) for rank, row in enumerate(a.rows, 1)]
    return in_order(lines)


def timed(scores, times, size, slide, k, *, keys=None, offset=0):
    lines = []
    for key, rows in by_key(keys, len(scores)):
        answers = time_windows(
            [scores[r] for r in rows], [times[r] for r in rows], size, slide, k, offset, ids=rows
        )
        for a in answers:
            lines += [(a.end, key, rank, a.start, *row) for rank, row in enumerate(a.rows, 1)]
    return in_order(lines)


def by_key(keys, count):
    """Each key's rows; NULL first, then in ascending order."""
    if keys is None:
        return [((), list(range(count)))]
    distinct = sorted(set(keys), key=lambda key: (key is not None, key or ""))
    return [
        (at, [row for row in range(count) if keys[row] == key]) for at, key in enumerate(distinct)
    ]


def in_order(lines):
    return [
        (start, end, rank, score, row)
        for end, _, rank, start, score, row in sorted(lines, key=lambda f: f[:3])
    ]


def counted_changes(scores, n, s, k, *, keys=None, full=False):
    """(end, rank, previous, row) of every change, in the order of printing."""
    reports = []
    for key, rows in by_key(keys, len(scores)):
        answers = count_windows([scores[r] for r in rows], n, s, k, ids=rows, full=full)
        reports += [(end, key, report) for end, report in changes(answers, s)]
    return _flattened(reports)


def timed_changes(scores, times, size, slide, k, *, keys=None, offset=0):
    """As above; after the last window its objects leave."""
    reports = []
    for key, rows in by_key(keys, len(scores)):
        answers = time_windows(
            [scores[r] for r in rows], [times[r] for r in rows], size, slide, k, offset, ids=rows
        )
        reports += [(end, key, report) for end, report in changes(answers, slide)]
        if answers:
            gone = {row: (0, rank) for rank, (_, row) in enumerate(answers[-1].rows, 1)}
            reports.append((answers[-1].end + slide, key, gone))
    return _flattened(reports)


def _flattened(reports):
    lines = []
    for end, _, report in sorted(reports, key=lambda f: f[:2]):
        order = sorted(report.items(), key=lambda item: (item[1][0] == 0, item[1]))
        lines += [(end, rank or None, previous or None, row) for row, (rank, previous) in order]
    return lines


def few_rows(folder):
    """A file of twelve rows that every family can rank."""
    path = folder / "few.csv"
    lines = [f"{at},{at * 7 % 11},{'xyz'[at % 3]},{'ab'[at % 2]}" for at in range(12)]
    path.write_text("\n".join(["t,v,o,s", *lines]) + "\n")
    return path
