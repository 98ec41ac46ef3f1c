"""The example notebook runs from its first cell to its last, and shows what it should."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from tests.spark.scripts import EXAMPLES

pytestmark = [pytest.mark.spark, pytest.mark.cli]

KERNEL = "skyband-test"
NOTEBOOK = EXAMPLES / "notebook.ipynb"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kernel of this very Python, in a folder of its own: nobody needs to have installed one."""
    home = tmp_path / "jupyter"
    spec = home / "kernels" / KERNEL
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    words = {"argv": argv, "display_name": KERNEL, "language": "python"}
    (spec / "kernel.json").write_text(json.dumps(words))
    for name, folder in (
        ("JUPYTER_PATH", home),
        ("JUPYTER_RUNTIME_DIR", home / "runtime"),
        ("IPYTHONDIR", home / "ipython"),
        ("MPLCONFIGDIR", home / "matplotlib"),
    ):
        monkeypatch.setenv(name, str(folder))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return KERNEL


def shown(cell: Any, kind: str) -> str:
    """What a cell shows in one way, all of its outputs together."""
    return "".join(output["data"].get(kind, "") for output in cell.outputs if "data" in output)


def test_the_notebook_runs(kernel: str, tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=600, kernel_name=kernel, resources=place).execute()
    cells = {
        cell.source.splitlines()[-1]: cell for cell in notebook.cells if cell.cell_type == "code"
    }
    assert "top 5 keys by sum" in shown(cells["query"], "text/html")
    assert "window (UTC)" in shown(cells["ranked"], "text/html")
    assert "algorithm" in shown(cells["monitor.explain()"], "text/html")
    plots = [cell for source, cell in cells.items() if source.startswith("ranked.plot")]
    assert [bool(shown(cell, "image/png")) for cell in plots] == [True, True]
    drawn = shown(cells["live = board(query)"], "text/html")
    assert drawn.count("The query") == 1
    last = shown(cells["live"], "text/html")
    assert "turnover: " in last
    assert "The query has ended. This is its last board." in last
    assert last.count("<tr>") == 6


def test_the_notebook_holds_no_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell for cell in code if cell.outputs or cell.execution_count] == []
