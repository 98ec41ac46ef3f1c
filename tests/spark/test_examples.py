"""Each example runs as its reader would run it, and says what it should."""

from __future__ import annotations

import re
import runpy
import tempfile
from pathlib import Path

import pytest

from tests.spark.scripts import EXAMPLES

pytestmark = pytest.mark.spark

PATTERNS = {
    "batch_backfill.py": [
        r"batch:  1,320 rows",
        r"stream: 1,320 rows .* 4 files",
        r"rows that differ: 0",
    ],
    "connect.py": [
        r"a client of Spark 4\.\d+\.\d+ \(pyspark\.sql\.connect",
        r"14:30:10  1  \w+ +[\d,.]+",
        r"rows of stream and batch that differ: 0",
    ],
    "count_windows_per_key.py": [
        r"after trade 1,000 .* comes in at 1",
        r"goes from \d to \d",
        r"falls out, it was \d",
    ],
    "files_to_parquet.py": [
        r"40,000 new rows; 3 windows .*\n40,000 new rows; 7 .*\n40,000 new rows; 12 ",
        r"0 new rows; 19 windows answered",
        r"refused: checkpoint \S+ belongs to another query: k was 3 and is now 5",
        r"refused: this stream was drained",
        r"(  \d\d:\d\d:\d\d-\d\d:\d\d:\d\d  \w+ .*\n){19}",
    ],
    "objects_of_many_rows.py": [
        r"fastest cars\n(  \d\d:\d\d  \w\w-\d{3} \([\d.]+\), \w\w-\d{3} \([\d.]+\)\n){19}",
        r"largest clients\n(  \d\d:\d\d  \d+ \([\d,.]+\), \d+ \([\d,.]+\)\n){11}",
    ],
}


def assert_matches(output: str, name: str) -> None:
    """What an example has printed is what it should."""
    for pattern in PATTERNS[name]:
        assert re.search(pattern, output), output


@pytest.mark.usefixtures("lasting_session")
@pytest.mark.parametrize("name", [name for name in PATTERNS if name != "connect.py"])
def test_an_example_runs_and_leaves_nothing(
    tmp_path: Path,
    name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the session that is running; ``connect.py`` is run by ``over_connect.py``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert_matches(capsys.readouterr().out, name)
    assert not list(tmp_path.iterdir())


def test_every_example_is_listed_and_run() -> None:
    files = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py")}
    assert files == {*PATTERNS, "pipeline/run.py", "pipeline/transformations/leaders.py"}
    listed = (EXAMPLES / "README.md").read_text()
    assert [name for name in (*PATTERNS, "pipeline/run.py", "jobs/") if name not in listed] == []
