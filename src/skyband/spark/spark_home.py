"""A home of Spark from which Python workers start sooner.

Java puts ``python/lib/pyspark.zip`` of Spark's home first on the path of every Python that it
starts: for a stream, for a task. What Python imports from an archive it compiles anew each time,
and for PySpark that is most of a start. So an embedded Spark gets a home made of links, where what
is called an archive is a folder with the installed package, which is compiled already.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import py4j  # type: ignore[import-untyped]
import pyspark


def linked_home() -> Path | None:
    """The home made of links, made now if need be; None where Spark's own has to do."""
    if "SPARK_HOME" in os.environ:  # somebody else's Spark
        return None
    packages = {Path(module.__path__[0]) for module in (pyspark, py4j)}
    digest = hashlib.sha256(f"{pyspark.__version__} {sorted(packages)}".encode())
    home = _cache() / f"spark-home-{digest.hexdigest()[:16]}"
    try:
        if not home.exists():
            _make(home, packages)
    except OSError:  # no links here, or no place to write
        return None
    return home


def _cache() -> Path:
    """The user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "skyband"


def _make(home: Path, packages: set[Path]) -> None:
    """Make the links in a folder of another name first: others may be about to do the same."""
    spark = Path(pyspark.__path__[0])
    archives = list((spark / "python" / "lib").glob("*.zip"))
    if not archives:
        raise FileNotFoundError("there are no archives to replace")
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as folder:
        links = Path(folder) / "home"
        links.mkdir()
        for entry in spark.iterdir():
            if entry.name != "python":
                (links / entry.name).symlink_to(entry)
        for archive in archives:
            package = next(path for path in packages if archive.name.startswith(path.name))
            stand_in = links / "python" / "lib" / archive.name
            stand_in.mkdir(parents=True)
            (stand_in / package.name).symlink_to(package)
        try:
            links.rename(home)
        except OSError:
            if not home.exists():
                raise
