"""Connectors that Spark lacks: how their jars are fetched, and what stands in the way; no Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from skyband import SkybandError
from skyband.spark import connectors

JAR = "org.apache.spark:spark-avro_2.13:4.1.1"


def java(home: Path, script: str) -> str:
    """The home of a Java that is a script of the shell."""
    program = home / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(home / "java")


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("sleep 60", "Ivy has not ended after 1 seconds"),
        ("kill -9 $$", "Ivy was killed by SIGKILL"),
        ("echo ':: no-such-jar: not found ::'; exit 1", "no-such-jar: not found"),
    ],
)
def test_a_fetch_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, problem: str
) -> None:
    monkeypatch.setenv(
        "JAVA_HOME", java(tmp_path, f"exec {script}" if "sleep" in script else script)
    )
    if "sleep" in script:
        monkeypatch.setattr(connectors, "_MOST_SECONDS", 1.0)
    with pytest.raises(SkybandError) as error:
        connectors.fetch([JAR], tmp_path / "jars", with_dependencies=False)
    assert str(error.value) == (
        f"jars cannot be fetched: {problem}; expected Maven Central within reach; "
        f"fix: put spark-avro_2.13-4.1.1.jar into {tmp_path}/jars"
    )


def test_no_java_and_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(SkybandError, match=r"Java cannot be started.*No such file.*JAVA_HOME"):
        connectors.fetch([JAR], tmp_path / "jars", with_dependencies=False)
    (tmp_path / "file").touch()
    with pytest.raises(SkybandError, match=r"cannot be put into .*: Not a dir.* SKYBAND_JARS"):
        connectors.fetch([JAR], tmp_path / "file" / "jars", with_dependencies=False)


FETCH = """
import signal, sys
from pathlib import Path
from skyband.spark import connectors
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of shells ignore it
try:
    connectors.fetch([sys.argv[1]], Path(sys.argv[2]), with_dependencies=False)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_fetch_that_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal signals all processes of its group: that Ivy ends is no failure."""
    started = tmp_path / "started"
    monkeypatch.setenv("JAVA_HOME", java(tmp_path, f"touch {started}; exec sleep 60"))
    command = [sys.executable, "-c", FETCH, JAR, str(tmp_path / "jars")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    ) as fetching:
        while not started.exists():
            assert fetching.poll() is None
            time.sleep(0.01)
        assert os.getpgid(fetching.pid) == fetching.pid != os.getpgrp()
        os.killpg(fetching.pid, signal.SIGINT)
        out, err = fetching.communicate(timeout=60)
    assert (out, err) == ("interrupted\n", "")
    assert list((tmp_path / "jars").iterdir()) == []


def test_extensions_of_the_session_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connectors, "fetched", lambda jars: [Path("a.jar")])
    delta = "io.delta.sql.DeltaSparkSessionExtension"
    monkeypatch.setattr(connectors.pyspark, "__version__", "4.2.1")
    for others, joined in (
        ({}, delta),
        ({connectors.EXTENSIONS: "org.example.Mine"}, f"org.example.Mine,{delta}"),
        ({connectors.EXTENSIONS: f"{delta}, a.B"}, f"{delta}, a.B"),
    ):
        assert connectors.settings({"delta": "auto"}, others)[connectors.EXTENSIONS] == joined
    assert connectors.EXTENSIONS not in connectors.settings({"kafka": "auto"}, {})
