"""What stands in the place of Skyband in an archive: unpacks it once, and becomes it.

Numba keeps compiled kernels of files alone, by their paths, and Spark puts what it is sent into a
new folder for each application. So the archive is unpacked into a folder named by its content, from
which every application imports it, and finds the kernels compiled.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from pathlib import Path

FILES = "files"
"""The folder of the archive that holds the files of the package."""


def folder_for(archive: Path) -> Path:
    """Where an archive is unpacked: below NUMBA_CACHE_DIR, or in the user's own cache."""
    caches = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    base = Path(caches) if caches else Path.home() / ".cache"
    return base / "skyband-sent" / archive.stem.rpartition("-")[2]


def unpacked(archive: Path) -> Path:
    """The folder of the unpacked package; what is there already is complete."""
    folder = folder_for(archive)
    if not folder.exists():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            staged = Path(tempfile.mkdtemp(dir=folder.parent))
        except OSError as error:
            raise ImportError(
                f"cannot write to {folder.parent}: {error}", path=str(folder)
            ) from None
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(staged)
        try:
            (staged / FILES).rename(folder)
        except OSError:  # another worker was first
            if not folder.exists():
                raise
        finally:
            shutil.rmtree(staged, ignore_errors=True)
    return folder / "skyband"


if __name__ == "skyband":
    _package = unpacked(Path(__file__).parents[1])
    __path__ = [str(_package)]
    __file__ = str(_package / "__init__.py")
    exec(compile(Path(__file__).read_bytes(), __file__, "exec"))
