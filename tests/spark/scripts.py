"""Run Python files as scripts, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run_script(file: Path, home: Path, *arguments: str) -> str:
    """Return what a file prints; it must succeed, and leave nothing where it was started."""
    started, temporary = home / "started here", home / "temporary"
    started.mkdir()
    temporary.mkdir()
    modules = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": modules, "TMPDIR": str(temporary)}
    command = [sys.executable, str(file), *arguments]
    done = subprocess.run(
        command, cwd=started, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-5000:]}"
    assert not list(started.iterdir())
    return done.stdout
