"""Skyband as an archive that Spark sends to executors."""

from __future__ import annotations

import zipfile
from pathlib import Path

import skyband
from skyband.spark.cluster import unpacking
from skyband.spark.cluster.probe import digest_of, files_of

_PACKAGE = Path(skyband.__file__).parent


def digest() -> str:
    """The digest of the Skyband that runs here."""
    return digest_of(_PACKAGE)


def write_archive(folder: Path) -> Path:
    """Write the archive into a folder; its name holds the digest."""
    archive = folder / f"skyband-{digest()}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.write(unpacking.__file__, "skyband/__init__.py")
        for name, content in files_of(_PACKAGE):
            packed.writestr(f"{unpacking.FILES}/skyband/{name}", content)
    return archive
