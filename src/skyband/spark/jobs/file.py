"""Job files: a source, a query and a sink, written down in YAML.

Everything that can be checked without Spark is checked here, and told with the path in the file.
"""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from skyband.errors import QueryError, SkybandError
from skyband.spark.expressions import safe_score
from skyband.spark.jobs import file_errors as job_errors
from skyband.spark.jobs.queries import (
    DominatingQuery,
    IncompleteQuery,
    Part,
    Query,
    SharedQuery,
    TotalsQuery,
)
from skyband.workload.queries import SCORE, Workload

FILES = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
"""Formats that are read from and written to a path."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
Value = str | int | float | bool


class Source(Part):
    """Where rows come from."""

    format: str = Field(description="a format that Spark reads, such as parquet")
    path: str | None = Field(
        default=None, description="a directory, a file or a pattern such as in/*.csv"
    )
    ddl: str | None = Field(
        default=None, alias="schema", description="columns, such as 'ts timestamp, price double'"
    )
    fields: str | None = Field(
        default=None,
        alias="json",
        description="the fields of JSON texts in the column value, such as 'ts timestamp, n int'",
    )
    options: dict[str, Value] = Field(default={}, description="options of the format, by name")


class Sink(Part):
    """Where ranked windows go."""

    format: str = Field(description="console, files, or a format that Spark writes")
    path: str | None = Field(default=None, description="a directory")
    file_format: str | None = Field(default=None, description="parquet, csv, json or orc")
    options: dict[str, Value] = Field(default={}, description="options of the format, by name")


class Settings(Part):
    """The Spark session."""

    master: str | None = Field(default=None, description="a master, such as local[4]")
    shuffle_partitions: int | None = Field(
        default=None, ge=1, description="a whole number from 1 on"
    )
    memory: str | None = Field(default=None, description="the memory of the driver, such as 2g")
    settings: dict[str, Value] = Field(default={}, description="settings of Spark, by name")


class Trigger(Part):
    """When the stream runs: ``every`` so often, or over what there is (``available_now``)."""

    kind: Literal["available_now", "batch", "every"]
    every: str | None = None


class Job(Part):
    """A whole job; ``home`` is the directory of its file, to which paths are relative."""

    source: Source = Field(description="a source: format, path, schema, options")
    query: Query = Field(description="a query: k, by, time, window, slide")
    sink: Sink = Field(description="a sink: format, path, options")
    name: str | None = Field(default=None, description="a name")
    trigger: Trigger = Field(
        default=Trigger(kind="available_now"),
        description="available_now, batch, or every: 10 seconds",
    )
    checkpoint: str | None = Field(default=None, description="a directory")
    drain: bool = Field(default=False, description="true or false")
    session: Settings = Field(
        default=Settings(), description="settings: master, shuffle_partitions, memory, settings"
    )
    home: Path = Field(default=Path(), exclude=True)
    file: Path = Field(default=Path("job.yaml"), exclude=True)

    @field_validator("trigger", mode="before")
    @classmethod
    def _trigger(cls, found: Any) -> Any:
        if found in ("available_now", "batch"):
            return Trigger(kind=found)
        if isinstance(found, dict) and set(found) == {"every"} and isinstance(found["every"], str):
            return Trigger(kind="every", every=found["every"])
        raise PydanticCustomError("trigger", "not a trigger")

    @property
    def batch(self) -> bool:
        """Whether everything is read at once, not as a stream."""
        return self.trigger.kind == "batch"

    @property
    def title(self) -> str:
        """The name of the job, or of its file."""
        return self.name or self.file.stem

    def place(self, path: str) -> str:
        """A path of the file as Spark gets it."""
        if _SCHEME.match(path):
            return path
        return str(self.home / path)

    @property
    def here(self) -> bool:
        """Whether Spark runs on this machine, and on its files."""
        master = self.session.master or "local"
        elsewhere = "spark.hadoop.fs.defaultFS" in self.session.settings
        return master.startswith("local") and not elsewhere

    def local(self, path: str) -> Path | None:
        """A path on this machine, or None if it is, or may be, elsewhere."""
        return self.home / path if self.here and not _SCHEME.match(path) else None

    def once(self) -> Job:
        """The same job over what there is now, whatever its trigger."""
        if self.trigger.kind != "every":
            return self
        return self.model_copy(update={"trigger": Trigger(kind="available_now")})


class SharedJob(Job):
    """A job that asks the queries of a workload."""

    query: SharedQuery = Field(  # type: ignore[assignment]  # one or the other, see load
        description="a query: workload, by, time"
    )
    queries: Workload = Field(default=None, exclude=True)  # type: ignore[assignment]

    model_config = ConfigDict(arbitrary_types_allowed=True)


class DominatingJob(Job):
    """A job that asks for the rows that dominate the most others."""

    query: DominatingQuery = Field(  # type: ignore[assignment]  # one or the other, see load
        description="a query: k, dominating, time, window, slide"
    )


class TotalsJob(Job):
    """A job that asks for the keys with the largest totals."""

    query: TotalsQuery = Field(  # type: ignore[assignment]  # one or the other, see load
        description="a query: k, by, key, time, window, slide"
    )


class IncompleteJob(Job):
    """A job that asks for the best objects of incomplete streams."""

    query: IncompleteQuery = Field(  # type: ignore[assignment]  # one or the other, see load
        description="a query: k, incomplete, time, window, slide"
    )


def load(path: str | Path, master: str | None = None) -> Job:
    """Read a job file and check all that can be checked without Spark.

    ``master`` wins over the file's. Raises :class:`QueryError` with the place in the file, what was
    found and what was expected.
    """
    file = Path(path)
    found, lines = job_errors.parsed(_text(file), file.name)
    if not isinstance(found, dict):
        raise QueryError(
            f"{file.name} holds {job_errors.shown(found)}",
            "source:, query: and sink:",
            "see the jobs page of the documentation",
        )
    kind = _kind(found.get("query"))
    for reserved in ("home", "file", "queries"):
        if reserved in found:
            raise job_errors.unknown(file.name, (reserved,), lines, kind)
    try:
        job = kind.model_validate({**found, "home": file.absolute().parent, "file": file})
    except ValidationError as error:
        raise job_errors.reworded(error, file.name, lines, kind) from None
    if master is not None:
        session = job.session.model_copy(update={"master": master})
        job = job.model_copy(update={"session": session})
    try:
        if isinstance(job, SharedJob):
            job = job.model_copy(update={"queries": _queries(job)})
        _check(job)
    except SkybandError as error:
        raise type(error)(f"{file.name}: {error.found}", error.expected, error.fix) from None
    return job


def _kind(query: Any) -> type[Job]:
    """What kind of job asks such a query."""
    if isinstance(query, dict) and "workload" in query:
        return SharedJob
    if isinstance(query, dict) and "dominating" in query:
        return DominatingJob
    if isinstance(query, dict) and "incomplete" in query:
        return IncompleteJob
    if isinstance(query, dict) and "key" in query:
        return TotalsJob
    return Job


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise QueryError(f"there is no file {str(file)!r}", "a job file in YAML") from None
    except UnicodeDecodeError:
        raise QueryError(f"{file.name} is not text in UTF-8", "a job file in YAML") from None
    except OSError as error:
        raise QueryError(f"{str(file)!r} cannot be read: {error.strerror}") from None


def _check(job: Job) -> None:
    """What concerns more than one field, or needs more than a type."""
    _check_source(job)
    if isinstance(job, SharedJob):
        _check_workload(job)
    elif isinstance(job, (DominatingJob, IncompleteJob, TotalsJob)):
        _check_k(job.query.asked(safe_score, "marks" if job.drain else None).query().k)
    else:
        _check_query(job.query, job.drain)
    _check_sink(job)
    _check_run(job)
    _check_places(job)


def _check_source(job: Job) -> None:
    source = job.source
    if source.path is None and source.format.lower() in FILES:
        raise QueryError(f"source.path is missing for {source.format}", "a directory of files")
    if source.path is None:
        return
    place = job.local(source.path)
    if place is None:
        return
    if not _there(place):
        raise QueryError(
            f"source.path: there is nothing at {place}", "files, or a directory for them"
        )
    if place.is_file() and not job.batch:
        raise QueryError(
            f"source.path is one file, {place}",
            "a directory that the stream reads file by file, or a pattern",
            f"write path: {Path(source.path).parent / '*'}{place.suffix}, or trigger: batch",
        )


def _there(place: Path) -> bool:
    """Whether a path exists, or a directory before its first pattern."""
    parts = place.parts
    fixed = next((at for at, part in enumerate(parts) if re.search(r"[*?{\[]", part)), len(parts))
    return Path(*parts[:fixed]).exists()


def _check_query(query: Query, drain: bool) -> None:
    from skyband.spark.options import Asked

    _check_k(Asked(**query.model_dump(), drain="marks" if drain else None).query().k)
    safe_score(query.by)


def _check_k(k: int) -> None:
    from skyband.spark.plan import MOST

    if k > MOST:
        raise QueryError(f"query.k is {k:,}", f"at most {MOST:,}, Spark's own limit")


def _queries(job: SharedJob) -> Workload:
    """The workload of a job, in which every query has a score."""
    found = job.query.workload
    if isinstance(found, list):
        workload = Workload.of(found)
    else:
        file = job.home / found
        yaml = file.suffix.lower() in (".yaml", ".yml")
        workload = Workload.from_yaml(file) if yaml else Workload.from_csv(file)
    default = job.query.by or SCORE
    return Workload(
        workload.queries,
        {name: default if by == SCORE else by for name, by in workload.by.items()},
    )


def _check_workload(job: SharedJob) -> None:
    from skyband.spark.families.workload.plan import SharedAsked
    from skyband.spark.plan import MOST

    asked = job.query.model_dump(exclude={"workload", "by"})
    SharedAsked(job.queries, **asked, drain="marks" if job.drain else None).check()
    for name, query in job.queries.queries.items():
        if query.k > MOST:
            raise QueryError(f"k of {name!r} is {query.k:,}", f"at most {MOST:,}")
        safe_score(job.queries.by[name])


def words(job: Job) -> str:
    """The query of a job in words."""
    from skyband.spark.options import Asked

    keys = job.query.partition_by or []
    each = " and ".join([keys] if isinstance(keys, str) else keys)
    if isinstance(job, SharedJob):
        told = f"{job.queries} by {' or '.join(job.queries.scores[:3])}"
    elif isinstance(job, (DominatingJob, IncompleteJob)):
        told = str(job.query.asked(str).query())
    elif isinstance(job, TotalsJob):
        key = [job.query.key] if isinstance(job.query.key, str) else job.query.key
        told = f"{job.query.asked(str).query()}: {job.query.by} of each {' and '.join(key)}"
    else:
        told = f"{Asked(**job.query.model_dump()).query()} by {job.query.by}"
    return told + (f", for each {each}" if each else "")


def _check_sink(job: Job) -> None:
    sink = job.sink
    kind = sink.format.lower()
    if sink.path is None and (kind == "files" or kind in FILES):
        raise QueryError(f"sink.path is missing for {sink.format}", "a directory for the results")
    if kind == "console" and (sink.path is not None or sink.options):
        raise QueryError(
            "sink.format is console with a path or options",
            "console by itself: it shows the leaderboard",
            "write format: parquet, or leave them out",
        )
    if sink.file_format is not None and kind != "files":
        raise QueryError(
            f"sink.file_format is given for {sink.format}", "format: files, or no file_format"
        )
    if sink.file_format is not None and sink.file_format.lower() not in FILES:
        raise QueryError(f"sink.file_format is {sink.file_format!r}", f"one of {', '.join(FILES)}")


def _check_run(job: Job) -> None:
    from skyband.durations import microseconds

    if job.trigger.every is not None and microseconds(job.trigger.every, "trigger.every") <= 0:
        raise QueryError(f"trigger.every is {job.trigger.every!r}", "more than nothing")
    if job.batch and (job.checkpoint is not None or job.drain):
        raise QueryError(
            f"trigger is batch with {'drain' if job.drain else 'a checkpoint'}",
            "neither checkpoint nor drain: a batch reads everything once and answers all windows",
            "leave them out, or write trigger: available_now",
        )
    if job.drain and job.trigger.kind == "every":
        raise QueryError(
            f"drain is true with trigger every {job.trigger.every}",
            "a run that ends by itself: to drain is to say that no more rows will come",
            "write trigger: available_now, or drain: false",
        )
    alone = job.here and job.sink.format.lower() == "console"
    if not job.batch and job.checkpoint is None and not alone:
        raise QueryError(
            "checkpoint is missing",
            "a directory that remembers how far the stream is",
            f"write checkpoint: checkpoints/{job.title}",
        )
    if "spark.sql.shuffle.partitions" in job.session.settings:
        raise QueryError(
            "session.settings holds spark.sql.shuffle.partitions",
            "session.shuffle_partitions",
        )


def _within(inner: str, outer: str) -> bool:
    """Whether a path is in another, which may be a pattern."""
    parts = os.path.normpath(inner).split("/")
    pattern = os.path.normpath(outer).split("/")
    return len(parts) >= len(pattern) and all(map(fnmatchcase, parts, pattern))


def _check_places(job: Job) -> None:
    """The three directories of a job must not lie within each other."""
    named = {"source": job.source.path, "sink": job.sink.path, "checkpoint": job.checkpoint}
    places = {name: job.place(path) for name, path in named.items() if path is not None}
    for one, inner in places.items():
        for other, outer in places.items():
            if one != other and _within(inner, outer):
                raise QueryError(
                    f"the {one} ({inner}) is in the {other} ({outer})",
                    "directories of their own",
                )
