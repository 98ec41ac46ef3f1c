"""Running the command line in this process, and what it should print."""

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
        numbers = {"window_start": int, "window_end": int, "rank": int, "score": float, "row": int}
        return [tuple(read(row[name]) for name, read in numbers.items()) for row in self.rows]


class Runner:
    """Calls ``main`` and catches what it prints."""

    def __init__(self, capsys, monkeypatch):
        self.capsys = capsys
        self.monkeypatch = monkeypatch

    def __call__(self, *words, stdin=None):
        if stdin is not None:
            data = stdin if isinstance(stdin, bytes) else stdin.encode()
            self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        self.capsys.readouterr()
        code = main([str(word) for word in words])
        out, err = self.capsys.readouterr()
        told = [line for line in err.splitlines(keepends=True) if not COMPILING.match(line)]
        return Ran(code, out, "".join(told))

    def fails(self, *words, stdin=None):
        """Run what is wrong: one line on stderr, exit code 2, no output."""
        ran = self(*words, stdin=stdin)
        assert ran.code == 2, ran
        assert ran.out == ""
        assert ran.err.startswith("skyband: ")
        assert ran.err.count("\n") == 1
        assert "Traceback" not in ran.err
        return ran.err


def process(*words, **options):
    """A process of its own, with the cache of compiled kernels that tests share."""
    environment = {**os.environ, "COLUMNS": "100", "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-m", "skyband.cli", *map(str, words)]
    return subprocess.run(
        command, capture_output=True, check=False, timeout=120, env=environment, **options
    )


def counted(scores, n, s, k, *, keys=None, full=False):
    """(start, end, rank, score, row) of every window over rows in arrival order."""
    found = []
    for key, rows in by_key(keys, len(scores)):
        for a in count_windows([scores[r] for r in rows], n, s, k, ids=rows, full=full):
            found += [(a.end, key, rank, a.start, *row) for rank, row in enumerate(a.rows, 1)]
    return in_order(found)


def timed(scores, times, size, slide, k, *, keys=None, offset=0):
    found = []
    for key, rows in by_key(keys, len(scores)):
        answers = time_windows(
            [scores[r] for r in rows], [times[r] for r in rows], size, slide, k, offset, ids=rows
        )
        for a in answers:
            found += [(a.end, key, rank, a.start, *row) for rank, row in enumerate(a.rows, 1)]
    return in_order(found)


def by_key(keys, count):
    """Each key's rows; NULL first, then in ascending order."""
    if keys is None:
        return [((), list(range(count)))]
    distinct = sorted(set(keys), key=lambda key: (key is not None, key or ""))
    return [
        (at, [row for row in range(count) if keys[row] == key]) for at, key in enumerate(distinct)
    ]


def in_order(found):
    return [
        (start, end, rank, score, row)
        for end, _, rank, start, score, row in sorted(found, key=lambda f: f[:3])
    ]


def counted_changes(scores, n, s, k, *, keys=None, full=False):
    """(end, rank, previous, row) of every change, in the order of printing."""
    found = []
    for key, rows in by_key(keys, len(scores)):
        answers = count_windows([scores[r] for r in rows], n, s, k, ids=rows, full=full)
        found += [(end, key, report) for end, report in changes(answers, s)]
    return _told(found)


def timed_changes(scores, times, size, slide, k, *, keys=None, offset=0):
    """As above; after the last window its objects leave."""
    found = []
    for key, rows in by_key(keys, len(scores)):
        answers = time_windows(
            [scores[r] for r in rows], [times[r] for r in rows], size, slide, k, offset, ids=rows
        )
        found += [(end, key, report) for end, report in changes(answers, slide)]
        if answers:
            gone = {id: (0, rank) for rank, (_, id) in enumerate(answers[-1].rows, 1)}
            found.append((answers[-1].end + slide, key, gone))
    return _told(found)


def _told(found):
    lines = []
    for end, _, report in sorted(found, key=lambda f: f[:2]):
        order = sorted(report.items(), key=lambda item: (item[1][0] == 0, item[1]))
        lines += [(end, rank or None, previous or None, row) for row, (rank, previous) in order]
    return lines
