"""Job files: a source, a query and a sink, written down in YAML.

Everything that can be checked without Spark is checked here; errors name the place in the file.
"""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, create_model, field_validator
from pydantic_core import PydanticCustomError

from skyband.durations import microseconds
from skyband.errors import QueryError, SkybandError
from skyband.spark import connectors
from skyband.spark.columns import in_words
from skyband.spark.expressions import safe_score
from skyband.spark.families import family_of_job
from skyband.spark.jobs import file_errors, sinks, sources, variables
from skyband.spark.jobs.queries import JobQuery, Part
from skyband.spark.jobs.sinks import Sink
from skyband.spark.jobs.sources import Source, Value
from skyband.spark.plan import Family

_QUERY = "a query: k, by, time, window, slide"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


class Settings(Part):
    """The Spark session."""

    master: str | None = Field(default=None, description="a master, such as local[4]")
    shuffle_partitions: int | None = Field(
        default=None, ge=1, description="a whole number from 1 on"
    )
    memory: str | None = Field(default=None, description="the memory of the driver, such as 2g")
    settings: dict[str, Value] = Field(default={}, description="settings of Spark, by name")


class Serve(Part):
    """A live page of the job."""

    address: str = Field(description="[host:]port, such as 8080")
    token: str | None = Field(default=None, description="a text that readers must know")


class Trigger(Part):
    """When the stream runs: ``every`` so often, or over what there is (``available_now``)."""

    kind: Literal["available_now", "batch", "every"]
    every: str | None = None


class Job(Part):
    """A whole job; ``home`` is the directory of its file, to which paths are relative.

    :func:`load` makes jobs whose ``query`` is that of a family.
    """

    source: Source = Field(description="a source: format, path, schema, options")
    query: JobQuery = Field(description=_QUERY)
    one_sink: Sink | None = Field(
        default=None, alias="sink", description="a sink: format, path, options"
    )
    sinks: list[Sink] = Field(default=[], description="several sinks, each with a name")
    name: str | None = Field(default=None, description="a name")
    trigger: Trigger = Field(
        default=Trigger(kind="available_now"),
        description="available_now, batch, or every: 10 seconds",
    )
    checkpoint: str | None = Field(default=None, description="a directory")
    connect: dict[str, str] = Field(
        default={}, description="connectors that Spark fetches, such as {kafka: auto}"
    )
    drain: bool = Field(default=False, description="true or false")
    session: Settings = Field(
        default=Settings(), description="settings: master, shuffle_partitions, memory, settings"
    )
    serve: Serve | None = Field(
        default=None, description="where its page is served: [host:]port, such as 8080"
    )
    home: Path = Field(default=Path(), exclude=True)
    file: Path = Field(default=Path("job.yaml"), exclude=True)
    variables: dict[str, str] = Field(default={}, exclude=True, repr=False)
    notes: list[str] = Field(default=[], exclude=True)

    @field_validator("trigger", mode="before")
    @classmethod
    def _trigger(cls, value: Any) -> Any:
        if value in ("available_now", "batch"):
            return Trigger(kind=value)
        if isinstance(value, dict) and set(value) == {"every"} and isinstance(value["every"], str):
            return Trigger(kind="every", every=value["every"])
        raise PydanticCustomError("trigger", "not a trigger")

    @field_validator("serve", mode="before")
    @classmethod
    def _serve(cls, value: Any) -> Any:
        plain = isinstance(value, str | int) and not isinstance(value, bool)
        return Serve(address=str(value)) if plain else value

    @property
    def family(self) -> Family:
        """The family of the query."""
        return family_of_job(type(self.query).model_fields)

    @property
    def sink(self) -> Sink:
        """The sink, of a job that has one."""
        return self.one_sink or self.sinks[0]

    @property
    def each_sink(self) -> list[Job]:
        """The same job for each of its sinks alone."""
        alone = [self.model_copy(update={"one_sink": sink, "sinks": []}) for sink in self.sinks]
        return alone or [self]

    @property
    def batch(self) -> bool:
        """Whether everything is read at once, not as a stream."""
        return self.trigger.kind == "batch"

    @property
    def title(self) -> str:
        """The name of the job, or of its file."""
        return self.name or self.file.stem

    def masked(self, text: str) -> str:
        """A text without the values of the file's variables."""
        return variables.masked(text, self.variables)

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

    def shared_places(self, default: str) -> tuple[list[str], list[str]]:
        """Paths of files that executors must see as this machine does: what is read and written.

        ``default`` is the file system of paths that name none. Of a pattern, the directory above.
        """
        written = [
            sink.path
            for sink in (self.sinks or [self.sink])
            if not sinks.kind_of(sink).driver_writes
        ]
        named = [self.source.path, self.checkpoint, self.source.bad_records, *written]
        places = [_on_this_machine(self.place(path), default) if path else None for path in named]
        source, *others = places
        if source is not None and re.search(r"[*?{\[]", source):
            source = os.path.dirname(re.split(r"[*?{\[]", source)[0])
        return [source] if source else [], [place for place in others if place is not None]

    def once(self) -> Job:
        """The same job over what there is now, whatever its trigger."""
        if self.trigger.kind != "every":
            return self
        return self.model_copy(update={"trigger": Trigger(kind="available_now")})


def _on_this_machine(place: str, default: str) -> str | None:
    """The path of a place on this machine's file system, None if it is on another."""
    url = place if _SCHEME.match(place) else f"{default.rstrip('/')}{place}"
    return re.sub("^file:(//[^/]*)?", "", url) if url.startswith("file:") else None


def load(path: str | Path, master: str | None = None) -> Job:
    """Read a job file and check all that can be checked without Spark.

    ``master`` wins over the file's. Raises :class:`QueryError` with the place in the file, what
    stands there and what was expected.
    """
    file = Path(path)
    content, lines = file_errors.parsed(_text(file), file.name)
    if not isinstance(content, dict):
        raise QueryError(
            f"{file.name} holds {file_errors.yaml_text(content)}",
            "source:, query: and sink:",
            "see the jobs page of the documentation",
        )
    query, home = content.get("query"), file.absolute().parent
    family = family_of_job(query if isinstance(query, dict) else {})
    model = create_model("Job", __base__=Job, query=(family.job_query, Field(description=_QUERY)))
    for reserved in ("home", "file", "variables", "notes"):
        if reserved in content:
            raise file_errors.unknown(file.name, (reserved,), lines, model)
    beside = {"home": home, "file": file, "notes": _notes(content)}
    content, values = variables.filled_in(content, file.name, lines)
    try:
        job = model.model_validate({**content, **beside, "variables": values})
    except ValidationError as error:
        masked = partial(variables.masked, values=values)
        wrong = file_errors.validation_error(error, file.name, lines, model, masked)
        raise variables.masked_error(wrong, values) from None
    if master is not None:
        session = job.session.model_copy(update={"master": master})
        job = job.model_copy(update={"session": session})
    try:
        job = job.model_copy(update={"query": job.query.loaded(home)})
        _check(job)
    except SkybandError as error:
        named = type(error)(f"{file.name}: {error.found}", error.expected, error.fix)
        raise variables.masked_error(named, values) from None
    return job


def _notes(content: Any) -> list[str]:
    """What people should know of a job file, though it is sound."""
    return [
        f"{place} holds a password in plain text: write ${{NAME}}, and set NAME in the environment"
        for place in variables.plain_passwords(content)
    ]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise QueryError(f"there is no file {str(file)!r}", "a job file in YAML") from None
    except UnicodeDecodeError:
        raise QueryError(f"{file.name} is not text in UTF-8", "a job file in YAML") from None
    except OSError as error:
        raise QueryError(f"{str(file)!r} cannot be read: {error.strerror}") from None


def words(job: Job) -> str:
    """The query of a job in words."""
    each = in_words(job.query.partition_by or [])
    where = f", where {job.query.where}" if job.query.where else ""
    return job.query.words() + (f", for each {each}" if each else "") + where


def _check(job: Job) -> None:
    """Refuse what concerns more than one field, or needs more than a type."""
    sources.check(job)
    job.query.check(safe_score, "marks" if job.drain else None)
    if job.query.where is not None:
        safe_score(job.query.where, option="where")
    _check_sinks(job)
    _check_run(job)
    _check_places(job)


def _check_sinks(job: Job) -> None:
    """Refuse none, one beside others, and two of one name."""
    if (job.one_sink is None) == (not job.sinks):
        raise QueryError(
            "both sink and sinks are given" if job.sinks else "sink is missing",
            "a sink: format, path, options; or sinks, a list of them",
        )
    names = [sink.title for sink in job.sinks]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise QueryError(
            f"two sinks are called {twice!r}", "names of their own", "write name: in each"
        )
    if job.sinks and (job.session.master or "").startswith("sc://"):
        raise QueryError(
            "several sinks over Spark Connect",
            "a checkpoint that this machine can read: sinks fetch their batches from there",
            "write one sink",
        )
    for one in job.each_sink:
        sinks.check(one.sink)


def _check_run(job: Job) -> None:
    connectors.check(job.connect)
    if job.connect and (job.session.master or "").startswith("sc://"):
        raise QueryError(
            "connect is given over Spark Connect",
            "a server that has the connectors",
            "leave it out, and start the server with the jars",
        )
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
    keeps = any(sinks.kind_of(one.sink).needs_checkpoint for one in job.each_sink)
    needed = keeps or bool(job.sinks) or not job.here
    if not job.batch and job.checkpoint is None and needed:
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
    """The directories of a job must not lie within each other."""
    named = {"source": job.source.path}
    for each in job.each_sink:
        named[f"sink {each.sink.title}" if job.sinks else "sink"] = each.sink.path
    named |= {"checkpoint": job.checkpoint, "source.bad_records": job.source.bad_records}
    places = {name: job.place(path) for name, path in named.items() if path is not None}
    for one, inner in places.items():
        for other, outer in places.items():
            if one != other and _within(inner, outer):
                raise QueryError(
                    f"the {one} ({inner}) is in the {other} ({outer})",
                    "directories of their own",
                )
