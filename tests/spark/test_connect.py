"""The same answers over Spark Connect."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.scripts import run_script

pytestmark = pytest.mark.spark


def test_connect_gives_what_the_oracle_gives(tmp_path: Path) -> None:
    assert run_script(
        Path(__file__).with_name("over_connect.py"), tmp_path, str(tmp_path)
    ).endswith("all is as it should be\n")
