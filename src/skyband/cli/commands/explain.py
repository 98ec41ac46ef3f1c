"""``skyband explain``: how a query over a file, or a job, would be answered."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from io import StringIO
from typing import Any

from skyband.cli.commands import FAMILIES, family
from skyband.cli.commands.file_query import FileFacts, Given, QueryOptions
from skyband.cli.input.source import FileSource
from skyband.cli.output import progress
from skyband.cli.output.explanation import print_lines, print_metrics
from skyband.errors import QueryError

_NOT_OF_A_QUERY = ("file", "as_json", "physical")
_DEFAULTS = {
    "k": "10",
    "emit": "all",
    "ties": "newest",
    "rank_by": "row_number",
    "algorithm": "auto",
    "combine": "sum",
    "outside": "error",
    "repeats": "max",
}


def command(given: Given) -> None:
    """Print the plan of a query, with what the file tells if there is one; or that of a job."""
    files, as_json = given["file"] or [], given["as_json"]
    if _is_job(files, given):
        _explain_job(files[0], as_json, given["physical"])
        return
    query_options, facts = replace(_family(given).parse(given), where=given["where"]), None
    if files:
        with FileSource(files) as source:
            facts = source.read(partial(_facts, query_options))
    explanation = query_options.explain(facts)
    if as_json:
        print_metrics(explanation.metrics)
    else:
        print_lines(explanation.lines)


def _is_job(files: Sequence[str], given: Given) -> bool:
    """Whether a file is a job, whose query is its own."""
    job = len(files) == 1 and files[0].lower().endswith((".yaml", ".yml"))
    if job and any(
        value and value != _DEFAULTS.get(name)
        for name, value in given.items()
        if name not in _NOT_OF_A_QUERY
    ):
        raise QueryError(
            f"options of a query were given with the job {files[0]}",
            "the query that is in the job",
            "leave them out",
        )
    if given["physical"] and not job:
        raise QueryError(
            "--physical was given without a job", "a job file", "write skyband explain JOB.yaml"
        )
    return job


def _family(given: Given) -> type[QueryOptions]:
    """The family whose options were given."""
    known = next(one for one in map(family, FAMILIES) if one.meant_by(given))
    if given["also"] and known.option != "key":
        raise QueryError("--also without --key", "totals of keys", "write --key client")
    for name in known.excludes:
        if given[name]:
            problem = f"--{name} with --{known.option}"
            raise QueryError(problem, "one of them", f"leave --{name} out")
    for name in ("ties", "rank_by"):
        if known.option == "queries" and given[name] != _DEFAULTS[name]:
            option = f"--{name.replace('_', '-')}"
            problem = f"{option} with --{known.option}"
            raise QueryError(problem, f"{name} in the file of queries", f"leave {option} out")
    return known


def _facts(query_options: QueryOptions, source: FileSource) -> FileFacts:
    """Check a query against a file, and count its rows, the time that they span, and the keys."""
    query = query_options.checked(source)
    counts = ["count(*)", "NULL", "NULL"]
    if query.time is not None:
        counts[1] = f"max({query.time}) - min({query.time})"
    if query.keys:
        names = ", ".join(key.sql for key in query.keys)
        counts[2] = f"(SELECT count(*) FROM (SELECT DISTINCT {names} FROM {source.scan}))"
    rows, span, keys = source.single(f"SELECT {', '.join(counts)} FROM {source.scan}")
    more: Any = query_options.look_up(source, query)
    return FileFacts(source.shown, source.described(), rows, span, keys, query, more)


def _explain_job(file: str, as_json: bool, physical: bool) -> None:
    """Check a job as a run would, without running it, and print its plan."""
    from skyband.spark.jobs import file as jobs

    job = jobs.load(file)
    query = jobs.words(job)
    from skyband.spark.jobs.run import explained, job_lines, opened

    progress.tell("starting Spark, which takes some seconds")
    with opened(job) as spark:
        checked = explained(spark, job)
        for note in checked.notes:
            print(f"skyband: note: {note}", file=sys.stderr)
        if as_json:
            files = {} if checked.files is None else {"files": checked.files}
            print_metrics({"query": query, **files, **checked.plan.explain_metrics()})
        else:
            source = ("source", job.masked(f"{job.source.format}: {checked.columns}"))
            print_lines([("query", query), source, *job_lines(job, checked.plan, checked.files)])
        if physical:
            with redirect_stdout(StringIO()) as plan:
                checked.leaders.explain("formatted")
            print(f"\n{job.masked(plan.getvalue())}", end="")
