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
    """Find Chromium on this machine, or fetch the one of npm; fail with one line without both."""
    named = os.environ.get("SKYBAND_CHROMIUM")
    path = named or next(filter(None, map(shutil.which, NAMES)), None) or _chromium_of_npm()
    if not Path(path).exists():
        pytest.fail(f"There is no Chromium at {path}, which SKYBAND_CHROMIUM names.", pytrace=False)
    return path


def _chromium_of_npm() -> str:
    """Chromium from a package of npm, unpacked into the environment by the first who needs it."""
    folder = _fetched("@sparticuz/chromium@147", "Chromium: apt install chromium on Debian, or npm")
    unpacked = folder / "unpacked"
    unpacked.mkdir(exist_ok=True)
    script = (
        'import("@sparticuz/chromium").then((m) => m.default.executablePath()).then(console.log)'
    )
    command = ["node", "--input-type=module", "-e", script]
    environment = {**os.environ, "TMPDIR": str(unpacked)}
    ran = subprocess.run(
        command, cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    return ran.stdout.strip()


def axe() -> str:
    """Read axe-core, the checker of accessibility."""
    folder = _fetched("axe-core@4", "axe-core: install npm (Node.js)")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def _fetched(package: str, missing: str) -> Path:
    """The folder of a package of npm in the environment; the first time it is fetched there."""
    name = package.rpartition("@")[0]
    folder = Path(sys.prefix) / "npm" / name.replace("/", "-").strip("@")
    if not (folder / "node_modules" / name / "package.json").exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.fail(f"There is no {missing}.", pytrace=False)
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), package]
        subprocess.run(command, check=True, capture_output=True, text=True)
    return folder


if __name__ == "__main__":
    chromium(), axe()
