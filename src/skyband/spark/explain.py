"""How Spark would answer a query, in words: what is kept where, and how much of it."""

from __future__ import annotations

import math
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    FloatType,
    IntegerType,
    MapType,
    ShortType,
    StructType,
)

from skyband.durations import spoken
from skyband.spark.families.arrival import ALGORITHM
from skyband.spark.families.dominating import explain as dominating
from skyband.spark.families.dominating.plan import DominatingQuestion
from skyband.spark.families.incomplete import explain as incomplete
from skyband.spark.families.incomplete.plan import IncompleteQuestion
from skyband.spark.families.totals import explain as totals
from skyband.spark.families.totals.plan import TotalsQuestion
from skyband.spark.families.workload import explain as shared
from skyband.spark.families.workload.plan import SharedQuestion
from skyband.spark.jobs.file import FILES, Job
from skyband.spark.plan import Question
from skyband.windows import Panes

_FIXED = 4 * 8  # bytes of a candidate besides its columns: score, pane, place, how often beaten
_TEXT, _MANY = 24, 64  # assumed bytes of a text, and of an array, map or structure
_OPEN = 2  # panes that are being filled while rows come in order

Words = list[tuple[str, str]]


def words(job: Job, question: Question | SharedQuestion) -> Words:
    """The plan of a job, as names and sentences."""
    base: Question
    if isinstance(question, DominatingQuestion):
        base = question
        plan = [*_windows(question), *dominating.words(question, row_bytes(question))]
        when = _when(question)
    elif isinstance(question, IncompleteQuestion):
        base = question
        plan = [*_windows(question), *incomplete.words(question)]
        when = _when(question)
    elif isinstance(question, TotalsQuestion):
        base = question
        plan = [*_windows(question), *totals.words(question)]
        when = _when(question)
    elif isinstance(question, SharedQuestion):
        base = question.base
        plan = shared.words(question, row_bytes(base))
        when = _when(base, shared.boundaries(question).step)
    else:
        base = question
        plan = [*_windows(question), *_path(question), *_state(question)]
        when = _when(question)
    return [*plan, *_times(base, when), ("sink", sink(job)), ("run", _run(job))]


def figures(question: Question | SharedQuestion) -> dict[str, Any]:
    """The numbers of a plan, by name."""
    if isinstance(question, SharedQuestion):
        return shared.figures(question, row_bytes(question.base))
    if isinstance(question, DominatingQuestion):
        return dominating.figures(question, row_bytes(question), _per_window(question))
    if isinstance(question, IncompleteQuestion):
        return incomplete.figures(question, _per_window(question))
    if isinstance(question, TotalsQuestion):
        return totals.figures(question, _per_window(question))
    window = question.query.window
    panes = Panes(window.size, window.slide)
    row = row_bytes(question)
    rows = state_rows(question)
    return {
        "path": "row" if question.arrival else "pane",
        "pane": panes.lengths[0],
        "second_pane": panes.lengths[1] if len(panes.lengths) > 1 else None,
        "panes_per_window": _per_window(question),
        "candidates_per_key": candidates(question),
        "open_panes": None if question.arrival else open_panes(question),
        "state_rows_per_key": rows,
        "bytes_per_row": row,
        "state_bytes_per_key": rows * row,
    }


def candidates(question: Question) -> int:
    """Rows per key that may still win, for scores in random order.

    Of the j-th newest of m panes k/j rows are among the k best since then: k(1 + ln m) in all.
    """
    window, k = question.query.window, question.query.k
    if question.arrival:  # the engine keeps every row of a slide that is not complete
        return min(window.size, math.ceil(k * (1 + math.log(window.size / min(k, window.size)))))
    steps = math.ceil(window.size / window.slide)
    return math.ceil(k * (1 + math.log(steps)))


def open_panes(question: Question) -> int:
    """Panes that rows may still come for: those within the delay, and the newest."""
    per_step = 2 if question.query.window.size % question.query.window.slide else 1
    return per_step * (_OPEN + math.ceil(question.delay / question.query.window.slide))


def state_rows(question: Question) -> int:
    """Rows per key that the state store holds."""
    if question.arrival:
        return candidates(question)
    return candidates(question) + question.query.k * open_panes(question)


def row_bytes(question: Question) -> int:
    """Bytes of a row in the state, about."""
    return _FIXED + sum(_width(column.travels) for column in question.kept)


def _width(type: DataType) -> int:
    if isinstance(type, (BooleanType, ByteType)):
        return 1
    if isinstance(type, ShortType):
        return 2
    if isinstance(type, (IntegerType, FloatType, DateType)):
        return 4
    if isinstance(type, (ArrayType, MapType, StructType)):
        return _MANY
    return _TEXT if type.simpleString() in ("string", "binary") else 8


def _per_window(question: Question) -> int:
    whole, rest = divmod(question.query.window.size, question.query.window.slide)
    return 2 * whole + 1 if rest else whole


def _windows(question: Question) -> Words:
    window = question.query.window
    lengths = [_length(question, length) for length in Panes(window.size, window.slide).lengths]
    count = _per_window(question)
    if len(lengths) == 1:
        return [("panes", f"{lengths[0]} each, {count:,} in a window")]
    uneven = "the slide does not divide the window"
    return [("panes", f"{lengths[0]} and {lengths[1]} in turn, {count:,} in a window: {uneven}")]


def _length(question: Question, length: int) -> str:
    return spoken(length) if question.timed else f"{length:,} row{'' if length == 1 else 's'}"


def _path(question: Question) -> Words:
    k, asked = question.query.k, question.asked
    if question.arrival:
        algorithm = f"{asked.algorithm}: asked for by name"
        if asked.algorithm == "auto":
            algorithm = (
                f"{ALGORITHM}: its state, which each batch reads and writes, is the smallest"
            )
        return [
            ("path", "rows: a window counts the rows of its key as they come, so each is seen"),
            ("", "rows wait for the watermark, then go to the local engine in the order of time"),
            ("algorithm", algorithm),
        ]
    return [
        ("path", "panes: their best rows are found inside the JVM; no other row reaches Python"),
        ("algorithm", "the minimal candidate set over panes, as MinTopk keeps it over slides:"),
        ("", f"a row is forgotten once {k:,} rows rank above it that live at least as long"),
        ("before the shuffle", f"at most {k:,} rows of each pane, key and task"),
    ]


def _state(question: Question) -> Words:
    figure = figures(question)
    keys = question.keys
    each = f" for each {' and '.join(keys)}" if keys else ""
    bytes = figure["state_bytes_per_key"]
    told: Words = [
        ("candidates", f"about {figure['candidates_per_key']:,}{each}, of scores in random order")
    ]
    if not question.arrival:
        told.append(
            (
                "open panes",
                f"about {figure['open_panes']}{each}, of at most {question.query.k:,} rows",
            )
        )
    told.append(
        (
            "state",
            f"about {figure['state_rows_per_key']:,} rows of {figure['bytes_per_row']:,} bytes"
            f"{each}: {_size(bytes)}" + (", times the number of keys" if keys else ""),
        )
    )
    return told


def _size(bytes: int) -> str:
    return f"{bytes / 1e6:,.1f} MB" if bytes >= 1e6 else f"{bytes / 1e3:,.1f} kB"


def _times(question: Question, when: str) -> Words:
    at = question.at
    order = (
        f"higher score, then newer {at}" if question.timed else f"higher score, then higher {at}"
    )
    objects = isinstance(question, IncompleteQuestion)
    names = [column.name for column in question.kept] if objects else list(question.ties)
    ties = f", then higher {', '.join(names)}" if names else ""
    told: Words = [("order", order + ties)]
    if question.timed or question.arrival:
        delay, skew = spoken(question.delay), question.skew
        told.append(("watermark", f"rows up to {delay} behind the newest {at} always count"))
        told.append(("", "later ones may be dropped, and are counted; no answer is taken back"))
        told.append(("answers", when))
        ahead = (
            f", and rows more than {spoken(skew)} ahead of the clock" if skew is not None else ""
        )
        told.append(("set aside", f"rows without {at}{ahead}: never ranked, counted"))
    else:
        told.append(("watermark", f"rows up to {question.delay:,} behind the highest {at} count"))
        told.append(("answers", when))
    missing = "value or id" if objects else "score"
    if isinstance(question, TotalsQuestion):
        missing = question.told.value or missing
    if isinstance(question, DominatingQuestion):
        missing = "one of these attributes"
    told.append(("not ranked", f"rows whose {missing} is NULL or NaN: counted"))
    if question.deduplicate:
        told.append(("once", f"rows that repeat {', '.join(question.deduplicate)} count once"))
    return told


def _when(question: Question, step: int | None = None) -> str:
    """When a window is answered: the watermark moves by whole slides, or steps of a workload."""
    if question.arrival:
        return f"once a row from more than {spoken(question.delay)} after a window's last has come"
    step = step or question.query.window.slide
    wait = -(-question.delay // step) * step
    if not question.timed:
        return f"once row number end + {wait:,} of a window, or a later one, has come"
    after = f"{spoken(wait)} or more after" if wait else "at or after"
    return f"a window, once a row from {after} its end has come"


def sink(job: Job) -> str:
    """Where results go, and how often each row gets there."""
    kind = job.sink.format.lower()
    place = "" if job.sink.path is None else f" in {job.place(job.sink.path)}"
    if kind == "console":
        return "the leaderboard in the terminal only"
    if kind == "files":
        form = job.sink.file_format or "parquet"
        return f"{form} files{place}, a directory per batch: each row exactly once"
    if kind in FILES:
        return f"{kind} files{place}: each row exactly once"
    return f"{job.sink.format}{place}: at least once, unless that sink can do better"


def _run(job: Job) -> str:
    if job.batch:
        return "a batch: everything is read once, every window is answered"
    often = {
        "available_now": "over what is there now, then it ends",
        "every": f"every {job.trigger.every} until it is stopped",
    }[job.trigger.kind]
    drain = "; then it is drained: every window is answered" if job.drain else ""
    where = (
        "no checkpoint: a new run begins anew"
        if job.checkpoint is None
        else (f"checkpoint {job.place(job.checkpoint)}")
    )
    return f"{often}{drain}; {where}"
