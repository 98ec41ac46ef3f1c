"""Brokers of Kafka that a job needs: looked for before anything starts, and watched meanwhile.

Clients of Kafka try for minutes, and say nothing to people; so we look whether anybody listens.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from skyband.errors import DataError
from skyband.spark.sinks.kafka import SERVERS
from skyband.spark.sinks.patience import LOG

if TYPE_CHECKING:
    from skyband.spark.jobs.file import Job
    from skyband.spark.jobs.sinks import Sink
    from skyband.spark.jobs.sources import Source

_TIMEOUT = 3.0  # seconds until a server that does not answer counts as down
_PAUSE = 2.0  # seconds between two looks


def bootstrap_servers(job: Job, several_sinks: bool = False) -> dict[str, str]:
    """The places in a job that name brokers, and the brokers, ``several_sinks`` among them or not.

    A Spark Connect server may see brokers that this machine does not.
    """
    if (job.session.master or "").startswith("sc://"):
        return {}
    parts: dict[str, Source | Sink] = {"source": job.source}
    if not job.sinks:
        parts["sink"] = job.sink
    elif several_sinks:
        parts |= {f"sinks {sink.title}": sink for sink in job.sinks}
    return {
        f"{name}.options.{SERVERS}": str(part.options[SERVERS])
        for name, part in parts.items()
        if part.format.lower() == "kafka" and SERVERS in part.options
    }


def check(job: Job) -> None:
    """Refuse to start where no broker listens; one of several sinks holds up no other."""
    for place, servers in bootstrap_servers(job).items():
        reason = _unreachable(servers)
        if reason is not None:
            raise DataError(
                f"Kafka cannot be reached at {servers}: {reason}",
                f"a broker that listens at one of the addresses in {place}",
                "start it, or mend the address",
            )


def refuse_lost(job: Job) -> None:
    """Say that a broker is not there any more, if that is why a run has failed."""
    for servers in bootstrap_servers(job, several_sinks=True).values():
        reason = _unreachable(servers)
        if reason is not None:
            raise DataError(
                f"the query stopped: Kafka cannot be reached at {servers}: {reason}",
                "a broker that answers",
                "start it and run again: the stream goes on where it was",
            )


@contextmanager
def watched(job: Job) -> Iterator[None]:
    """Say in the log when no broker can be reached any more, and when one is there again."""
    addresses = sorted(set(bootstrap_servers(job, several_sinks=True).values()))
    if not addresses:
        yield
        return
    ended = threading.Event()
    watch = threading.Thread(
        target=_watch, args=(addresses, ended), name="skyband brokers", daemon=True
    )
    watch.start()
    try:
        yield
    finally:
        ended.set()
        watch.join()


def _watch(addresses: list[str], ended: threading.Event) -> None:
    down: dict[str, float] = {}
    while not ended.wait(_PAUSE):
        for servers in addresses:
            reason = _unreachable(servers)
            if reason is not None and servers not in down:
                down[servers] = time.monotonic()
                LOG.warning("Kafka at %s cannot be reached, waiting for it: %s", servers, reason)
            elif reason is None and servers in down:
                seconds = time.monotonic() - down.pop(servers)
                LOG.warning("Kafka at %s is there again after %.0f seconds", servers, seconds)


def _unreachable(servers: str) -> str | None:
    """Why none of some servers, as in ``host:9092,other:9092``, can be reached; None if one can."""
    reason = "no address is given"
    for server in filter(None, (each.strip() for each in servers.split(","))):
        host, _, port = server.split("://")[-1].rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT).close()
        except ValueError:
            reason = f"{server!r} is not host:port"
        except OSError as error:
            reason = error.strerror or str(error)
        else:
            return None
    return reason
