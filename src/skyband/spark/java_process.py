"""The Java process that Spark runs in: deaf to the signals that end us, shy, and it may be gone.

``timeout`` and a terminal signal a whole process group, systemd every process of a service. If Java
ended with us, nothing could be stopped in order. So it starts in a session of its own and ignores
these signals; it ends when its driver does, since then its standard input is closed.

Everyone on a machine can see the command lines of processes, and settings may hold passwords. So
Java reads its settings from a file that nobody else may read, and that is deleted when it is up.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseServer
from subprocess import Popen, TimeoutExpired
from tempfile import NamedTemporaryFile
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import accumulators, java_gateway

from skyband.errors import SkybandError

GONE = (ConnectionError, EOFError, Py4JNetworkError)
"""What is raised where Java does not answer any more."""

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_PATIENCE = 30.0  # seconds in which a Java that is to end removes its temporary files
_NOTICED = 2.0  # seconds after its last word in which the end of a Java is known
_started: list[Popen[Any]] = []


@contextmanager
def launching(home: Path | None = None) -> Iterator[None]:
    """Let a Java that starts within this block ignore signals that end us, and hide settings.

    ``home`` is another home of Spark than its own.
    """
    gateway: Any = java_gateway
    launch = gateway.Popen

    def deaf(command: Any, preexec_fn: Callable[[], None] | None = None, **options: Any) -> Any:
        def ignore_signals() -> None:
            if preexec_fn is not None:
                preexec_fn()
            for number in ENDING_SIGNALS:
                signal.signal(number, signal.SIG_IGN)

        if home is not None:
            options["env"]["SPARK_HOME"] = str(home)
        options["start_new_session"] = True
        process = launch(_hidden(command, file.name), preexec_fn=ignore_signals, **options)
        _started.append(process)
        return process

    servers: Any = (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer)
    for server in servers:
        server.handle_error = _handle_error_of_accumulators
    with NamedTemporaryFile("w", prefix="skyband-settings-", encoding="ascii") as file:
        gateway.Popen = deaf
        try:
            yield
        finally:
            gateway.Popen = launch


def _handle_error_of_accumulators(server: BaseServer, request: Any, client_address: Any) -> None:
    """Print an error of the thread that reads accumulators, unless it is that Java has ended.

    Whoever talks to Java raises that; a traceback of this thread would only stand beside it.
    """
    if not isinstance(sys.exc_info()[1], GONE):
        BaseServer.handle_error(server, request, client_address)


def _hidden(command: list[str], file: str) -> list[str]:
    """A command of Spark that takes its settings from a file, to which they are written.

    It stays as it is where people have set a file of their own.
    """
    if "--properties-file" in command:
        return command
    program, *words = command
    settings = []
    while words[:1] == ["--conf"]:
        settings.append(words[1].partition("="))
        words = words[2:]
    lines = [f"{_escaped(name)}={_escaped(value)}\n" for name, _, value in settings]
    Path(file).write_text("".join(lines), encoding="ascii")
    return [program, "--properties-file", file, "--load-spark-defaults", *words]


def _escaped(text: str) -> str:
    """A text as a file of properties has it, whatever is in it."""
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def end() -> None:
    """End the Java that was started here, without a word to it.

    This is for who was interrupted while Java had not answered yet: it may be busy for hours, and
    it would be asked on the same line. A second interrupt kills it.
    """
    while _started:
        process = _started[-1]
        try:
            if process.stdin is not None:
                process.stdin.close()
            process.wait(_PATIENCE)
        except TimeoutExpired:
            process.kill()
        except BaseException:
            process.kill()
            raise
        _started.pop()


def kill() -> None:
    """Kill the Java that was started last, which cannot be ended otherwise while it starts."""
    if _started:
        _started[-1].kill()


def is_gone(error: BaseException) -> bool:
    """Whether an error tells that Java has ended, or that it cannot be reached any more."""
    if not isinstance(error, GONE) and type(error) is not Py4JError:
        return False  # Java has said what is wrong
    if not _started:
        return True
    try:
        _started[-1].wait(_NOTICED)
    except TimeoutExpired:
        return False
    return True


def gone(resumes: str) -> SkybandError:
    """The error that Spark has ended; ``resumes`` says how to go on."""
    return SkybandError("Spark is gone: its Java process has ended", fix=resumes)
