"""``skyband bench spark-sizes``: hundreds of millions of rows, and files with huge row groups.

First a file in one piece, with row groups as large as anybody writes them: what a Python worker
holds at most while tasks read it. Then Spark's tumbling max and Skyband, whose tasks read the
files, over one stream and over one of several times the rows in the same two hours, each in one
micro-batch: what all of it takes, and what another row costs, without whatever a query and a batch
cost once.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console

from benchmarks import report
from benchmarks.measure import Record
from benchmarks.spark import stream
from benchmarks.spark.scale import WARM_UPS
from benchmarks.spark.sessions import session_and_folder
from benchmarks.spark.study import SCAN_STYLE, STYLES

RATIO = 60
FILES = 16  # of the smaller stream; the larger one has more of the same size
_SYSTEMS = ("floor", "skyband-scan")
_GIB = 1 << 30
_LOOK = 0.2  # seconds between two looks at workers, whose peak the system keeps


@dataclass(frozen=True)
class Sizes:
    """Two sizes of a stream; k varied over the smaller one; one file for memory."""

    small: int = 100_000_000
    times: int = 3
    ks: tuple[int, ...] = (100, 10, 1000)  # the first one over both sizes
    repeats: int = 2
    row_group: int = _GIB  # bytes, as Parquet counts them
    file: int = 10 * _GIB
    name: str = field(default="spark_sizes", init=False)

    @classmethod
    def sized(cls, quick: bool, rows: int | None = None) -> Sizes:
        """Over 10^8 and 3x10^8 rows, or fewer."""
        if quick:
            return cls(rows or 2_000_000, 3, (100,), 1, 16 << 20, 64 << 20)
        return cls(rows or 100_000_000)

    def collect(self) -> list[Record]:
        """A record of the file, then one per system, k and size."""
        with session_and_folder() as (spark, home):
            records = [self._memory(spark, home)]
        with session_and_folder() as (spark, home):
            return [*records, *self._speed(spark, home)]

    def _memory(self, spark: Any, home: Path) -> Record:
        """What workers hold while they read one file with huge row groups, in a new session."""
        from benchmarks.spark.systems import files, skyband, timed

        report.note(f"writing one file of {report.size(self.file)}")
        folder = home / "one"
        rows = write_large(folder, self.file, self.row_group)
        [file] = folder.iterdir()
        row_group = pq.ParquetFile(file).metadata.row_group(0)
        with watched() as peak:
            took = timed(skyband(files(spark, folder, 1), RATIO, self.ks[0]), home / "run")
        assert took.rows == rows, f"{took.rows:,} of {rows:,} rows were read"
        return {
            "part": "memory",
            "system": "skyband-scan",
            "k": self.ks[0],
            "rows": rows,
            "seconds": took.seconds,
            "rows_per_s": rows / took.seconds,
            "file_bytes": file.stat().st_size,
            "row_group_bytes": row_group.total_byte_size,
            "workers": len(peak),
            "worker_bytes": max(peak.values(), default=0),
        }

    def _speed(self, spark: Any, home: Path) -> list[Record]:
        from benchmarks.spark.systems import SCAN, SYSTEMS, files, timed

        def run(system: str, folder: Path, k: int) -> Record:
            source = files(spark, folder, FILES * self.times)
            leaders = SYSTEMS[system](source if system == SCAN else source.frame, RATIO, k)
            took = timed(leaders, home / "run")
            return {
                "part": "speed",
                "system": system,
                "k": k,
                "rows": took.rows,
                "seconds": took.seconds,
                "rows_per_s": took.rows / took.seconds,
            }

        warm_up = stream.write(home / "few", 400_000, 400_000, FILES)
        for _ in range(WARM_UPS):
            for system in _SYSTEMS:
                run(system, warm_up, self.ks[0])
        points = [(self.small, FILES, k) for k in self.ks]
        points.insert(1, (self.small * self.times, FILES * self.times, self.ks[0]))
        records: list[Record] = []
        with report.progress("spark-sizes", len(points)) as step:
            for rows, count, k in points:
                report.note(f"{rows:,} trades, k {k:,}")
                folder = stream.write(home / f"rows-{rows}", rows, rows, count)
                runs = [run(system, folder, k) for _ in range(self.repeats) for system in _SYSTEMS]
                for system in _SYSTEMS:
                    same = [r for r in runs if r["system"] == system]
                    records.append(min(same, key=lambda r: r["seconds"]))
                step(f"{rows:,} rows, k {k:,}")
        return records

    def show(self, records: list[Record], console: Console) -> None:
        """Memory, speed, goals."""
        [memory] = [r for r in records if r["part"] == "memory"]
        cells = (
            report.size(memory["file_bytes"]), report.size(memory["row_group_bytes"]),
            memory["rows"], memory["seconds"], memory["rows_per_s"], memory["workers"],
            report.size(memory["worker_bytes"]),
        )  # fmt: skip
        console.print(
            report.table(
                "One file, as tasks read it",
                ("file", "row group", "rows", "s", "rows/s", "workers", "largest worker"),
                [cells],
                f"window/slide {RATIO}, k {memory['k']}. Row group: its columns before they are "
                "compressed. Largest worker: the most memory that a Python worker ever held.",
            )
        )
        rows = [
            (
                r["k"], r["rows"], r["system"], r["seconds"], r["rows_per_s"],
                report.ratio(r["rows_per_s"], _floor(records, r)["rows_per_s"]),
            )
            for r in _speeds(records)
        ]  # fmt: skip
        rows += [
            (k, "another row", system, None, each, each / others["floor"])
            for k, others in further(records).items()
            for system, each in others.items()
        ]
        console.print(
            report.table(
                f"Streams over the same two hours, window/slide {RATIO}, {os.cpu_count()} cores",
                ("k", "rows", "system", "s", "rows/s", "x floor speed"),
                rows,
                "floor: Spark's tumbling max per pane. One micro-batch each. another row: the rows "
                "that the larger stream has more, by the time that it takes longer.",
            )
        )
        console.print(
            report.table("Goals", ("goal", "wanted", "measured", "met"), goals(records), "")
        )

    def draw(self, records: list[Record], folder: Path) -> list[Path]:
        """Seconds against rows."""
        figure, axes = report.panels(1, 1, "Seconds as a stream grows", panel=(4.4, 3.2))
        panel = axes[0][0]
        for system, (colour, marker) in {**STYLES, **SCAN_STYLE}.items():
            points = [r for r in _speeds(records) if (r["system"], r["k"]) == (system, self.ks[0])]
            if points:
                x, y = [r["rows"] / 1e6 for r in points], [r["seconds"] for r in points]
                panel.plot(x, y, color=colour, marker=marker, label=system)
        panel.set_xlim(left=0)
        panel.set_ylim(bottom=0)
        panel.set_xlabel("million rows")
        panel.set_ylabel("seconds")
        report.legend(figure, axes[0])
        return report.save(figure, folder, self.name)


def goals(records: list[Record]) -> list[tuple[str, str, float, str]]:
    """What reading files by tasks must reach."""
    rows: list[tuple[str, str, float, str]] = []

    def goal(what: str, wanted: float, measured: float) -> None:
        met = "yes" if measured >= wanted else "NO"
        rows.append((what, f"at least {wanted:g}", measured, met))

    speeds = _speeds(records)
    small = min(r["rows"] for r in speeds)
    for r in speeds:
        if r["system"] != "floor" and r["rows"] == small:
            gain = r["rows_per_s"] / _floor(records, r)["rows_per_s"]
            goal(
                f"{small:,} rows, k = {r['k']:,}: x floor's speed",
                3.0 if r["k"] == 100 else 2.5,
                gain,
            )
    for k, others in further(records).items():
        goal(
            f"another row, k = {k:,}: x floor's speed",
            5.0,
            others["skyband-scan"] / others["floor"],
        )
    for r in records:
        if r["part"] == "memory":
            held = r["worker_bytes"] / _GIB
            what = f"GiB of a worker, row groups of {report.size(r['row_group_bytes'])}"
            rows.append((what, "at most 1", held, "yes" if held <= 1 else "NO"))
    return rows


def further(records: list[Record]) -> dict[int, dict[str, float]]:
    """Rows per second of the rows that the larger stream has more, by k and system."""
    of: dict[tuple[int, str], list[Record]] = defaultdict(list)
    for r in _speeds(records):
        of[r["k"], r["system"]].append(r)
    rates: dict[int, dict[str, float]] = {}
    for (k, system), sizes in of.items():
        if len(sizes) == 2:
            low, high = sorted(sizes, key=lambda r: r["rows"])
            rate = (high["rows"] - low["rows"]) / (high["seconds"] - low["seconds"])
            rates.setdefault(k, {})[system] = rate
    return rates


def _speeds(records: list[Record]) -> list[Record]:
    return [r for r in records if r["part"] == "speed"]


def _floor(records: list[Record], record: Record) -> Record:
    """The record of the floor beside another one."""
    return next(
        r
        for r in _speeds(records)
        if (r["system"], r["k"], r["rows"]) == ("floor", record["k"], record["rows"])
    )


def write_large(folder: Path, file_bytes: int, row_group_bytes: int) -> int:
    """One file of about so many bytes, in row groups of so many; returns its rows."""
    probe = stream.write(folder.parent / "probe", 1 << 20, 1 << 20, 1)
    [file] = probe.iterdir()
    metadata = pq.ParquetFile(file).metadata
    row_bytes = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    per_group = row_group_bytes * metadata.num_rows // row_bytes
    groups = -(-file_bytes * metadata.num_rows // file.stat().st_size // per_group)
    rows = groups * per_group
    folder.mkdir(parents=True)
    schema = pq.read_schema(file)
    with pq.ParquetWriter(folder / "part-000.parquet", schema) as writer:
        for group in range(groups):
            trades = stream.trades(group * per_group, (group + 1) * per_group, rows)
            writer.write_table(trades.cast(schema), row_group_size=per_group)
    return rows


@contextmanager
def watched() -> Iterator[dict[int, int]]:
    """Look at the Python workers that Spark starts meanwhile; gives the peak of each in bytes."""
    peak: dict[int, int] = {}
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(_LOOK):
            for pid in workers():
                peak[pid] = max(peak.get(pid, 0), peak_of(pid))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def workers() -> list[int]:
    """The Python workers of Spark among the processes that this one has started."""
    children: dict[int, list[int]] = defaultdict(list)
    lines: dict[int, bytes] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                lines[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:  # it has ended
                continue
            children[parent].append(int(entry.name))
    daemons, descendants = [], [os.getpid()]
    while descendants:
        for pid in children[descendants.pop()]:
            descendants.append(pid)
            if b"pyspark.daemon" in lines[pid]:
                daemons.append(pid)
    return daemons


def peak_of(pid: int) -> int:
    """The most bytes that a process has ever had in memory; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
