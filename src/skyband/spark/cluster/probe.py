"""What an executor has, asked where it runs.

These functions travel by value and use the standard library alone: there may be no Skyband yet.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("numba", "numpy", "pandas", "pyarrow", "typing_extensions", "xxhash")
"""What Python workers import beside Skyband and Spark."""


class Report(NamedTuple):
    """What one executor has.

    ``digest`` is that of its Skyband, None if there is none; ``missing`` are packages; ``unseen``
    are places of the driver that are not there; ``unwritable`` is the folder in which compiled
    kernels cannot be kept, None if they can.
    """

    host: str
    python: str
    digest: str | None
    missing: list[str]
    unseen: list[str]
    unwritable: str | None


def report(
    digest: str, places: list[str]
) -> tuple[str, str, str | None, list[str], list[str], str | None]:
    """The fields of a :class:`Report` on the executor that this runs on.

    A Skyband of another digest is not imported: a worker could not forget it any more.
    """
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    unseen = [place for place in places if not os.path.exists(place)]
    spec = importlib.util.find_spec("skyband")
    origin = None if spec is None else spec.origin
    installed, unwritable = None, None
    try:
        if origin is not None and digest in origin:  # it was sent, and unpacks itself
            import skyband

            origin = skyband.__file__
        if origin is not None:
            installed = digest_of(Path(origin).parent)
        if installed == digest and "numba" not in missing:
            unwritable = unwritable_cache()
    except ImportError as error:
        unwritable = error.path
    return socket.gethostname(), sys.executable, installed, missing, unseen, unwritable


def unwritable_cache() -> str | None:
    """The folder of compiled kernels, if nothing can be written there."""
    from skyband.kernels.jit import cache_folder

    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return str(folder)
    return None


def digest_of(package: Path) -> str:
    """A digest of all that a package is made of."""
    digest = hashlib.sha256()
    for name, content in files_of(package):
        digest.update(name.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()[:16]


def files_of(package: Path) -> Iterator[tuple[str, bytes]]:
    """The source files of a package, by their names within it, in order."""
    for file in sorted(package.rglob("*.py")):
        yield file.relative_to(package).as_posix(), file.read_bytes()
