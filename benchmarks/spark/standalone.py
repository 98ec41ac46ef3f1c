"""A Spark cluster on this machine: a master and workers, each a process of its own, on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

EXECUTOR = "CoarseGrainedExecutorBackend"
PATIENCE = 120.0  # seconds, far more than a start takes
SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Settings of drivers, which listen on loopback, too."""


@dataclass
class Standalone:
    """A master and its workers; logs and work directories lie in ``home``.

    Workers have ``environment`` in addition to that of this process, and hand it on to executors.
    Those that are ``pinned`` have a core of this machine each, with all that they start: else the
    compiler, the collector and the Python workers of a single one would use the others.
    """

    home: Path
    workers: int = 2
    cores: int = 1
    memory: str = "1g"
    environment: dict[str, str] = field(default_factory=dict)
    pinned: bool = False
    port: int = field(init=False)
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port = listener.getsockname()[1]

    @property
    def master(self) -> str:
        """The url of the master."""
        return f"spark://127.0.0.1:{self.port}"

    def __enter__(self) -> Standalone:
        self.home.mkdir(parents=True, exist_ok=True)
        try:
            address = ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0"]
            self._start("master.Master", "master", address)
            self._wait_for("master", "New state: ALIVE")
            for number in range(self.workers):
                self._start_worker(number)
            for number in range(self.workers):
                self._wait_for(f"worker-{number}", "Successfully registered with master")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(timeout=PATIENCE)
        self._processes.clear()

    def _start_worker(self, number: int) -> None:
        folder = self.home / f"worker-{number}"
        room = ["--cores", str(self.cores), "--memory", self.memory, "--work-dir", str(folder)]
        address = ["--host", "127.0.0.1", "--webui-port", "0"]
        with self._on_core(number):
            self._start("worker.Worker", folder.name, [*address, *room, self.master])

    @contextmanager
    def _on_core(self, number: int) -> Iterator[None]:
        """Give what starts within this block one core, if workers are pinned."""
        if not self.pinned:
            yield
            return
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {sorted(cores)[number % len(cores)]})
        try:
            yield
        finally:
            os.sched_setaffinity(0, cores)

    def executors(self) -> list[int]:
        """The process ids of the executors that the workers have started, the oldest first."""
        listed = subprocess.run(
            ["ps", "-ww", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
        )
        workers = {process.pid for process in self._processes[1:]}
        lines = [line.split(None, 2) for line in listed.stdout.splitlines() if EXECUTOR in line]
        return sorted(int(pid) for pid, parent, _ in lines if int(parent) in workers)

    def _start(self, name: str, log: str, arguments: list[str]) -> None:
        import pyspark

        spark = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark),
            "SPARK_SCALA_VERSION": "2.13",  # else executors look for it in folders of a build
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            **self.environment,
        }
        java = ["java", "-Xmx256m", *os.environ.get("SPARK_SUBMIT_OPTS", "").split()]
        # as Spark itself starts Java: an archive of its classes fits no other order
        first = map(str, spark.glob("jars/slf4j-api-*.jar"))
        class_path = ":".join([f"{spark}/conf", *first, f"{spark}/jars/*"])
        command = [*java, "-cp", class_path]
        command += [f"org.apache.spark.deploy.{name}", *arguments]
        with self._log(log).open("ab") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        self._processes.append(process)

    def _log(self, name: str) -> Path:
        return self.home / f"{name}.log"

    def _wait_for(self, name: str, words: str) -> None:
        wait_for(lambda: words in self._log(name).read_text(), f"{words!r} in {self._log(name)}")


def wait_for(holds: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait until something holds; raises if it never does."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            raise TimeoutError(f"waited {seconds:.0f} seconds for {what}")
        time.sleep(0.05)
