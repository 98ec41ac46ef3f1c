"""The page of a job: what its feed is told, from before Spark starts until the job has ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from skyband.serve.address import Address
from skyband.serve.feed import Feed, ServedQuery
from skyband.serve.history import Layout
from skyband.serve.server import PageServer
from skyband.spark.families import family_of
from skyband.spark.jobs.file import Job, words


class JobPage:
    """A feed and its server, told of a run by whoever watches it."""

    def __init__(self, job: Job, server: PageServer) -> None:
        self.feed, self.url = server.feed, server.url
        self._job = job

    def describe(self, run: Any) -> None:
        """Say what the run ranks, once it is prepared, and follow its batches."""
        query = run.query
        layout = layout_of(query, run.board_columns())
        names = (
            list(family_of(query).expanded(query)["workload"]["queries"])
            if layout.queries
            else [""]
        )
        served = [ServedQuery(n or words(self._job), layout, n) for n in names]
        family = type(family_of(query)).__name__
        self.feed.describe(served, family, run.explain_lines(), run.notes, query["windows"])
        answers = ServedQuery("", layout)
        run.progress.on_batch = lambda batch: self.feed.take(batch, answers)

    def see(self, run: Any) -> None:
        """Show how the run is doing."""
        self.feed.see(run.progress, sinks=run.sinks_behind(), catches_up=run.catches_up)


def layout_of(query: Mapping[str, Any], columns: Sequence[str]) -> Layout:
    """How the rows of a query are read, by its description."""
    queries = family_of(query).query_columns
    order = tuple(query.get("order", ()))
    names = order if order and all(name in columns for name in order) else ()
    is_plain = "rank_by" not in query and not queries  # else ranks do not tell rows apart
    k = int(query.get("k", 0)) if is_plain else 0
    return Layout(queries, tuple(query["keys"]), tuple(columns), names, query["emit"], k)


@contextmanager
def job_page(job: Job, address: str | None) -> Iterator[JobPage | None]:
    """The page of a job while the block runs; None if nobody wants one.

    ``address`` wins over that of the job.
    """
    option, token = "--serve", None
    if address is None and job.serve is not None:
        option, address, token = "serve", job.serve.address, job.serve.token
    if address is None:
        yield None
        return
    feed = Feed(job.masked(job.title))
    with PageServer(feed, Address.parsed(address, option), token, option) as server:
        yield JobPage(job, server)
