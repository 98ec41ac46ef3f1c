"""A peer: a process that answers questions one by one, and is ended if one takes too long."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.peers import flink
from benchmarks.peers.question import Question

Requested = Callable[[Question, Path, Path], dict[str, Any]]


class Stopped(Exception):  # noqa: N818 - it is no error to be slow
    """A peer needed more time than it was given, and was ended."""


class Failed(Exception):  # noqa: N818 - shown in the table
    """A peer ended, or said why it cannot answer."""


def _plain(question: Question, source: Path, target: Path) -> dict[str, Any]:
    return {"question": asdict(question), "source": str(source), "target": str(target)}


def _ours(name: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.peers.child", name]


@dataclass(frozen=True)
class Peer:
    """What is measured: how its process is started, and what a request to it looks like.

    ``missing`` says what to do where it is not installed.
    """

    name: str
    command: Callable[[], list[str]]
    request: Requested = _plain
    missing: Callable[[], str | None] = lambda: None


def child(name: str) -> Peer:
    """A peer that a child of our own interpreter asks."""
    return Peer(name, lambda: _ours(name))


PEERS = (
    child("spark"),
    Peer("flink", flink.command, flink.request, flink.missing),
    child("duckdb"),
    child("duckdb-panes"),
    child("polars"),
    child("polars-panes"),
    child("skyband-local"),
    child("skyband"),
    child("skyband-scan"),
)
"""All systems, those of others first; each alone on the machine while it answers."""


@dataclass
class Running:
    """The process of a peer, started for its first question, and again after it was ended.

    All that it leaves lies in ``home``: its log, and what it could not keep in memory.
    """

    peer: Peer
    home: Path
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __enter__(self) -> Running:
        self.home.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()

    def ask(self, question: Question, source: Path, target: Path, limit: float) -> float:
        """The seconds that an answer took, as the peer measures them itself.

        Raises :class:`Stopped` after ``limit`` seconds, :class:`Failed` if there is no answer. The
        start of a process does not count.
        """
        shutil.rmtree(target, ignore_errors=True)
        process = self.process or self._start()
        assert process.stdin is not None
        request = self.peer.request(question, source, target)
        with suppress(BrokenPipeError):  # then there is no reply, which is told below
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        return self._reply(process, limit)

    def _reply(self, process: subprocess.Popen[bytes], limit: float) -> float:
        line = self._line(process, limit)
        reply = json.loads(line)
        if "error" in reply:
            raise Failed(reply["error"])
        seconds = float(reply["seconds"])
        if seconds > limit:
            raise Stopped
        return seconds

    def _line(self, process: subprocess.Popen[bytes], limit: float) -> bytes:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], limit)
        if not ready:
            self.end()
            raise Stopped
        line = process.stdout.readline()
        if not line:
            self.end()
            raise Failed(f"its process ended: {self._last_words()}")
        return line

    def _last_words(self) -> str:
        lines = (self.home / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "without a word"

    def _start(self) -> subprocess.Popen[bytes]:
        """Start it in a group of its own, which ends with it: Spark and Flink start Java.

        It says when it is ready, so that its start counts for no question.
        """
        spill = self.home / "spill"
        spill.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "TMPDIR": str(spill),
            "SPARK_LOCAL_DIRS": str(spill),
            "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={spill}",
        }
        with (self.home / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.peer.command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                cwd=flink.ROOT,
                start_new_session=True,
            )
        self._line(self.process, _START)
        return self.process

    def end(self) -> None:
        """End the process and all that it started, at once: nothing of it is needed any more."""
        process, self.process = self.process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        _remove(self.home / "spill")


_START = 600.0  # seconds, for a Java on a busy machine


def _remove(folder: Path) -> None:
    """Remove a folder, whose writers may be dying yet."""
    for _ in range(50):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)
