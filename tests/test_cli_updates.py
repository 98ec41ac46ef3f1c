"""``--emit updates``: of a file every window is final, and says so."""

from __future__ import annotations

import csv
import io
import json

import pytest
from typer.testing import CliRunner

from skyband.cli.app import app

FILE = "ts,name,final,points\n1,a,x,3\n2,b,y,5\n3,a,z,4\n7,c,,1\n"
COMMANDS = {
    "top": ["--by", "points"],
    "totals": ["--by", "sum(points)", "--key", "name"],
    "dominating": ["--on", "points:max", "--on", "ts:min"],
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(FILE)
    return str(path)


def run(*arguments):
    ran = CliRunner().invoke(app, [*arguments, "--engine", "local"])
    assert ran.exit_code == 0, ran.output
    return ran.stdout


@pytest.mark.cli
@pytest.mark.parametrize("command", COMMANDS)
def test_rows_are_those_of_all_and_final(file, command):
    options = [*COMMANDS[command], "--k", "2", "--time", "ts", "--window", "4", "--slide", "2"]
    whole = list(csv.DictReader(io.StringIO(run(command, file, *options, "--format", "csv"))))
    shown = run(command, file, *options, "--format", "csv", "--emit", "updates")
    rows = list(csv.DictReader(io.StringIO(shown)))
    assert len(rows) == len(whole) > 4
    for row, expected in zip(rows, whole, strict=True):
        assert (row.pop("revision"), row.pop("final")) == ("1", "true")
        if "final" in expected:
            expected["final_1"] = expected.pop("final")
        assert row == expected


@pytest.mark.cli
def test_as_json_and_as_a_table(file):
    options = ["--by", "points", "--k", "1", "--time", "ts", "--window", "4", "--emit", "updates"]
    first, *_ = json.loads(run("top", file, *options, "--format", "json"))
    assert (first["revision"], first["final"], first["final_1"]) == (1, True, "y")
    assert "final_1" in run("top", file, *options)
