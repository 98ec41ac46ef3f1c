"""Commands in processes of their own, which are sent signals at chosen moments.

Whatever a command starts inherits a mark in its environment, so that nothing it leaves behind can
hide: neither a Java in a session of its own nor the Python workers of that.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MARK = "SKYBAND_SIGNALLED"
MOST_SECONDS = 180  # for anything that is waited for, far more than it takes


def until(happened: Callable[[], object], what: str, seconds: float = MOST_SECONDS) -> None:
    """Look again and again until something has happened."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"this did not happen: {what}"
        time.sleep(0.01)


def heed_signals() -> None:
    """Let a new process be ended by signals, though whoever runs the tests may ignore them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Signalled:
    """A command that runs in a process group of its own."""

    def __init__(self, home: Path, *arguments: object) -> None:
        self.home = home
        self.mark = f"{MARK}={uuid.uuid4().hex}"
        self.temporary = home / "temporary"
        self.temporary.mkdir(exist_ok=True)
        name, value = self.mark.split("=")
        environment = {**os.environ, name: value, "TMPDIR": str(self.temporary)}
        environment |= {"PYTHONWARNINGS": "error", "COLUMNS": "100"}
        with (home / "out.txt").open("wb") as out, (home / "err.txt").open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "skyband.cli", *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                env=environment,
                cwd=home,
                start_new_session=True,
                preexec_fn=heed_signals,
            )

    @property
    def out(self) -> str:
        """What it has printed."""
        return (self.home / "out.txt").read_text()

    @property
    def err(self) -> str:
        """What it has said on stderr."""
        return (self.home / "err.txt").read_text()

    def others(self) -> dict[int, str]:
        """The processes that it has started and that live, with their command lines."""
        return {pid: line for pid, line in marked(self.mark) if pid != self.process.pid}

    def java(self) -> list[int]:
        """Its Java processes."""
        return [pid for pid, line in self.others().items() if "SparkSubmit" in line]

    def wait_until(self, happened: Callable[[], object], what: str) -> None:
        """Wait for something that happens while it runs."""
        until(lambda: happened() or self.process.poll() is not None, what)
        assert self.process.poll() is None, f"it ended before: {what}\n{self.err}"

    def handles_signals(self) -> bool:
        """Whether it has begun to handle SIGTERM: before that, Python ends as it always does."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        caught = re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE)
        return bool(caught and int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)

    def reads(self, file: Path) -> bool:
        """Whether it has opened a file."""
        descriptors = Path(f"/proc/{self.process.pid}/fd")
        return any(_target(link) == str(file) for link in descriptors.iterdir())

    def ranks_on_spark(self) -> bool:
        """Whether Spark has started Python workers: it is inside of a batch."""
        return any("pyspark.daemon" in line for line in self.others().values())

    def send(self, number: signal.Signals, target: str) -> None:
        """Send a signal to the ``process``, to its ``group``, or to ``all`` that it has started."""
        pid = self.process.pid
        if target == "group":
            os.killpg(pid, number)
            return
        for each in [pid, *(self.others() if target == "all" else [])]:
            try:
                os.kill(each, number)
            except ProcessLookupError:
                continue

    def ended(self, code: int) -> None:
        """Check that it ends with an exit code, in plain words, and that nothing is left of it."""
        assert self.process.wait(MOST_SECONDS) == code, self.err
        for line in self.err.splitlines():
            assert line.startswith("skyband: "), self.err
        for word in ("Traceback", "Connection refused", "Exception", "check where the output goes"):
            assert word not in self.err + self.out, self.err
        until(lambda: not self.others(), "all processes end")
        assert [path.name for path in self.temporary.iterdir()] == []


@contextmanager
def command(home: Path, *arguments: object) -> Iterator[Signalled]:
    """A command whose processes do not outlast the block."""
    running = Signalled(home, *arguments)
    try:
        yield running
    finally:
        if running.process.stdin is not None:
            running.process.stdin.close()
        for pid, _ in marked(running.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        running.process.wait()


def marked(mark: str) -> Iterator[tuple[int, str]]:
    """The processes with a mark in their environment, and their command lines."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes()
            line = (entry / "cmdline").read_bytes()
        except OSError:  # another's, or it has ended
            continue
        if mark.encode() in environment.split(b"\0"):
            yield int(entry.name), line.replace(b"\0", b" ").decode(errors="replace")


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:  # it was closed while we looked
        return ""
