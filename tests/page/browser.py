"""Finds the browser that tests of the page run in, and the checker of accessibility."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox"]


def chromium() -> str:
    """Find Chromium; where there is none, fail and say what to install."""
    named = os.environ.get("SKYBAND_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None or not Path(found).exists():
        where = f" at {named}" if named else ""
        pytest.fail(
            f"There is no Chromium{where}: install it (on Debian, apt install chromium), "
            "or name one in SKYBAND_CHROMIUM.",
            pytrace=False,
        )
    return found


def axe() -> str:
    """Read axe-core; the first time npm fetches it into the environment."""
    folder = Path(sys.prefix) / "axe"
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.fail(
                "There is no npm, which fetches axe-core: install npm (Node.js).", pytrace=False
            )
        folder.mkdir(exist_ok=True)
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder)]
        subprocess.run([*command, "axe-core@4"], check=True, capture_output=True, text=True)
    return script.read_text(encoding="utf-8")
